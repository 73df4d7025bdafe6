"""Plants findings that show in a rule's tests, and next to other rules; see mutators.py."""

from rules.core.rule_book import OtherRule
from tests.rules.mutators import Field, Planted, added, clause, edited, main_case, mutator, planted, swapped
from tests.rules.paraphrase import SPELLING, paraphrase

# tests


@mutator()
def tests_removed(rule: OtherRule, at: Field) -> Planted:
    return planted("no_test", "/tests", edited(rule, tests=()))


@mutator()
def test_expects_a_tool_outside(rule: OtherRule, at: Field) -> Planted:
    test = {"query": "which one is it?", "tools": [at.neighbour(rule)]}
    return planted("test_outside_set", "/tests/0/tools/0", edited(rule, tests=(test,)), level="error")


@mutator(reworded=True)
def test_expects_the_wrong_tool(rule: OtherRule, at: Field) -> Planted | None:
    when = main_case(rule.content)
    asked = paraphrase(when, list(rule.content.tools), at.rng, at.strength)
    asked = at.rng.choice(["I want to {}", "{}, how?", "please {} for me", "{}"]).format(asked)
    test = {"query": asked, "tools": [rule.content.confusables[0]]}
    return planted("test_contradicts", "/tests/0", edited(rule, tests=(test,))) if when else None


@mutator(reworded=True)
def two_tests_with_one_query(rule: OtherRule, at: Field) -> Planted | None:
    first = main_case(rule.content)
    again = paraphrase(first, list(rule.content.tools), at.rng, at.strength)
    tests = (
        {"query": first, "tools": [rule.content.target]},
        {"query": again, "tools": [rule.content.confusables[0]]},
    )
    return planted("test_clash", "/tests/1", edited(rule, tests=tests)) if first else None


@mutator(reworded=True)
def query_of_another_rules_test(rule: OtherRule, at: Field) -> Planted | None:
    other = at.rng.choice([other for other in at.rules if other.key != rule.key])
    query = main_case(other.content)
    if not query or set(other.content.tools) & set(rule.content.tools):
        return None
    theirs = edited(other, tests=({"query": query, "tools": [other.content.target]},))
    again = paraphrase(query, list(other.content.tools), at.rng, at.strength)
    mine = edited(rule, tests=({"query": again, "tools": [rule.content.target]},))
    return planted("test_clash", "/tests/0", mine, rules=[theirs, mine], other=other.code)


# against other rules


@mutator(reworded=True)
def copy_under_another_code(rule: OtherRule, at: Field) -> Planted:
    copy = added(rule, "COPY", text=at.again(rule))
    return planted("near_duplicate", "/rule_text", copy, other=rule.code)


@mutator(reworded=True)
def copy_with_target_and_look_alike_swapped(rule: OtherRule, at: Field) -> Planted:
    target, first = rule.content.target, rule.content.confusables[0]
    others = tuple(name for name in rule.content.confusables if name != first)
    copy = added(rule, "SWAP", text=swapped(at.again(rule), target, first), target=first)
    copy = edited(copy, confusables=(target, *others))
    return planted("contradiction", "/rule_text", copy, other=rule.code)


@mutator(reworded=True)
def copy_with_a_new_target(rule: OtherRule, at: Field) -> Planted:
    name = at.neighbour(rule)
    copy = added(rule, "NEW", text=at.again(rule).replace(rule.content.target, name), target=name)
    return planted("contradiction", "/rule_text", copy, other=rule.code)


@mutator(reworded=True)
def clause_of_another_rule_with_its_own_tool(rule: OtherRule, at: Field) -> Planted | None:
    when = main_case(rule.content)
    name = at.neighbour(rule)
    again = paraphrase(when, list(rule.content.tools), at.rng, at.strength)
    text = f"{name} is for callers of the second kind, {rule.content.target} for those of the first kind."
    mine = added(rule, "LATE", target=name, confusables=(rule.content.target,), text=text)
    mine = edited(
        mine, clauses=(clause(again, name), clause("callers of the first kind", rule.content.target))
    )
    return planted("contradiction", "/clauses/0", mine, other=rule.code) if when else None


@mutator(reworded=True)
def narrower_case_of_the_same_target(rule: OtherRule, at: Field) -> Planted | None:
    """A case with one more condition, over the same tools."""
    when = main_case(rule.content)
    again = paraphrase(when, list(rule.content.tools), at.rng, min(at.strength, SPELLING))
    more = at.rng.choice(
        ["for a caller in Norway", "at the month's end", "on behalf of a partner", "from the mobile app"]
    )
    text = f"Whoever wants to {again} {more} is served by {rule.content.target}, not by {rule.content.confusables[0]}."
    mine = added(rule, "NARROW", text=text)
    return planted("shadowed", "/rule_text", mine, other=rule.code) if when else None


@mutator()
def rule_that_leads_back(rule: OtherRule, at: Field) -> Planted:
    target, first = rule.content.target, rule.content.confusables[0]
    text = f"Callers who ask on paper are served by {first}; everybody else by {target}."
    back = added(rule, "BACK", target=first, confusables=(target,), text=text)
    return planted("circular", "/confusables/0", back, other=rule.code)


@mutator()
def ring_of_rules(rule: OtherRule, at: Field) -> Planted:
    """Two to four more rules that lead from the target on and back to the look-alike."""
    stops = [rule.content.target]
    while len(stops) < at.rng.randint(2, 4):
        name = at.neighbour(rule)
        if name not in stops:
            stops.append(name)
    stops.append(rule.content.confusables[0])
    ring = [
        added(
            rule,
            f"RING_{n}",
            target=there,
            confusables=(here,),
            text=f"Case {n} of the ring: {there}, not {here}.",
        )
        for n, (here, there) in enumerate(zip(stops, stops[1:], strict=False))
    ]
    checked = at.rng.choice([rule, *ring])
    return planted("circular", "/confusables/0", checked, rules=ring)


@mutator()
def same_tools_other_target(rule: OtherRule, at: Field) -> Planted | None:
    name = at.neighbour(rule)
    held = rule.content.tools[:3]
    if len(held) < 2:
        return None
    text = f"Callers from the branch office are served by {name}, and never by {held[0]} or {held[1]}."
    wide = added(rule, "WIDE", target=name, confusables=held, text=text)
    return planted("overlap", "/confusables", wide, other=rule.code)


@mutator()
def other_rule_calls_the_target_dead(rule: OtherRule, at: Field) -> Planted:
    name = at.neighbour(rule)
    words = at.rng.choice(["is deprecated", "was replaced by it", "is no longer supported", "is obsolete"])
    text = f"Since the last release all callers use {name}. {rule.content.target} {words}."
    later = added(rule, "LATER", target=name, confusables=(rule.content.target,), text=text)
    return planted("unreachable_target", "/tool_name", rule, rules=[later], other=later.code)
