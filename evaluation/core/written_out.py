"""A decision of a model in words: what its trace says to people.

In: what was decided. Out: a few sentences. The model chose every tool and clause in them; no word of them was written
by it. A clause is quoted as it stands in the rule. What a language model decided is read off what it wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.core.words import plain_words
from evaluation.core.metrics import cited_codes
from evaluation.core.withholding import Granted, is_withheld
from rules.core.text_clauses import LEADING

Tool = Mapping[str, Any]  # {"name", "deprecated", "permissions"}
Clause = Mapping[str, Any]  # {"token", "rule", "domain", "set", "tools", "text", "stance", "trained"}


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
    `weighed`: the nearest first. `named`: the rules that a language model named and none of which leads to its answer;
    None: of a model that writes nothing."""

    clause: Clause | None
    listed: Sequence[str]
    weighed: Sequence[LookAlike] = ()
    second: Clause | None = None
    named: Sequence[str] | None = None


def concluded(
    wrote: str, tools: Mapping[str, Tool], listed: Sequence[str], clauses: Sequence[Clause]
) -> Decision:
    """What a language model decided: the clause of a rule that its text names which leads to its first tool; of several
    the one whose words it repeats most. `tools`: those in its text, in reading order."""
    codes = cited_codes(wrote, (one["rule"] for one in clauses))
    leading = [one for one in clauses if one["rule"] in codes and listed[0] in one["tools"]]
    leading = [one for one in leading if one["stance"] in LEADING]
    if not leading:
        return Decision(None, listed, named=codes)
    words = set(plain_words(wrote))
    speaks = max(leading, key=lambda one: len(words.intersection(plain_words(one["text"]))))
    rule = [one for one in clauses if (one["domain"], one["rule"]) == (speaks["domain"], speaks["rule"])]
    weighed = [
        LookAlike(
            tool, next((one for one in rule if name in one["tools"] and one is not speaks), None), False
        )
        for name, tool in tools.items()
        if name in speaks["set"] and name not in listed
    ]
    return Decision(speaks, listed, weighed)


def written_out(found: Decision, granted: Granted = None) -> str:
    """`granted`: the permissions of the request."""
    if found.clause is None and found.named is not None:
        rules = f"{_in_a_row(found.named)}, no clause of which leads there" if found.named else "no rule"
        opening = f"The model names {rules}."
        otherwise = ""
    elif found.clause is None:
        opening = "The model finds no clause near enough to decide and takes the closest tool."
        otherwise = "it is no closer a match"
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
    return "it is a weaker match" if one.further else ""


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
