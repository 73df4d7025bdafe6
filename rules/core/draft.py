"""What an unfinished rule may hold: the types and sizes of the exchange format, nothing said about completeness.

In: whatever an editor or a program sent as {target, confusables, text, clauses, tests}. Out: the same with every
field present, exactly as typed, and the JSON pointers of what has the wrong type or is too long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rules.core.rule import (
    FIELDS,
    PLAIN,
    WHOLE,
    RuleContent,
    RuleField,
    filled,
    make_content,
    pointed_row,
    without_empty,
)
from rules.core.rules_file import RULE_SCHEMA, RuleValidator, schema_problems
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.lib.letters import UNBROKEN
from trace_site.lib.worddiff import opcodes

KEPT = {"type", "properties", "items", "maxLength", "maxItems", "enum"}


def _loosened(schema: Any) -> Any:
    kept = {key: value for key, value in schema.items() if key in KEPT}
    if "properties" in kept:
        kept["properties"] = {name: _loosened(part) for name, part in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _loosened(kept["items"])
    return kept


UNFINISHED = RuleValidator(_loosened(RULE_SCHEMA))


def draft_problems(content: Any) -> list[tuple[str, str]]:
    """(JSON pointer of the exchange format, sentence); empty when `fill_draft` may be called."""
    if isinstance(content, Mapping):
        content = {FIELDS[name].key: value for name, value in content.items() if name in FIELDS}
    return list(schema_problems(content, UNFINISHED))


def fill_draft(content: Mapping[str, Any]) -> dict[str, Any]:
    """Every field in one order, so that equal drafts are equal values; unknown keys are dropped."""
    return without_empty(filled(content, WHOLE))


def draft_of(content: RuleContent) -> dict[str, Any]:
    """A version's content as the draft that begins from it."""
    return fill_draft(asdict(content))


def content_of(draft: Mapping[str, Any]) -> RuleContent:
    """What the draft says so far; may be incomplete."""
    return make_content(**fill_draft(draft))


# What changed between two versions of a rule, field by field, for people and for staleness.


@dataclass(frozen=True, slots=True)
class RuleDiff:
    """`text` is a list of (kind, words) pieces; the same and added ones joined give the new text back."""

    changed: tuple[str, ...]
    target: tuple[str, str] | None
    confusables_added: tuple[str, ...]
    confusables_removed: tuple[str, ...]
    text: tuple[tuple[Literal["same", "added", "removed"], str], ...]
    clauses_added: tuple[dict[str, Any], ...]
    clauses_removed: tuple[dict[str, Any], ...]
    tests_added: tuple[dict[str, Any], ...]
    tests_removed: tuple[dict[str, Any], ...]
    plain: tuple[tuple[RuleField, str, str], ...]  # those that differ: before, after


def diff_rules(old: RuleContent, new: RuleContent) -> RuleDiff:
    left, right = UNBROKEN.findall(old.text), UNBROKEN.findall(new.text)
    pieces: list[tuple[Literal["same", "added", "removed"], str]] = []
    for kind, i1, i2, j1, j2 in opcodes(*([word.strip() for word in side] for side in (left, right))):
        if i2 > i1 and kind != "equal":
            pieces.append(("removed", "".join(left[i1:i2])))
        if j2 > j1:
            pieces.append(("same" if kind == "equal" else "added", "".join(right[j1:j2])))
    sides = [(asdict(one) | {"confusables": set(one.confusables)}) for one in (old, new)]
    return RuleDiff(
        changed=tuple(name for name in FIELDS if sides[0][name] != sides[1][name]),
        target=(old.target, new.target) if old.target != new.target else None,
        confusables_added=tuple(name for name in new.confusables if name not in old.confusables),
        confusables_removed=tuple(name for name in old.confusables if name not in new.confusables),
        text=tuple(pieces),
        clauses_added=tuple(clause for clause in new.clauses if clause not in old.clauses),
        clauses_removed=tuple(clause for clause in old.clauses if clause not in new.clauses),
        tests_added=tuple(test for test in new.tests if test not in old.tests),
        tests_removed=tuple(test for test in old.tests if test not in new.tests),
        plain=tuple(
            (one, before, after)
            for name, one in PLAIN.items()
            if (before := getattr(old, name)) != (after := getattr(new, name))
        ),
    )


# Two people changed one draft: theirs was saved first, mine goes on top of it.
#
# In: what both began from, mine, theirs. Out: both people's changes; where both changed the same place, mine, and how
# many such places there are. Texts merge word by word, lists item by item.


