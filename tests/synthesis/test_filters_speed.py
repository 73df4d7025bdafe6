"""The name scan of filter V finds what a scan name by name finds, at a fraction of its cost."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from synthesis.core.names import ToolNames
from tests.bench.filter_speed import ByName, automaton_scan, compare, long_samples
from tests.synthesis.clean_samples import read_public

DATA = Path(settings.TRACE_PUBLIC_DATA)
pytestmark = pytest.mark.skipif(
    not (DATA / "catalog").is_dir(), reason="the public data is absent (set TRACE_PUBLIC_DATA)"
)


def test_the_scan_is_fifty_times_cheaper_than_one_name_by_name() -> None:
    public = read_public(DATA)
    found = compare(list(public.tools), long_samples(public, 60), pairs=3)
    assert found.ratio >= 50  # 150 and more where nothing else runs


def test_both_scans_find_the_same_in_texts_full_of_names_run_together() -> None:
    public, rng = read_public(DATA), random.Random(5)
    tools = list(public.tools)
    plain, names = ByName(tools), ToolNames(tools)
    for sample in long_samples(public, 40):
        glue = rng.choice(("", ".", "-", "/", " ", ", ", "é", "_"))
        text = glue.join(rng.choice(tools)[rng.choice((0, 0, 1)) :] for _ in range(8))
        query = rng.choice((text.replace("/", ""), text.lower(), text.replace("-", " ").replace("/", " ")))
        spoilt = replace(sample, trace=text, query=query)
        assert plain.scan(spoilt) == automaton_scan(names, spoilt)
