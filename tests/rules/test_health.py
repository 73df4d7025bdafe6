"""What is kept about every rule is what checking everything anew would say, whatever changed and in which order."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from catalog.models import Tool
from catalog.services import tools_changed
from rules.book import (
    cached_book,
    current_versions,
    latest_versions,
    rule_key,
    tool_states,
    version_contents,
)
from rules.core import rule_book
from rules.core.check import check_rule
from rules.core.rule_book import OtherRule, RuleBook
from rules.models import Rule, RuleHealth, RuleVersion
from rules.services import publish_checked, recheck, recheck_missing, rule_withdraw
from tests.factories import make_rule, make_tool
from tests.rules.saving import rule_save
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."
CASES = (
    "cancel an authorised payment of a customer",
    "cancel the authorized payments of a client",
    "list the payment methods of a customer",
    "read one payslip of the current month",
    "retrieve one payslip of this current month",
    "send a reminder for an open invoice",
)


def kept() -> dict[tuple[str, str], tuple[int, str, list[dict]]]:
    rows = RuleHealth.objects.select_related("rule")
    return {rule_key(row.rule): (row.version_id, row.light, row.findings) for row in rows}


def anew() -> dict[tuple[str, str], tuple[int, str, list[dict]]]:
    """Everything read from the database again and checked, without any of the caches."""
    newest = latest_versions()
    published = [version for version in current_versions() if version.rule.published_id == version.pk]
    contents = version_contents([*published, *newest])
    book = RuleBook(
        tool_states(), [OtherRule(*rule_key(version.rule), contents[version.pk]) for version in published]
    )
    found = {}
    for version in newest:
        key = rule_key(version.rule)
        findings = [finding.as_dict() for finding in check_rule(contents[version.pk], book, key)]
        levels = {finding["level"] for finding in findings}
        light = "error" if "error" in levels else "warning" if levels else "ok"
        found[key] = (version.pk, light, findings)
    return found


class Story:
    """Random changes of a small catalog in which rules often meet."""

    def __init__(self, seed: int, apis: Sequence[str] = ("Pay", "Old")) -> None:
        self.rng = Random(seed)
        self.tools = [make_tool(f"{api}/{end}") for api in apis for end in ("Get", "List", "Send", "Stop")]
        self.number = 0

    def content(self) -> dict:
        target, *others = self.rng.sample(self.tools, self.rng.randint(2, 4))
        case, late = self.rng.choice(CASES), self.rng.choice(["New/Late", "Pay/Late", "nothing else"])
        rest = self.rng.choice(["is deprecated", "serves the rest"])
        text = f"To {case}, use {target.name}; {others[0].name} {rest}."
        test = {"query": self.rng.choice(CASES), "tools": [self.rng.choice([target, *others]).name]}
        clause = {"when": self.rng.choice(CASES), "route_to": self.rng.choice([target, *others]).name}
        return {
            "target": target.name,
            "confusables": [other.name for other in others],
            "text": f"{text} In doubt there is {late}." if self.rng.random() < 0.3 else text,
            "clauses": [clause] if self.rng.random() < 0.4 else [],
            "tests": [test] if self.rng.random() < 0.6 else [],
        }

    def rule(self) -> Rule | None:
        return self.rng.choice(list(Rule.objects.order_by("pk")) or [None])

    def save_new(self) -> None:
        self.number += 1
        rule_save(**self.content(), code=f"RULE_{self.number}", domain="hr", publish=self.rng.random() < 0.6)

    def save_again(self) -> None:
        if rule := self.rule():
            rule_save(**self.content(), rule=rule, publish=self.rng.random() < 0.5)

    def publish(self) -> None:
        if rule := self.rule():
            versions = RuleVersion.objects.filter(rule=rule).select_related("rule").order_by("pk")
            publish_checked([self.rng.choice(list(versions))], None)

    def withdraw(self) -> None:
        if rule := self.rule():
            rule_withdraw(rule=rule)

    def change_tool(self) -> None:
        tool = self.rng.choice(self.tools)
        tool.deprecated, tool.status = (
            self.rng.random() < 0.3,
            self.rng.choice(["active", "active", "retired"]),
        )
        tool.save(update_fields=["deprecated", "status"])
        tools_changed([tool.pk])

    def add_tool(self) -> None:
        name = self.rng.choice(["New/Late", "Pay/Late", "New/First"])
        if not Tool.objects.filter(name=name).exists():
            tools_changed([make_tool(name).pk])

    def step(self) -> None:
        steps = [self.save_new, self.save_again, self.publish, self.withdraw, self.change_tool, self.add_tool]
        chosen = self.rng.choices(steps, [6, 4, 4, 2, 3, 1])[0]
        try:
            with transaction.atomic():
                chosen()
                if self.rng.random() < 0.1:
                    raise TraceError("the writer gave up", code="conflict")
        except TraceError:
            pass  # refused, as a person would be; nothing is written


def follow(story: Story, steps: int) -> set[str]:
    """The codes seen on the way; every third step is compared."""
    seen: set[str] = set()
    for step in range(steps):
        story.step()
        if step % 3 == 2:
            after = anew()
            assert kept() == after, step
            seen |= {finding["code"] for _, _, findings in after.values() for finding in findings}
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_after_any_changes_the_kept_findings_are_those_of_a_full_check(seed: int) -> None:
    seen = follow(Story(seed), 30)
    assert len(seen) > 6


@pytest.mark.parametrize("seed", range(3))
def test_phrases_that_become_common_or_rare_again_are_kept_right(seed: int, monkeypatch) -> None:
    monkeypatch.setattr(rule_book, "COMMON", 2)
    seen = follow(Story(seed, ("Pay", "PayV2", "Old", "Bank", "Tax", "Card")), 36)
    assert seen & {"contradiction", "test_clash"}


def test_full_check_writes_what_the_steps_kept() -> None:
    story = Story(7)
    for _ in range(20):
        story.step()
    before = kept()
    RuleHealth.objects.all().delete()
    assert recheck(None) == len(before)
    assert kept() == before


@pytest.fixture
def tools():
    return make_tool("A/New"), make_tool("A/Old")


def saved(**fields):
    given = {"target": "A/New", "confusables": ["A/Old"], "text": TEXT, "code": "NEW_OLD"}
    return rule_save(**{**given, **fields}).version


def test_draft_of_another_rule_is_told_when_its_double_is_published(tools):
    draft = saved(code="DRAFT")
    saved(publish=True)
    found = RuleHealth.objects.get(rule=draft.rule).findings
    assert [finding["code"] for finding in found] == ["no_test", "near_duplicate"]
    rule_withdraw(rule=Rule.objects.get(code="NEW_OLD"))
    assert [finding["code"] for finding in RuleHealth.objects.get(rule=draft.rule).findings] == ["no_test"]


def test_book_is_read_again_only_when_something_moved(tools, django_assert_num_queries):
    saved(publish=True)
    book = cached_book()
    with django_assert_num_queries(1):
        assert cached_book() is book
    saved(code="OTHER", publish=True)
    assert set(cached_book().rules) == {("hr", "NEW_OLD"), ("hr", "OTHER")}


def test_book_forgets_what_was_rolled_back(tools):
    saved(publish=True)
    with pytest.raises(TraceError), transaction.atomic():
        saved(code="LOST", publish=True)
        assert ("hr", "LOST") in cached_book().rules
        raise TraceError("the writer gave up", code="conflict")
    saved(code="OTHER", publish=True)  # the counter has the value again that the lost rule gave it
    assert set(cached_book().rules) == {("hr", "NEW_OLD"), ("hr", "OTHER")}


@pytest.mark.django_db(transaction=True)
def test_threads_of_a_process_share_one_book(tools):
    saved(publish=True)

    def read(_) -> RuleBook:
        try:
            return cached_book()
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        books = list(threads.map(read, range(24)))
    assert len({id(book) for book in books}) == 1
    assert set(books[0].rules) == {("hr", "NEW_OLD")}


def test_rules_that_sql_wrote_are_checked_once(tools):
    make_rule(*tools)
    assert (recheck_missing(), recheck_missing()) == (1, 0)


def test_publishing_one_of_many_unrelated_rules_checks_that_one(tools):
    for number in range(5):
        new, old = make_tool(f"Api{number}/New"), make_tool(f"Api{number}/Old")
        text = f"In year {number} use {new.name} for the letter {'abcde'[number] * 3}, and {old.name} for its twin."
        saved(code=f"RULE_{number}", target=new.name, confusables=[old.name], text=text)
    rule = Rule.objects.get(code="RULE_2")
    Rule.objects.filter(pk=rule.pk).update(published=rule.versions.get())
    assert recheck([rule.pk]) == 1


def test_command_prints_a_line_a_rule_and_fails_on_errors(tools, capsys):
    saved(publish=True)
    call_command("rules_check")
    assert capsys.readouterr().out.startswith(
        "▲ warning hr/NEW_OLD: The rule has no test query. Add one query"
    )
    saved(code="SHORT", text="Use the newer one.")
    with pytest.raises(SystemExit) as exited:
        call_command("rules_check")
    lines = capsys.readouterr().out.splitlines()
    assert exited.value.code == 1
    assert lines[1].startswith("■ error   hr/SHORT: The text names none of the confusables. Say when")
    assert lines[2] == "2 rules: 1 errors, 4 warnings."


def test_command_refreshes_what_the_list_shows(tools, capsys):
    make_rule(*tools, text=TEXT)
    call_command("rules_check", "--refresh", "--json")
    assert RuleHealth.objects.get().light == "warning"
    assert '"place": {"pointer": "/tests", "start": null, "end": null}' in capsys.readouterr().out
