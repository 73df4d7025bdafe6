"""What changed between two versions of a rule, field by field, for people and for staleness."""

from dataclasses import dataclass
from typing import Any, Literal

from rules.core.rule import RuleContent
from trace_site.lib.worddiff import opcodes


@dataclass(frozen=True, slots=True)
class RuleDiff:
    """`text` is a list of (kind, words) pieces: same, added, removed."""

    changed: tuple[str, ...]
    target: tuple[str, str] | None
    confusables_added: tuple[str, ...]
    confusables_removed: tuple[str, ...]
    text: tuple[tuple[Literal["same", "added", "removed"], str], ...]
    clauses_added: tuple[dict[str, Any], ...]
    clauses_removed: tuple[dict[str, Any], ...]
    tests_added: tuple[dict[str, Any], ...]
    tests_removed: tuple[dict[str, Any], ...]


def diff_rules(old: RuleContent, new: RuleContent) -> RuleDiff:
    changed = [
        name
        for name, same in (
            ("target", old.target == new.target),
            ("confusables", set(old.confusables) == set(new.confusables)),
            ("text", old.text == new.text),
            ("clauses", old.clauses == new.clauses),
            ("tests", old.tests == new.tests),
        )
        if not same
    ]
    return RuleDiff(
        changed=tuple(changed),
        target=(old.target, new.target) if old.target != new.target else None,
        confusables_added=tuple(name for name in new.confusables if name not in old.confusables),
        confusables_removed=tuple(name for name in old.confusables if name not in new.confusables),
        text=diff_text(old.text, new.text),
        clauses_added=tuple(clause for clause in new.clauses if clause not in old.clauses),
        clauses_removed=tuple(clause for clause in old.clauses if clause not in new.clauses),
        tests_added=tuple(test for test in new.tests if test not in old.tests),
        tests_removed=tuple(test for test in old.tests if test not in new.tests),
    )


def diff_text(old: str, new: str) -> tuple[tuple[Literal["same", "added", "removed"], str], ...]:
    """Word by word; joining the same and added pieces with spaces gives the new text back."""
    left, right = old.split(), new.split()
    pieces: list[tuple[Literal["same", "added", "removed"], str]] = []
    for kind, i1, i2, j1, j2 in opcodes(left, right):
        if kind == "equal":
            pieces.append(("same", " ".join(left[i1:i2])))
            continue
        if i2 > i1:
            pieces.append(("removed", " ".join(left[i1:i2])))
        if j2 > j1:
            pieces.append(("added", " ".join(right[j1:j2])))
    return tuple(pieces)
