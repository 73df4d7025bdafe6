"""What can be said about a rule without a model. Errors stop publishing; warnings are for people.

In: a rule's content, the state of the tools it may name, the other published rules. Out: findings, each with a
stable code, a sentence, the fix and the place.
"""

from rules.core.checks.finding import Finding, Place, has_errors
from rules.core.checks.index import OtherRule, RuleKey
from rules.core.checks.others import contradictions, long_circles, set_findings
from rules.core.checks.own import (
    agreement_findings,
    clause_findings,
    target_findings,
    test_findings,
    text_findings,
)
from rules.core.checks.reading import Reading
from rules.core.checks.rule_book import RuleBook, ToolState
from rules.core.rule import RuleContent

__all__ = [
    "Finding",
    "OtherRule",
    "Place",
    "RuleBook",
    "RuleKey",
    "ToolState",
    "check_reading",
    "check_rule",
    "has_errors",
]


def check_rule(content: RuleContent, book: RuleBook, own: RuleKey | None = None) -> list[Finding]:
    """Every finding about one rule, errors first. `own` keeps a rule from being its own duplicate."""
    known = book.shelf.rules.get(own) if own else None
    reading = known.reading if known and known.content is content else Reading(content)
    return check_reading(reading, book, own)


def check_reading(reading: Reading, book: RuleBook, own: RuleKey | None = None) -> list[Finding]:
    """As check_rule, for a rule that has been read already."""
    findings = [
        *text_findings(reading, book.tools),
        *target_findings(reading, book.tools),
        *clause_findings(reading, book.tools),
        *agreement_findings(reading),
        *test_findings(reading, book, own),
        *contradictions(reading, book, own),
        *set_findings(reading, book, own),
        *long_circles(reading, book, own),
    ]
    return sorted(findings, key=lambda finding: finding.level != "error")
