"""A decision of the pocket model in words: what its trace says to people.

In: what was decided. Out: a few sentences. The model chose every tool and clause in them; no word of them was written
by it. A clause is quoted as it stands in the rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.core.withholding import Granted, is_withheld

Tool = Mapping[str, Any]  # {"name", "deprecated", "permissions"}
Clause = Mapping[str, Any]  # {"token", "rule", "text", "trained"}


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A tool that was weighed. `clause`: what the rule that decides says of it; `further`: whether the request lies
    further from it than from the first tool of the answer."""

    tool: Tool
    clause: Clause | None
    further: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """`clause`: what speaks to the request; None: no rule does. `second`: a clause of another rule that speaks at once.
    `weighed`: the nearest first."""

    clause: Clause | None
    listed: Sequence[str]
    weighed: Sequence[LookAlike] = ()
    second: Clause | None = None


def written_out(found: Decision, granted: Granted = None) -> str:
    """`granted`: the permissions of the request."""
    if found.clause is None:
        opening = "No clause speaks clearly enough; the nearest tool is taken."
        otherwise = "it lies no nearer to the request"
    else:
        state = "" if found.clause["trained"] else " (in force, not yet trained)"
        opening = f'{found.clause["rule"]}{state} decides: "{quoted(found.clause)}".'
        otherwise = "the rule leads elsewhere"
    if found.second is not None:
        opening += f' {found.second["rule"]} speaks too: "{quoted(found.second)}".'
    reasons = [f"Not {one.tool['name']}: {_reason(one, granted) or otherwise}." for one in found.weighed]
    return " ".join([opening, *reasons, f"So it is {_in_a_row(found.listed)}."])


def _reason(one: LookAlike, granted: Granted) -> str:
    if one.tool["deprecated"]:
        return "it is deprecated"
    if is_withheld(one.tool["permissions"], granted):
        return "it needs another permission"
    if one.clause:
        return f'the rule says "{quoted(one.clause)}"'
    return "it lies further from the request" if one.further else ""


def quoted(clause: Clause) -> str:
    """Its words; the sentence around them has its own full stop."""
    return str(clause["text"]).rstrip(".;")


def _in_a_row(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def tokens_of(found: Decision, units: Mapping[str, str]) -> str:
    """What the model decided, as its tokens: clauses or <no rule>, what was weighed, the list."""
    clauses = [one["token"] for one in (found.clause, found.second) if one] or ["<no rule>"]
    listed = ", ".join(f'"{units[name]}"' for name in found.listed)
    return " ".join([*clauses, *(units[one.tool["name"]] for one in found.weighed), f"[{listed}]"])
