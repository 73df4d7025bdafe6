"""Spans of refused texts: joined they are the text, and each piece says every check that refuses it there."""

from hypothesis import given
from hypothesis import strategies as st

from synthesis.core.filters import failures
from synthesis.samples.checks import failure_spans, trace_spans
from tests.synthesis.texts import TOOLS, TRACE, candidate, context

TEXT = st.text(alphabet="ab \n<>&é\u200b", max_size=30)
PLACE = st.integers(-3, 40)


@given(
    TEXT, st.lists(st.tuples(PLACE, PLACE, st.sampled_from(["leakage", "length"]), st.booleans()), max_size=6)
)
def test_joined_spans_are_the_text(text: str, places: list[tuple[int, int, str, bool]]) -> None:
    told = [
        {
            "check": check,
            "message": f"m{number}",
            "evidence": text[start:end] if real else "elsewhere",
            "span": [start, end],
        }
        for number, (start, end, check, real) in enumerate(places)
    ]
    spans = failure_spans(text, told)
    assert "".join(span.text for span in spans) == text
    at = 0
    for span in spans:
        covering = [
            f"m{number}"
            for number, (start, end, _, real) in enumerate(places)
            if real and 0 <= start <= at and at + len(span.text) <= end <= len(text)
        ]
        assert list(span.messages) == covering
        assert bool(span.checks) == bool(covering)
        at += len(span.text)


def test_the_failures_of_an_attempt_are_coloured_in_the_text_they_are_about() -> None:
    trace = TRACE.replace("look alike.", "look alike, as does CarPool/BookCar.")
    tried = candidate(query="can you get payslip November 2022 for me", trace=trace)
    told = [failure.as_dict() for failure in failures(tried, context())]
    marked = [(s.text, s.checks) for s in failure_spans(tried.query, told) if s.checks]
    assert marked == [("get payslip", ("leakage",))]
    assert [s.text for s in failure_spans(trace, told) if s.checks] == ["CarPool/BookCar"]


def test_a_text_without_failures_is_one_plain_piece() -> None:
    (span,) = failure_spans("all is well", [])
    assert (span.text, span.checks) == ("all is well", ())
    assert failure_spans("", []) == []


def test_what_two_checks_refuse_tells_both() -> None:
    told = [
        {"check": "leakage", "message": "a", "evidence": "bcd", "span": [1, 4]},
        {"check": "length", "message": "b", "evidence": "de", "span": [3, 5]},
    ]
    found = [(span.text, span.checks) for span in failure_spans("abcdef", told)]
    assert found == [
        ("a", ()),
        ("bc", ("leakage",)),
        ("d", ("leakage", "length")),
        ("e", ("length",)),
        ("f", ()),
    ]


@given(st.lists(st.sampled_from([*(tool.name for tool in TOOLS), "and", "then.", "é\n", "X/y"]), max_size=12))
def test_trace_spans_joined_are_the_trace(words: list[str]) -> None:
    text = " ".join(words)
    spans = trace_spans(text, [tool.name for tool in TOOLS], [TOOLS[0].name], ["then"])
    assert "".join(span.text for span in spans) == text


def test_the_rules_own_words_are_marked_and_tools_in_them_stay_tools():
    rule = "From 2024 on, payslips of workers abroad come from New/Get."
    text = "By SLIP_YEAR, from 2024 on, payslips of workers abroad come from New/Get. So it is New/Get."
    spans = trace_spans(text, ["New/Get"], ["New/Get"], ["SLIP_YEAR"], rule)
    assert "".join(span.text for span in spans) == text
    quoted = [span for span in spans if span.quoted]
    assert (
        "".join(span.text for span in quoted) == "from 2024 on, payslips of workers abroad come from New/Get"
    )
    assert [span.kind for span in quoted] == ["text", "tool"]


def test_a_few_words_in_common_are_no_quote():
    assert not any(
        span.quoted for span in trace_spans("From 2024 on it is new.", [], [], [], "From 2024 on, payslips")
    )
