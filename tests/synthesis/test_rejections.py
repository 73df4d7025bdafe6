"""What readers said of a rule's samples: counted by reason, told to its author, and nothing before it is final."""

import pytest
from django.contrib.auth.models import User

from catalog.models import Tool
from rules.models import RuleVersion
from synthesis.models import Sample, SecondShare
from synthesis.review import services as review_services
from synthesis.samples.rejections import (
    Rejections,
    critique,
    rejections_of,
    rejections_of_published,
    sentence,
    worth_telling,
)
from tests.factories import make_rule, make_sample, make_tool
from trace_site.notices.services import Notice

pytestmark = pytest.mark.django_db


def person(name: str) -> User:
    return User.objects.get_or_create(username=name)[0]


def a_rule(author: str = "erin"):
    return make_rule(make_tool("New/Get"), make_tool("Old/Get"), code="PAY", author=person(author))


def sample_of(rule, **overrides) -> Sample:
    return make_sample(
        rule=rule, tools=list(Tool.objects.filter(pk__in=rule.published.tool_ids)), **overrides
    )


def reject(rule, reason: str = "unclear", note: str = "", by: str = "rita", **overrides) -> Sample:
    sample = sample_of(rule, **overrides)
    return review_services.reject(
        sample=sample.pk, reviewer=person(by), reason=reason, note=note, follow_up="drop"
    )


def found(rule) -> Rejections:
    return rejections_of_published([rule.pk])[rule.pk]


def test_the_sentence_names_the_reasons_by_number_with_the_newest_words():
    reasons = {"wrong_tool": 2, "rule_unclear": 5}
    assert sentence(7, 12, reasons, {"rule_unclear": "about  year"}) == (
        "7 of 12 rejected: rule text ambiguous (5) “about year”, wrong tool (2)"
    )
    assert sentence(1, 1, {"other": 1}, {"other": "x" * 200}).endswith(f"“{'x' * 80}…”")


def test_a_writer_is_told_each_reading_once():
    assert critique([("leak", "")]) == "Gives the answer away."
    assert critique([("leak", "says\n V2."), ("leak", "says V2"), ("other", "")]) == (
        "Gives the answer away: says V2. Other (see note)."
    )


@pytest.mark.parametrize(
    ("rejected", "decided", "reason", "told"),
    [
        (1, 50, "rule_unclear", True),
        (2, 2, "unclear", False),
        (3, 12, "unclear", True),
        (3, 13, "unclear", False),
    ],
)
def test_an_author_hears_of_many_or_of_what_is_their_text(rejected, decided, reason, told):
    assert worth_telling(rejected, decided, reason) is told


def test_rejections_are_counted_by_reason_and_style_of_what_was_read():
    rule = a_rule()
    reject(rule, "rule_unclear", "which year?")
    reject(rule, "rule_unclear", "<b>year</b>", style="implicit")
    reject(rule, "wrong_tool")
    review_services.approve(sample=sample_of(rule).pk, reviewer=person("rita"))
    sample_of(rule)
    sample_of(rule, human="approved", approved_how="policy")
    one = found(rule)
    assert (one.rejected, one.decided) == (3, 4)
    assert one.styles == {"explicit": (2, 3), "implicit": (1, 1)}
    assert [(reason.code, reason.count) for reason in one.reasons] == [("rule_unclear", 2), ("wrong_tool", 1)]
    assert [said.note for said in one.reasons[0].notes] == ["<b>year</b>", "which year?"]
    assert one.sentence == "3 of 4 rejected: rule text ambiguous (2) “<b>year</b>”, wrong tool (1)"


def test_a_rejection_taken_back_does_not_count():
    rule = a_rule()
    reject(rule, "rule_unclear")
    review_services.undo(reviewer=person("rita"))
    assert rejections_of_published([rule.pk]) == {}


def test_a_first_reading_of_two_leaks_nothing_until_it_is_final():
    rule = a_rule()
    SecondShare.objects.create(share=1.0)
    sample = reject(rule, "rule_unclear", "secret")
    assert sample.human == "second"
    assert rejections_of(RuleVersion.objects.all()) == []
    assert not Notice.objects.exists()
    review_services.reject(sample=sample.pk, reviewer=person("bob"), reason="wrong_tool", follow_up="drop")
    one = found(rule)
    assert [(reason.code, reason.count) for reason in one.reasons] == [("wrong_tool", 1)]


def test_two_queries_whatever_the_number_of_rules(django_assert_num_queries):
    for name in "abc":
        rule = make_rule(make_tool(f"{name}/New"), make_tool(f"{name}/Old"), code=name)
        reject(rule)
    with django_assert_num_queries(2):
        assert len(rejections_of(RuleVersion.objects.all())) == 3


def test_the_author_gets_one_unread_notice_a_rule_with_the_newest_summary():
    rule = a_rule()
    reject(rule, "unclear")
    reject(rule, "unclear")
    assert not Notice.objects.exists()
    reject(rule, "wrong_tool")
    notice = Notice.objects.get()
    assert (notice.recipient, notice.kind) == (person("erin"), "rule_rejections")
    assert notice.text == "PAY v1: 3 of 3 rejected: several tools fit (2), wrong tool (1)"
    reject(rule, "rule_unclear", "about year")
    assert Notice.objects.get().text.startswith("PAY v1: 4 of 4 rejected: several tools fit (2)")


def test_nobody_is_told_of_their_own_rejection():
    reject(a_rule(author="rita"), "rule_unclear")
    assert not Notice.objects.exists()
