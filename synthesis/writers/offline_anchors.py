"""RRB queries of the offline writer: what one tool does, or what several do, as a person with wishes would say it.

easy: one wish, told apart from its look-alikes. medium: two or three wishes in one breath, or one wish that two or
three twins answer alike. hard: a list of things to do, or a vague wish that four to six tools answer; for a vague one
the answer is every live tool of the pool that fits it.
"""

import random
from collections.abc import Sequence

from synthesis.core.queries import TIERS, QueryDraft, QueryRequest, ToolText, by_name
from synthesis.core.words import content_stems, words
from synthesis.writers.frames import FOUND, MANAGE, NEEDS, SECOND, SEVERAL, VAGUE
from synthesis.writers.instances import filled, reason
from synthesis.writers.phrases import LOOKING, agreed, noun, phrase, terse, verb_for
from synthesis.writers.products import in_line, placed, product, with_vendor
from synthesis.writers.spoken import About, owner_kind, spoken
from synthesis.writers.wants import OPEN_QUESTION, Want, distinguishing, want_of


def anchor_query(request: QueryRequest, rng: random.Random) -> QueryDraft:
    """One RRB draft: query, answer (anchor first), and what each answer does."""
    pool = by_name(request.pool)
    anchor = pool[request.anchor]
    twins = _twins(anchor, request.pool)
    low, high = TIERS[request.tier or "easy"]
    made = None
    if low >= 4:
        made = _vague(anchor, request.pool, rng) if rng.random() < 0.5 else None
    elif low == 2 and 1 <= len(twins) < high and rng.random() < 0.6:
        made = _one_wish(anchor, request.pool, rng), (anchor.name, *twins)
    if (
        made is None
        and low > 1
        and len(twins) >= low - 1
        and len(_companions(anchor, request, twins, rng)) < low - 1
    ):
        made = _versions(anchor, [pool[name] for name in twins], low, high, rng)
        twins = [] if made else twins
    if made is None:
        names = (anchor.name, *_companions(anchor, request, twins, rng)[: rng.randint(low, min(high, 5)) - 1])
        names = _any_live(names, low, request.pool)
        made = _wishes([pool[name] for name in names], request, rng), names
        if twins:
            made = placed(made[0], anchor, [pool[name] for name in twins], rng), names
    text, answer = made
    if not twins and rng.random() < 0.45:
        text = with_vendor(text, anchor, rng)
    why = "; ".join(f"{name} does: {_purpose(pool[name])}" for name in answer)
    return QueryDraft(text, tuple(answer), f"{why}.")


def _key(tool: ToolText) -> tuple[str, frozenset[str]]:
    want = _want(tool)
    return FOUND.get(want.kind, want.kind) or want.verb, content_stems(want.thing)


def _want(tool: ToolText) -> Want:
    return want_of(tool.name, tool.description)


def _asked(tool: ToolText, pool: Sequence[ToolText], rng: random.Random) -> Want:
    """The tool's want as people say it, where that still tells it from the pool's other things."""
    want = _want(tool)
    kind = owner_kind(want)
    name = filled("{person}" if kind == "person" else "{company}", rng) if kind and rng.random() < 0.5 else ""
    said = spoken(want, About(name, kind), rng)
    left = content_stems(said.thing) - content_stems(name)
    mine = content_stems(want.thing)
    rivals = [content_stems(_want(one).thing) for one in pool if one.name != tool.name]
    return want if any(left <= rival and rival != mine for rival in rivals) or not left else said


def _versions(
    anchor: ToolText, twins: Sequence[ToolText], low: int, high: int, rng: random.Random
) -> tuple[str, tuple[str, ...]] | None:
    """The same wish in several named versions or products: what a pool full of twins leaves to ask for."""
    by_place = {product(tool.api): tool for tool in reversed((anchor, *twins))}
    chosen = [anchor, *(tool for tool in by_place.values() if tool is not anchor)][:high]
    if len(chosen) < low:
        return None
    places = [product(tool.api) for tool in chosen]
    named = [f"{in_line(vendor, line)} {version}".strip() for vendor, line, version in places]
    if len({place[:2] for place in places}) == 1:
        named = [f"{in_line(*places[0][:2])} {places[0][2]}", *(version for _, _, version in places[1:])]
    return f"{phrase(_want(anchor), rng)}, in {listed(named)}", tuple(tool.name for tool in chosen)


def _twins(tool: ToolText, pool: Sequence[ToolText]) -> list[str]:
    """Live tools of the pool that do the same to the same thing, such as another version's."""
    mine = _key(tool)
    return [one.name for one in pool if one.name != tool.name and not one.deprecated and _key(one) == mine]


