"""Plants findings in sound rules, the way people err: copy and paste, half a rename, a late exception.

Here are those that one rule shows by itself; mutators_between.py has tests, and what shows next to other rules.

A mutator gets a rule, the tools of the catalog and a seeded generator, and answers with what it planted, or with None
where the rule does not allow it. It knows nothing of the checks but the code it expects.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from rules.core.rule import RuleContent
from rules.core.rule_book import OtherRule, ToolState
from tests.rules.paraphrase import VERBATIM, paraphrase

FIRST_CASE = re.compile(
    r"^(?:(?:To|When|If|For|Whenever|With) )?(.{8,}?)\W*(?:\b(?:use|call|with|from|through)\b ?)*⟦⟧([^;.]*)",
    re.I,
)


@dataclass(frozen=True)
class Planted:
    """`rules` are put into the book; then the rule with the code `rule` must show `code` at `pointer`."""

    code: str
    pointer: str
    rules: list[OtherRule]
    rule: OtherRule
    other: str = ""
    states: dict[str, ToolState] = field(default_factory=dict)
    span: str = ""  # the words that the place must cover
    level: str = ""


@dataclass(frozen=True)
class Field:
    """What a mutator may use: the sound rules, the catalog by API, its luck and how far it rewords."""

    rules: Sequence[OtherRule]
    tools: Mapping[str, ToolState]
    rng: Random
    strength: int = VERBATIM

    def neighbour(self, rule: OtherRule) -> str:
        """A sound tool of the target's API that the rule does not hold, where there is one."""
        api = rule.content.target.partition("/")[0]
        near = [name for name in self.tools if name.startswith(f"{api}/") and self.free(name, rule)]
        return self.rng.choice(near or [name for name in self.tools if self.free(name, rule)])

    def free(self, name: str, rule: OtherRule) -> bool:
        return name not in rule.content.tools and self.tools[name] == ToolState()

    def again(self, rule: OtherRule) -> str:
        return paraphrase(rule.content.text, list(rule.content.tools), self.rng, self.strength)


Mutator = Callable[[OtherRule, Field], Planted | None]
MUTATORS: dict[str, Mutator] = {}
REWORDED: set[str] = set()  # those that reword, so that strength matters


def mutator(reworded: bool = False) -> Callable[[Mutator], Mutator]:
    def keep(function: Mutator) -> Mutator:
        MUTATORS[function.__name__] = function
        if reworded:
            REWORDED.add(function.__name__)
        return function

    return keep


def edited(rule: OtherRule, **changes: Any) -> OtherRule:
    return replace(rule, content=replace(rule.content, **changes))


def added(rule: OtherRule, code: str, **changes: Any) -> OtherRule:
    return OtherRule(rule.domain, f"{rule.code[:60]}_{code}", replace(rule.content, **changes))


def swapped(text: str, first: str, second: str) -> str:
    hole = "⟦swap⟧"
    return text.replace(first, hole).replace(second, first).replace(hole, second)


def main_case(content: RuleContent) -> str:
    """What the text says before its first tool, and the condition behind it: `To do this, use X` -> do this."""
    masked = content.text
    for name in sorted(content.tools, key=len, reverse=True):
        masked = masked.replace(name, "⟦⟧")
    found = FIRST_CASE.match(masked)
    if not found or re.search(r"[;.] |⟦", found[1]):
        return ""
    case, behind = found.groups()
    return (
        case + behind if re.match(r" (?:when|if|only|for|unless)\b", behind) and "⟦" not in behind else case
    )


def clause(when: str, tool: str, exception: bool = False) -> dict[str, Any]:
    return {"when": when, "route_to": tool, "exception": exception, "signals": []}


def planted(code: str, pointer: str, rule: OtherRule, **more: Any) -> Planted:
    return Planted(code, pointer, more.pop("rules", [rule]), rule, **more)


# one rule by itself


@mutator()
def look_alike_called_the_old_one(rule: OtherRule, at: Field) -> Planted:
    text = rule.content.text.replace(rule.content.target, "⟦⟧")
    for name in sorted(rule.content.confusables, key=len, reverse=True):
        text = text.replace(name, at.rng.choice(["the old one", "the other endpoint", "it"]))
    return planted("no_confusable", "/rule_text", edited(rule, text=text.replace("⟦⟧", rule.content.target)))


@mutator()
def one_more_tool_in_the_text(rule: OtherRule, at: Field) -> Planted:
    name = at.neighbour(rule)
    words = at.rng.choice(["See also {}.", "For anything else there is {}.", "In doubt ask for {}."]).format(
        name
    )
    return planted("outside_set", "/rule_text", edited(rule, text=f"{rule.content.text} {words}"), span=name)


