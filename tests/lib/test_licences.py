"""A licence as people write it, and as the card of a dataset names it."""

import pytest
import yaml

from trace_site.lib.errors import TraceError
from trace_site.lib.provenance import card_lines, licence_of


def test_a_licence_is_one_plain_line_or_none():
    assert licence_of("  Ours,\n ask  first ") == "Ours, ask first"
    assert licence_of(" ") == ""


@pytest.mark.parametrize("text", ["x" * 101, "Apache\x00-2.0", "right\u202eleft"])
def test_a_licence_that_is_too_long_or_not_plain_is_refused(text):
    with pytest.raises(TraceError, match="at most 100 plain characters"):
        licence_of(text, "--licence")


@pytest.mark.parametrize(
    ("licence", "read"),
    [
        ("", {"license": "unknown"}),
        ("Apache-2.0", {"license": "apache-2.0"}),
        ('Ours: #1 "ask" {first}', {"license": "other", "license_name": 'Ours: #1 "ask" {first}'}),
    ],
)
def test_the_card_says_it_in_yaml_that_reads_back(licence, read):
    assert yaml.safe_load("\n".join(card_lines(licence))) == read
