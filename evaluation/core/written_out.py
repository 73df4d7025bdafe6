"""A decision of the pocket model in words: what its trace says to people.

In: what was decided, and the tools and clauses of the model's catalog. Out: a few sentences. The model chose every tool
and clause in them; no word of them was written by it. A clause is quoted as it stands in the rule.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.core.withholding import Granted

Tool = Mapping[str, Any]  # {"name", "deprecated", "permissions"}
Clause = Mapping[str, Any]  # {"rule", "text", "stance", "tools", "trained"}


@dataclass(frozen=True, slots=True)
class Decision:
    """`clause`: what speaks to the request; None: no rule does. `weighed`: tools that were near, in their order."""

    clause: Clause | None
    listed: Sequence[str]
    weighed: Sequence[str] = field(default=())


def written_out(
    found: Decision, tools: Mapping[str, Tool], of_rule: Sequence[Clause], granted: Granted = None
) -> str:
    """`of_rule`: all clauses of the rule that decided."""
    if found.clause is None:
        opening = "No rule speaks to this request; the descriptions decide."
    else:
        state = "" if found.clause["trained"] else " (in force, not yet trained)"
        opening = f'{found.clause["rule"]}{state} decides: "{quoted(found.clause)}".'
    reasons = [f"Not {name}: {_reason(name, tools, of_rule, granted)}." for name in found.weighed]
    return " ".join([opening, *reasons, f"So it is {together(found.listed)}."])


def _reason(name: str, tools: Mapping[str, Tool], of_rule: Sequence[Clause], granted: Granted) -> str:
    tool = tools[name]
    if tool["deprecated"]:
        return "it is deprecated"
    needs = tool.get("permissions") or ()
    if granted is not None and needs and granted.isdisjoint(needs):
        return "it needs another permission"
    if said := next((one for one in of_rule if name in one["tools"]), None):
        return f'the rule says "{quoted(said)}"'
    return "it lies further from the request"


def quoted(clause: Clause) -> str:
    """Its words; the sentence around them has its own full stop."""
    return str(clause["text"]).rstrip(".;")


def together(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def tokens_of(found: Decision, units: Mapping[str, str]) -> str:
    """What the model decided, as its tokens: a clause or <no rule>, what was weighed, the list."""
    clause = found.clause["token"] if found.clause else "<no rule>"
    listed = ", ".join(f'"{units[name]}"' for name in found.listed)
    return " ".join([clause, *(units[name] for name in found.weighed), f"[{listed}]"])


def others_of(rule: Collection[str], listed: Sequence[str], order: Sequence[str], most: int) -> list[str]:
    """The look-alikes of a rule that were not chosen, in an order, at most `most`."""
    return [name for name in order if name in rule and name not in listed][:most]
