"""What the engine says beside an answer, with texts in place of a model."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from catalog.core.tokens import NameIndex  # noqa: E402
from evaluation.ml.export import Export  # noqa: E402
from evaluation.ml.rows import listed_row, parsed_row, ranked_row  # noqa: E402
from evaluation.ml.trie import Mask  # noqa: E402
from evaluation.ml.write import Written  # noqa: E402

pytestmark = pytest.mark.ml
NAMES = ["Leave/Get", "PayV1/Get", "PayV2/Get"]


class TextExport:
    """An export whose tokens are texts."""

    spec: dict[str, object] = {}
    names = NAMES
    overlay = None

    def __init__(self, fmt="c", chat=None):
        self.index = NameIndex(NAMES, fmt)
        self.chat = chat or SimpleNamespace(markers=SimpleNamespace(close="\n</think>\n"))

    def text(self, ids):
        return "".join(ids)

    def shown(self, ids, item):
        return self.index.to_names(self.text(ids))

    def token(self, name):
        return "".join(self.index.units[name])


def written(export, trace, *answer):
    """A trace in which {0}, {1}, {2} are tools by number, and the listed tools by number."""
    thinking = [trace.format(*map(export.token, NAMES)), "\n</think>\n"] if trace else []
    entries = ", ".join(f'"{export.token(NAMES[number])}"' for number in answer)
    return Written(
        thinking=thinking, answer=[f"[{entries}]"], tools=list(answer), scores=[-0.1] * len(answer)
    )


def both_ways(trace, *answer, banned=frozenset(), fmt="c"):
    export = TextExport(fmt)
    result = written(export, trace, *answer)
    return [row(export, {"id": "1"}, result, Mask(banned)) for row in (listed_row, parsed_row)]


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_an_answer_other_than_the_last_tool_its_trace_names_does_not_follow_it(fmt):
    for row in both_ways("{1} is old, so it is {2}.", 2, fmt=fmt):
        assert (row["follows_trace"], row["trace_tools"]) == (True, ["PayV2/Get"])
    for row in both_ways("{1} is old, so it is {2}.", 1, fmt=fmt):
        assert (row["follows_trace"], row["trace_tools"]) == (False, ["PayV2/Get"])
        assert row["trace"] == "PayV1/Get is old, so it is PayV2/Get."


def test_an_answer_of_two_tools_is_held_against_two():
    for row in both_ways("Not {0}: {1} and {2}, that is {1}.", 1, 2):
        assert row["follows_trace"] and set(row["trace_tools"]) == {"PayV1/Get", "PayV2/Get"}


def test_a_trace_that_names_no_tool_is_not_followed_and_says_which_it_is():
    for trace in ("Somebody wants a slip.", "Is it Leave/Get, spelled out, or <<Leave>> alone?"):
        for row in both_ways(trace, 0):
            assert (row["follows_trace"], row["trace_tools"]) == (False, [])


def test_an_answer_without_a_trace_has_nothing_to_follow():
    for row in both_ways("", 0):
        assert (row["trace"], row["follows_trace"], row["trace_tools"]) == ("", None, [])
    ranked = ranked_row(TextExport(), {"id": "1"}, [(0, -0.5)])
    assert (ranked["follows_trace"], ranked["trace_tools"]) == (None, [])


def test_a_tool_withheld_after_decoding_is_no_change_of_mind():
    for row in both_ways("It is {2}.", 2, banned=frozenset([2])):
        assert (row["tools"], row["follows_trace"]) == ([], True)


class ShortChat:
    """Reads two words."""

    is_cut = staticmethod(lambda query, permissions: len(query.split()) + len(permissions) > 2)


def test_a_request_says_whether_it_was_cut_and_that_nobody_knows_what_else_was_not_read():
    export = TextExport(chat=ShortChat())
    asked = [{"query": "my pay"}, {"query": "my old pay"}, {"query": "my pay", "permissions": ["pay"]}]
    assert [Export.about(export, item) for item in asked] == [  # type: ignore[arg-type]
        {"cut_request": cut, "unread": None} for cut in (False, True, True)
    ]
