"""Filter V: planted faults are caught with their evidence, clean samples pass, whatever surrounds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesis.core.filters import failures, query_failures
from synthesis.core.names import ToolNames, committed, rule_codes
from synthesis.core.words import NearDuplicates, words
from tests.synthesis.texts import TOOLS, TRACE, candidate, context


def checks(**changes):
    return {failure.check for failure in failures(candidate(**changes), context())}


def test_a_clean_sample_passes():
    assert failures(candidate(), context()) == []


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("grounding", {"answer": ("CarPool/BookCar",)}),
        ("grounding", {"answer": ("Nowhere/Nothing",)}),
        ("grounding", {"answer": ()}),
        ("grounding", {"trace": TRACE.replace("look alike.", "look alike, as does CarPool/BookCar.")}),
        ("grounding", {"trace": TRACE.replace("look alike.", "look alike, as does PayNova/GetWageSheet.")}),
        ("grounding", {"trace": TRACE.replace("look alike.", "look alike, as does WageHub/ListWages.")}),
        ("leakage", {"query": "please run PayOne/GetPayslip for November 2022"}),
        ("leakage", {"query": "please getPayslip for November 2022 now"}),
        ("leakage", {"query": "can you get payslip November 2022 for me"}),
        ("leakage", {"query": "can you get_payslip for November 2022"}),
        ("leakage", {"query": "what does PAYSLIP_PERIOD say on November 2022"}),
        ("leakage", {"query": "by payslip period which one for November 2022"}),
        ("leakage", {"query": "i need <<PayOne&&GetPayslip>> of November 2022"}),
        ("leakage", {"query": "i need <tid><<PayOne>><<GetPayslip>></tid> of November 2022"}),
        ("leakage", {"query": "what does Get.PAY-slip say on November 2022"}),
        ("leakage", {"query": "what does getpayslip say on November 2022"}),
        ("leakage", {"query": "what does g\u0435t p\u0430yslip say on November 2022"}),
        ("leakage", {"query": "what does G\u200bet\u200bPayslip say on November 2022"}),
        ("leakage", {"query": "what does ＧｅｔＰａｙｓｌｉｐ say on November 2022"}),
        ("leakage", {"query": "could time desk submit leave take November 2022"}),
        ("leakage", {"query": "xxPayOne/GetPayslipxx for November 2022 please"}),
        ("consistency", {"answer": ("PayNova/GetPayslipLines",)}),
        ("consistency", {"answer": ("PayOne/GetPayslip", "PayOne/GetPayslip")}),
        ("consistency", {"trace": TRACE + " Or rather PayNova/GetPayslip."}),
        (
            "consistency",
            {"trace": TRACE.replace("So PayOne/GetPayslip.", "So PayOne/GetPayslip and PayNova/GetPayslip.")},
        ),
        ("consistency", {"trace": TRACE.replace("/GetPayslip", "")}),
        ("grounding", {"trace": TRACE.replace("look alike.", "look alike, as does PayOne/GetPayslip/more.")}),
        ("grounding", {"trace": TRACE.replace("look alike.", "look alike, as does payone/getPayslip.")}),
        ("grounding", {"trace": TRACE.replace("look alike.", "look alike, as does P\u0430yOne/GetPayslip.")}),
        ("consistency", {"trace": TRACE + " Good luck with it."}),
        ("attribution", {"trace": TRACE.replace("PAYSLIP_PERIOD", "The rule")}),
        ("attribution", {"trace": TRACE.replace("PAYSLIP_PERIOD", "Payslip period")}),
        ("attribution", {"trace": TRACE.replace("look alike.", "look alike, says LEAVE_ATTACHMENT.")}),
        ("attribution", {"branch": "rrb", "style": "", "rule_tools": (), "rule_code": "", "tier": "easy"}),
        ("attribution", {"trace": TRACE.replace("PAYSLIP_PERIOD", "PAYSLIP_PERIODS")}),
        ("target", {"style": "implicit"}),
        ("target", {"answer": ("PayNova/GetPayslip",)}),
        ("target", {"answer": ("PayClassic/GetPayslip",)}),
        ("target", {"branch": "rrb", "style": "", "rule_tools": (), "tier": "medium"}),
        ("clean_voice", {"trace": "From the candidate pool: " + TRACE}),
        ("clean_voice", {"trace": "As per the feedback. " + TRACE}),
        ("clean_voice", {"trace": TRACE.replace("both hold", "with payroll.read both hold")}),
        ("clean_voice", {"trace": TRACE.replace("look alike", "are the tools provided")}),
        ("clean_voice", {"trace": TRACE.replace("look alike", "look alike <<PayOne&&GetPayslip>>")}),
        ("length", {"query": "payslip"}),
        ("length", {"trace": "So PayOne/GetPayslip, by PAYSLIP_PERIOD."}),
        ("length", {"query": "word " * 80}),
    ],
)
def test_a_planted_fault_is_caught(check, changes):
    assert check in checks(**changes)


def test_a_failure_shows_the_evidence_and_where_it_is():
    trace = TRACE.replace("look alike.", "look alike, as does CarPool/BookCar.")
    failure = failures(candidate(trace=trace), context())[0]
    start, end = failure.span
    assert trace[start:end] == failure.evidence == "CarPool/BookCar"


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("can you get  payslip November 2022 for me", "get  payslip"),
        ("ask Pay-One: get_payslip, November 2022", "Pay-One: get_payslip"),
        ("and payslipPeriod on November 2022", "payslipPeriod"),
        ("say ＧｅｔＰａｙ\u200bｓｌｉｐ on November 2022", "ＧｅｔＰａｙ\u200bｓｌｉｐ"),
    ],
)
def test_a_leak_in_another_spelling_shows_the_words_as_typed(query, shown):
    (failure,) = query_failures(candidate(query=query), context())
    assert (failure.check, failure.evidence) == ("leakage", shown)
    assert query[slice(*failure.span)] == shown


def test_word_limits_come_from_the_recipe():
    tight = context(query_words=(2, 5), trace_words=(1, 12))
    found = {f.message: f for f in failures(candidate(), tight)}
    query, trace = candidate().query, candidate().trace
    told = found["The query has 12 words; 2 to 5 are allowed."]
    assert query[slice(*told.span)] == told.evidence == "from November 2022 for the tax office"
    assert trace[slice(*found["The trace has 36 words; 1 to 12 are allowed."].span)].startswith("both hold")


def test_a_code_of_one_word_may_be_said_by_chance_but_not_written_as_the_code():
    one = {"rule_code": "PAYDOC", "trace": TRACE.replace("PAYSLIP_PERIOD", "PAYDOC")}
    assert checks(**one, query="i need my paydoc from November 2022 now") == set()
    assert checks(**one, query="i need my PAYDOC from November 2022 now") == {"leakage"}
    assert list(rule_codes(["PAYDOC", "LEAVE_ATTACHMENT"]).names) == ["LEAVE_ATTACHMENT"]


@pytest.mark.parametrize("odd", ['Pay/say "so"', "Pay/App\\Http::show", "Pay/List<T>", "Pay/\\"])
def test_an_answer_may_hold_any_letter_in_its_name(odd):
    found = query_failures(
        candidate(answer=(odd,), pool=frozenset({odd}), branch="imported", style="", rule_tools=()),
        context(names=ToolNames([odd])),
    )
    assert found == []


def test_two_answers_with_one_token_are_refused():
    twins = ("Pay&&Now/get", "Pay/Now&&get")
    fields = {"answer": twins, "pool": frozenset(twins), "branch": "imported", "style": "", "rule_tools": ()}
    (failure,) = query_failures(candidate(**fields), context(names=ToolNames(twins)))
    assert failure.message == "Two answers share a token."


@pytest.mark.parametrize(
    "said",
    [
        "the and/or of it",
        "24/7 or 12/05/2024",
        "AP/AR and HR/Payroll",
        "Q1/Q2, v1/v2",
        "his/her km/h",
        "https://pay.example/help",
    ],
)
def test_words_joined_by_a_slash_are_no_invented_tools(said):
    assert checks(trace=TRACE.replace("look alike.", f"look alike, {said}.")) == set()


def test_names_beyond_ascii_pass_next_to_other_odd_characters():
    odd = ("Zahlung/r\u00fcck-\u00fcberweisung", "\u652f\u4ed8/\u9000\u6b3e", "Pay Desk/make it")
    trace = TRACE.replace("look alike.", f"look alike, \u2713 unlike {', '.join(odd)}.")
    names = ToolNames([*(tool.name for tool in TOOLS), *odd])
    tried = candidate(trace=trace, pool=candidate().pool | set(odd))
    assert failures(tried, context(names=names)) == []


def test_a_list_on_lines_of_its_own_commits_to_all_of_it():
    names = ToolNames(["A/one", "A/two", "A/six"])
    for text in ("Not A/six. So:\n- A/one\n- A/two", "Not A/six.\n1. A/one\n2. A/two\n"):
        assert committed(text, names.mentions(text)) == ["A/one", "A/two"]


def test_one_common_word_of_a_title_is_no_leak():
    assert checks(query="what was on my payslip in November 2022") == set()


def test_a_near_duplicate_is_refused():
    seen = NearDuplicates()
    seen.add("I need my pay document from November 2022 for the tax office!")
    found = query_failures(candidate(), context(seen=seen))
    assert [failure.check for failure in found] == ["near_duplicate"]


def test_an_imported_query_keeps_its_words():
    assert (
        query_failures(candidate(branch="imported", query="GetPayslip", style="", rule_tools=()), context())
        == []
    )


def test_the_longest_name_wins_and_a_full_stop_ends_it():
    names = ToolNames(tool.name for tool in TOOLS)
    text = "Not TimeDesk/SubmitLeave.v2 but TimeDesk/SubmitLeave. And XTimeDesk/SubmitLeave is none."
    found = names.mentions(text)
    assert [name for _, _, name in found] == ["TimeDesk/SubmitLeave.v2", "TimeDesk/SubmitLeave"]
    assert all(text[start:end] == name for start, end, name in found)


def test_the_commitment_is_the_last_sentence_that_names_tools():
    names = ToolNames(["A/get.one", "A/get.two", "A/get"])
    text = "A/get.one or A/get.two? It is A/get.two. That ends it."
    assert committed(text, names.mentions(text)) == ["A/get.two"]


NAMES = [tool.name for tool in TOOLS]
PROSE = st.text(alphabet="ab ,.;()'\"", max_size=30)


@given(st.lists(st.tuples(PROSE, st.sampled_from(NAMES)), max_size=8), PROSE)
def test_mentions_equal_a_scan_name_by_name(parts, tail):
    """Against the plain reading: every name that stands free is found, in order, nothing else is."""
    text = "".join(f"{prose} {name} " for prose, name in parts) + tail
    assert [name for _, _, name in ToolNames(NAMES).mentions(text)] == [name for _, name in parts]


@given(st.text(max_size=300))
def test_no_text_breaks_the_filter(text):
    for changes in ({"query": text}, {"trace": text}):
        for failure in failures(candidate(**changes), context()):
            assert failure.message


WORDS = st.lists(st.sampled_from([letter * 2 for letter in "abcdefghijkl"]), max_size=14).map(" ".join)


@given(st.lists(WORDS, max_size=25), WORDS, st.sampled_from([0.5, 0.6, 0.75, 0.8, 0.9, 1.0]))
def test_near_duplicates_are_found_exactly(texts, query, threshold):
    index = NearDuplicates(threshold)
    for text in texts:
        index.add(text)
    asked = set(words(query))

    def close(text):
        other = set(words(text))
        common = len(asked & other)
        return bool(asked and other) and common >= threshold * len(asked | other)

    assert (index.find(query) is not None) == any(map(close, texts))


@pytest.mark.parametrize("size", [58, 60, 61, 75, 190, 205, 3000])
def test_near_duplicates_of_any_length_are_found_and_cost_little(size):
    index, text = NearDuplicates(), " ".join(f"word{number}" for number in range(size))
    index.add(text)
    longer = f"{text} {' '.join(f'more{number}' for number in range(size // 4))}"
    assert index.find(longer) == text
    assert index.find(f"{longer} {' '.join(f'other{number}' for number in range(size // 10 + 1))}") is None