@dataclass(frozen=True, slots=True)
class Merged:
    content: dict[str, Any]
    overlaps: int  # places that both changed, where mine was kept


_Hunk = tuple[int, int, list[str]]  # base[start:end] became these items


def merge_contents(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]) -> Merged:
    """Contents as drafts have them; missing fields count as empty."""
    sides = [filled(one, WHOLE) for one in (base, mine, theirs)]
    content: dict[str, Any] = {}
    overlaps = 0
    for name, one in FIELDS.items():
        old, ours, new = values = [side[name] for side in sides]
        if name == "text":
            words, over = merge_sequences(*map(UNBROKEN.findall, values))
            content[name] = "".join(words)
        elif one.schema["type"] == "array":
            content[name], over = _merge_lists(*values)
        else:
            content[name], over = new if ours == old else ours, old != ours != new != old
        overlaps += over
    content["confusables"] = list(dict.fromkeys(n for n in content["confusables"] if n != content["target"]))
    return Merged(fill_draft(content), overlaps)


def merge_sequences(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], int]:
    """Both sides' changes of `base`, and how many places both changed differently; there mine is kept.

    What both only added at one place is no such place: it all stays, mine first.
    """
    ours, others = _hunks(base, mine), _hunks(base, theirs)
    merged: list[str] = []
    overlaps = at = 0
    # the places of `base` that change; hunks that touch share one
    regions: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end, _ in ours + others):
        if regions and start <= regions[-1][1]:
            regions[-1] = (regions[-1][0], max(end, regions[-1][1]))
        else:
            regions.append((start, end))
    for start, end in regions:
        my_part, their_part = (_applied(base, start, end, hunks) for hunks in (ours, others))
        untouched = list(base[start:end])
        merged += base[at:start]
        merged += their_part if my_part == untouched else my_part
        if untouched != my_part != their_part != untouched:
            merged += [] if untouched else their_part
            overlaps += bool(untouched)
        at = end
    return merged + list(base[at:]), overlaps


def _merge_lists(base: Sequence[Any], mine: Sequence[Any], theirs: Sequence[Any]) -> tuple[list[Any], int]:
    """Items are compared by what they say; an item that either side added is kept, also where both changed."""
    items = {content_hash([item]): item for item in (*base, *mine, *theirs)}
    keys = [[content_hash([item]) for item in side] for side in (base, mine, theirs)]
    merged, overlaps = merge_sequences(*keys)
    lost = [key for key in keys[2] if key not in merged and key not in keys[0]]
    return [items[key] for key in dict.fromkeys([*merged, *lost])], overlaps


def _hunks(base: Sequence[str], side: Sequence[str]) -> list[_Hunk]:
    """Words are compared without their blanks, which are changes of their own."""
    found: list[_Hunk] = []
    for kind, a, b, c, d in opcodes([word.strip() for word in base], [word.strip() for word in side]):
        if kind != "equal":
            found.append((a, b, list(side[c:d])))
        else:
            pairs = zip(range(a, b), range(c, d), strict=True)
            found += [(i, i + 1, [side[j]]) for i, j in pairs if base[i] != side[j]]
    return found


def _applied(base: Sequence[str], start: int, end: int, hunks: Sequence[_Hunk]) -> list[str]:
    """base[start:end] with one side's hunks of that region."""
    result: list[str] = []
    at = start
    for begin, stop, items in hunks:
        if start <= begin and stop <= end:
            result += [*base[at:begin], *items]
            at = stop
    return result + list(base[at:end])


# fields of the exchange format, as the editor names them
PLACES = {"": "The rule", "code": "The code", "domain": "The domain"} | {
    one.key: one.label for one in FIELDS.values()
}


def form_words(problem: dict[str, str]) -> str:
    """A problem {"pointer", "message"} of the exchange format in the editor's words."""
    name, number = pointed_row(problem.get("pointer", ""))
    place, message = PLACES.get(name, name), problem["message"]
    if name in ("clauses", "tests") and number is not None:
        place = f"{place} {number + 1}"
    return f"{place} {message}" if message.startswith("is ") else f"{place}: {message}"


def in_form_words(error: TraceError) -> TraceError:
    """A refusal of the services, told in the editor's words and with every problem listed."""
    lines = [form_words(problem) for problem in error.extra.get("problems", [])]
    if not lines:
        return error
    return TraceError(lines[0], code=error.code, hint=error.hint, extra={**error.extra, "errors": lines})