def _one_wish(tool: ToolText, pool: tuple[ToolText, ...], rng: random.Random) -> str:
    """One wish, in a sentence, in few words, or by what is missing; with a detail that few look-alikes share."""
    want = _asked(tool, pool, rng)
    roll = rng.random()
    frames = NEEDS.get(FOUND.get(want.kind, want.kind))
    if roll < 0.2 and frames and not OPEN_QUESTION.match(want.thing):
        frame = rng.choice(frames)
        thing = noun(want, rng, named=0.0 if "{company}" in frame else 0.6)
        return filled(agreed(frame, want).replace("{np}", thing).replace("{bare}", want.thing), rng)
    text = terse(want, rng) if roll < 0.4 else phrase(want, rng)
    own = [run for run in distinguishing(tool, pool) if not content_stems(run) & content_stems(text)]
    if own and rng.random() < (0.6 if len(content_stems(text)) < 4 else 0.25):
        text = f"{text}{rng.choice((', ', ' - ', ' with ', ', including '))}{rng.choice(own[:3])}"
    elif rng.random() < 0.2:
        text = f"{text}, {reason(rng)}"
    return text


def _wishes(tools: Sequence[ToolText], request: QueryRequest, rng: random.Random) -> str:
    """Several wishes: two sentences, or one list with each verb said once."""
    if len(tools) == 1:
        return _one_wish(tools[0], request.pool, rng)
    wants = [_asked(tool, request.pool, rng) for tool in tools]
    if len(wants) == 2 and rng.random() < 0.6:
        first = phrase(wants[0], rng)
        return first + rng.choice(SECOND).format(b=_brief(wants[1], rng))
    parts = _grouped(wants, rng)
    if len(parts) == 2 and len(wants) < 4 and rng.random() < 0.6:
        return parts[0] + rng.choice(SECOND).format(b=parts[1])
    return filled(rng.choice(SEVERAL).replace("{list}", listed(parts)), rng)


def _grouped(wants: Sequence[Want], rng: random.Random) -> list[str]:
    """`update the leave records and the opening balances`, `delete the leave record`: one part per verb."""
    groups: dict[str, list[str]] = {}
    heads: set[str] = set()
    reading = rng.choice(("show", "get", "check", "look up", "pull up", "list"))
    for place, want in enumerate(wants):
        verb = reading if want.kind in LOOKING else verb_for(want, rng, (), 0.3)
        short = place > 2 and want.head not in heads
        heads.add(want.head)
        groups.setdefault(verb, []).append(noun(want, rng, short=short, named=0.1 if place else 0.5))
    return [f"{verb} {listed(list(dict.fromkeys(things)))}" for verb, things in groups.items()]


def _brief(want: Want, rng: random.Random) -> str:
    verb = verb_for(want, rng, (), 0.4)
    return f"{'show me' if verb.endswith(' all') else verb} {noun(want, rng, named=0.1)}"


def _vague(
    anchor: ToolText, pool: Sequence[ToolText], rng: random.Random
) -> tuple[str, tuple[str, ...]] | None:
    """A vague wish and all that fit it, to read about a thing or to do with it; None where they are not 4..6."""
    want = _want(anchor)
    subject = words(want.head)[-1:] and want.head.split()[-1]
    if not subject or subject.endswith("ed") or OPEN_QUESTION.match(want.thing):
        return None
    heads = [want.head] if want.head == subject else [want.head, subject]
    for thing in heads:
        stems = content_stems(thing)
        fitting = [
            one for one in pool if not one.deprecated and stems and stems <= content_stems(_want(one).thing)
        ]
        reading = want.kind in LOOKING
        mine = [one for one in fitting if not reading or _want(one).kind in LOOKING]
        verbs = list(dict.fromkeys(_want(one).verb for one in mine))
        if 4 <= len(mine) <= 6 and anchor in mine and (reading or len(verbs) > 2):
            plural = _many(thing)
            text = rng.choice(VAGUE).replace("{thing}", f"our {plural}" if rng.random() < 0.4 else plural)
            if not reading:
                text = rng.choice(MANAGE).replace("{thing}", plural).replace("{verbs}", listed(verbs))
            names = (anchor.name, *(one.name for one in mine if one.name != anchor.name))
            return filled(text, rng), names
    return None


def _many(thing: str) -> str:
    if thing.endswith("s") and not thing.endswith("ss"):
        return thing
    if thing.endswith("y") and thing[-2:-1] not in "aeou":
        return f"{thing[:-1]}ies"
    return f"{thing}es" if thing.endswith(("s", "x", "ch", "sh")) else f"{thing}s"


def _companions(
    anchor: ToolText, request: QueryRequest, twins: Sequence[str], rng: random.Random
) -> list[str]:
    """Further answers: live neighbours without twins that ask for something else, of the anchor's product first."""
    heads = [content_stems(_want(anchor).thing)]
    found: list[str] = []
    order = rng.sample(request.pool, len(request.pool))
    for tool in sorted(order, key=lambda one: one.api != anchor.api):
        head = content_stems(_want(tool).thing)
        usable = tool.name != anchor.name and not tool.deprecated and tool.name not in twins
        if usable and head and not any(head <= other for other in heads) and not _twins(tool, request.pool):
            heads.append(head)
            found.append(tool.name)
    return found


def _any_live(names: tuple[str, ...], low: int, pool: Sequence[ToolText]) -> tuple[str, ...]:
    """Filled up with whatever lives in the pool, where nothing better is left."""
    live = [tool.name for tool in pool if not tool.deprecated and tool.name not in names]
    return (*names, *live[: max(0, low - len(names))])


def _purpose(tool: ToolText) -> str:
    want = _want(tool)
    return f"{want.verb} {want.thing}"


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else "".join(parts)
