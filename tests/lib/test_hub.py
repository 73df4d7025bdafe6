"""A model of a hub is loaded by the commit that is meant, or not at all."""

import re

import pytest
from django.conf import settings

from trace_site.lib.errors import TraceError
from trace_site.lib.hub import COMMIT, REVISIONS, pinned, revision_of

ROOT = settings.BASE_DIR
LOADS = r"(?:from_pretrained|SentenceTransformer|cached_file|hf_hub_download|snapshot_download|load_whole)"
CALL = re.compile(rf"(?<!def )\b{LOADS}\(((?:[^()]|\([^()]*\))*)\)")


def test_every_base_that_we_name_has_a_full_commit():
    assert all(COMMIT.fullmatch(revision) for revision in REVISIONS.values())
    compose = (ROOT / "docker-compose.yml").read_text()
    (named,) = re.findall(r"BASE_MODEL:-([^}]+)\}", compose)
    assert revision_of(named) == REVISIONS[named]


def test_a_name_of_a_hub_needs_a_full_commit_and_a_folder_none(tmp_path):
    commit = 40 * "a"
    assert pinned(f"org/base-1B@{commit}") == ("org/base-1B", {"revision": commit})
    assert pinned(str(tmp_path)) == (str(tmp_path), {})
    for source in ("org/base-1B", "org/base-1B@main", f"org/base-1B@{commit[:12]}", f"{tmp_path}/missing"):
        with pytest.raises(TraceError) as refused:
            pinned(source)
        assert refused.value.code == "no_revision" and "NAME@COMMIT" in str(refused.value)


def test_whatever_is_loaded_lies_here_or_has_a_commit():
    calls = [
        (path.name, call)
        for folder in ("trace_site", "catalog", "rules", "synthesis", "training", "evaluation")
        for path in (ROOT / folder).rglob("*.py")
        for call in CALL.findall(path.read_text())
    ]
    sure = r"\*\*at\b|local_files_only=True|^\s*source,.*\*\*options"  # the last: load_whole, whose callers say it
    assert len(calls) > 8
    assert [one for one in calls if not re.search(sure, one[1], re.DOTALL)] == []


@pytest.mark.ml
def test_the_commit_is_what_is_loaded_and_what_a_stage_was_made_from(monkeypatch):
    pytest.importorskip("torch")
    from training.core.recipe import Recipe
    from training.core.stages import steps
    from training.ml.bases import named

    asked = []

    def load(name, **options):
        asked.append((name, options["revision"]))
        raise OSError("no network")

    base, commit = next(iter(REVISIONS.items()))
    monkeypatch.setattr(named.AutoTokenizer, "from_pretrained", load)
    for source in (base, "org/base-1B@" + 40 * "b"):
        with pytest.raises(TraceError, match="no network"):
            named.load_named(source)
    assert asked == [(base, commit), ("org/base-1B", 40 * "b")]
    before = steps(Recipe(base=base), "snapshot", "catalog")
    monkeypatch.setitem(REVISIONS, base, 40 * "c")
    assert before[0].key != steps(Recipe(base=base), "snapshot", "catalog")[0].key