@mutator()
def typing_error_in_a_name(rule: OtherRule, at: Field) -> Planted | None:
    name = rule.content.target
    place = at.rng.randrange(name.index("/") + 2, len(name) - 1)
    wrong = name[:place] + name[place + 1 :] if at.rng.random() < 0.5 else name[:place] + "e" + name[place:]
    if wrong in at.tools or name not in rule.content.text:
        return None
    text = rule.content.text.replace(name, wrong)
    return planted("unknown_name", "/rule_text", edited(rule, text=text), span=wrong)


@mutator()
def target_not_named(rule: OtherRule, at: Field) -> Planted:
    words = at.rng.choice(["the new endpoint", "the newer one", "the right call"])
    return planted(
        "no_target", "/rule_text", edited(rule, text=rule.content.text.replace(rule.content.target, words))
    )


@mutator()
def text_cut_to_the_names(rule: OtherRule, at: Field) -> Planted:
    text = f"{rule.content.target}, {at.rng.choice(['not', 'never', 'instead of'])} {rule.content.confusables[0]}."
    return planted("short_text", "/rule_text", edited(rule, text=text))


@mutator()
def target_retired_by_an_import(rule: OtherRule, at: Field) -> Planted:
    states = {rule.content.target: ToolState(active=False)}
    return planted("retired_target", "/tool_name", rule, states=states, level="error")


@mutator()
def target_deprecated_by_an_import(rule: OtherRule, at: Field) -> Planted:
    return planted(
        "deprecated_target", "/tool_name", rule, states={rule.content.target: ToolState(deprecated=True)}
    )


@mutator()
def look_alike_retired_by_an_import(rule: OtherRule, at: Field) -> Planted:
    number = at.rng.randrange(len(rule.content.confusables))
    states = {rule.content.confusables[number]: ToolState(active=False)}
    return planted("retired_confusable", f"/confusables/{number}", rule, states=states)


@mutator()
def target_field_changed_and_text_kept(rule: OtherRule, at: Field) -> Planted | None:
    """Only where the text gives the look-alike no case of its own."""
    first, *rest = rule.content.confusables
    if "deprecated" not in rule.content.text or rest:
        return None
    return planted(
        "text_elsewhere", "/rule_text", edited(rule, target=first, confusables=(rule.content.target,))
    )


# clauses


def with_clauses(rule: OtherRule) -> OtherRule | None:
    when = main_case(rule.content)
    if not when:
        return None
    other = clause("the request is about something older", rule.content.confusables[0], True)
    return edited(rule, clauses=(clause(when, rule.content.target), other))


def last_clause(rule: OtherRule, tool: str) -> OtherRule | None:
    """The rule with clauses, the last of which routes to `tool`."""
    sound = with_clauses(rule)
    return sound and edited(
        sound, clauses=(sound.content.clauses[0], clause("the caller asks for it", tool, True))
    )


@mutator()
def clause_to_a_tool_outside(rule: OtherRule, at: Field) -> Planted | None:
    wrong = last_clause(rule, at.neighbour(rule))
    return wrong and planted("clause_outside_set", "/clauses/1", wrong, level="error")


@mutator()
def clause_to_a_retired_tool(rule: OtherRule, at: Field) -> Planted | None:
    name = rule.content.confusables[0]
    wrong = last_clause(rule, name)
    return wrong and planted("clause_retired", "/clauses/1", wrong, states={name: ToolState(active=False)})


@mutator()
def clause_to_a_deprecated_tool(rule: OtherRule, at: Field) -> Planted | None:
    name = rule.content.confusables[0]
    wrong = last_clause(rule, name)
    return wrong and planted(
        "clause_deprecated", "/clauses/1", wrong, states={name: ToolState(deprecated=True)}
    )


@mutator()
def clause_the_text_forgot(rule: OtherRule, at: Field) -> Planted | None:
    name = at.neighbour(rule)
    wider = edited(rule, confusables=(*rule.content.confusables, name))
    wrong = last_clause(wider, name)
    return wrong and planted("clause_unsaid", "/clauses/1", wrong)


@mutator()
def no_clause_for_the_target(rule: OtherRule, at: Field) -> Planted:
    only = clause("the caller asks for it", rule.content.confusables[0], True)
    return planted("unreachable_target", "/clauses", edited(rule, clauses=(only,)))


@mutator(reworded=True)
def second_clause_for_the_same_case(rule: OtherRule, at: Field) -> Planted | None:
    when = main_case(rule.content)
    again = paraphrase(when, list(rule.content.tools), at.rng, at.strength)
    wrong = edited(
        rule, clauses=(clause(when, rule.content.target), clause(again, rule.content.confusables[0], True))
    )
    return planted("self_contradiction", "/clauses/1", wrong) if when else None


@mutator(reworded=True)
def clause_that_gainsays_the_text(rule: OtherRule, at: Field) -> Planted | None:
    when = main_case(rule.content)
    again = paraphrase(when, list(rule.content.tools), at.rng, at.strength)
    wrong = clause(again, rule.content.confusables[0])
    right = clause("the caller asks for it", rule.content.target)
    return planted("self_contradiction", "/clauses/1", edited(rule, clauses=(right, wrong))) if when else None
