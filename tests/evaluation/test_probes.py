import pytest

from evaluation.core.items import build_probes, parse, random_baseline
from evaluation.core.questions import Questions, folded, mcq_question, qa_question
from evaluation.core.report import probe_report
from trace_site.lib.errors import TraceError

MCQ = {
    "id": "m1",
    "tool": "A/x",
    "question": "What?",
    "correct": "yes",
    "wrong": ["no", "nay", "nope"],
    "domain": "hr",
}
TOOLS = [
    {"name": f"PayV{n}/{end}", "domain": "hr", "description": text}
    for n in (1, 2)
    for end, text in [
        (
            "readGross",
            f"Returns the gross pay of one employee for period {n}. Version {n} covers part-time staff only.",
        ),
        (
            "readNet",
            f"Returns the net pay after deductions in release {n}. It needs an open payroll period {n} first.",
        ),
        (
            "sendSlip",
            f"Sends the payslip of release {n} by mail. PayV{n}/sendSlip never stores the file for {n} days.",
        ),
    ]
]
NEAR = {tool["name"]: [other["name"] for other in TOOLS if other is not tool] for tool in TOOLS}


def test_letter_of_the_correct_option_depends_on_the_seed_alone():
    assert mcq_question(MCQ, seed=4) == mcq_question(MCQ, seed=4)
    for seed in range(20):
        question = mcq_question(MCQ, seed=seed)
        assert question["choices"]["ABCD".index(question["answer"])] == "yes"
    assert {mcq_question(MCQ, seed=seed)["answer"] for seed in range(40)} == set("ABCD")


def test_yes_no_question_has_two_options():
    row = {"id": 7, "tool": "A/x", "question": "Is it?", "answer": "No", "domain": "hr"}
    question = qa_question(row)
    assert (question["id"], question["choices"], question["answer"]) == ("7", ["Yes", "No"], "B")


def test_expert_answer_must_be_a_letter_of_its_choices():
    row = {"id": "e", "question": "?", "choices": ["a", "b"], "answer": "C", "domain": "hr"}
    with pytest.raises(TraceError, match="f.jsonl:1: answer 'C' is not a letter of its 2 choices"):
        parse("mcq_expert", [("f.jsonl:1", row)])


def test_random_baseline_of_the_published_option_counts():
    counts = {2: 58, 3: 74, 4: 301, 5: 21}
    questions = [{"choices": ["x"] * k} for k, n in counts.items() for _ in range(n)]
    assert random_baseline(questions) == pytest.approx(0.2932, abs=5e-5)


def test_accuracy_is_shown_by_domain_beside_its_baseline():
    rows = [
        {
            "id": f"{n}",
            "question": "?",
            "choices": ["a", "b"],
            "answer": "A",
            "domain": "hr" if n < 3 else "finance",
        }
        for n in range(4)
    ]
    answers = [{"id": f"{n}", "letter": letter} for n, letter in enumerate("ABAA")]
    result = probe_report(answers, rows)["slices"]
    assert result["all"]["accuracy"]["mean"] == 0.75 and result["all"]["n"] == 4
    assert result["hr"]["accuracy"]["mean"] == pytest.approx(2 / 3)
    assert result["finance"]["random"] == 0.5 and result["finance"]["options"] == {"2": 1}


def test_unanswered_question_is_an_error():
    with pytest.raises(TraceError, match="no prediction .first: m1"):
        probe_report([], [mcq_question(MCQ)])


@pytest.mark.parametrize("kind", ["mcq", "qa"])
def test_built_probes_repeat_and_never_name_the_tool(kind):
    rows, again = (build_probes(kind, TOOLS, NEAR, 8, seed=1) for _ in range(2))
    assert rows == again and len(rows) == 8
    assert len({row["id"] for row in rows}) == 8
    for row in rows:
        text = " ".join([row["question"], row.get("correct", ""), *row.get("wrong", [])])
        assert not any(part.lower() in text.lower() for part in (row["tool"], *row["tool"].split("/")))
        assert row["built"] == "offline" and row["domain"] == "hr"


def test_wrong_options_are_distinct_and_not_true_of_the_tool():
    by_name = {tool["name"]: tool["description"] for tool in TOOLS}
    for row in build_probes("mcq", TOOLS, NEAR, 6):
        own = folded(by_name[row["tool"]])
        assert len({*row["wrong"], row["correct"]}) == 4
        assert all(folded(wrong) not in own for wrong in row["wrong"])


def test_twins_with_one_description_make_no_question():
    twins = [
        {"name": f"A/{n}", "domain": "hr", "description": "Does the very same thing always."}
        for n in range(5)
    ]
    near = {tool["name"]: [other["name"] for other in twins if other is not tool] for tool in twins}
    assert build_probes("mcq", twins, near, 5) == []


def test_yes_and_no_are_about_equally_frequent():
    answers = [row["answer"] for row in build_probes("qa", TOOLS, NEAR, 10, seed=2)]
    assert 4 <= answers.count("Yes") <= 6


def test_edited_statement_changes_one_decisive_word():
    builder = Questions(TOOLS, NEAR)
    assert builder._edited("Returns the gross pay.", "PayV1/readGross") == "Overwrites the gross pay."
    assert builder._edited("Keeps it for 30 days.", "PayV1/readGross") == "Keeps it for 31 days."
    assert builder._edited("Nothing decisive here.", "PayV1/readGross") is None


@pytest.mark.parametrize("kind", ["mcq", "qa"])
def test_built_probes_ask_about_every_tool(kind):
    asked = {row["tool"] for row in build_probes(kind, TOOLS, NEAR, 200)}
    assert asked == {tool["name"] for tool in TOOLS}
