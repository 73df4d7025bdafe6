"""Wants as people would put them: which verb, which article, which one, in which kind of sentence.

Words that a rival tool owns (`keep`) never stand in for others, so that a phrase cannot slip into another case.
"""

import random
import re
from collections.abc import Collection
from functools import lru_cache

from synthesis.core.words import STOP, content_stems, words
from synthesis.writers.frames import ASK, ASK_ME, DONE, LOOK, THING
from synthesis.writers.instances import filled, instance
from synthesis.writers.lexicon import FAMILIES, MONTHS, SYNONYMS
from synthesis.writers.spoken import OWNER, PERSON, possessive, without_keys
from synthesis.writers.verbs import ACTIONS, IRREGULAR, VERB_CLASS, VERBS
from synthesis.writers.wants import ARTICLE, GENERIC, MASS, OPEN_QUESTION, TAIL, Want

BOUND = re.compile(r"\s(?:and|as|to|into|from|by|with|without|in a|on a|now|at)\s|\.$")


def one_of(task: str, rng: random.Random) -> str:
    """`open or close a desk` -> one of the two; either is what the tool does."""
    first, _, second = task.removeprefix("to ").partition(" or ")
    verb, _, thing = second.partition(" ")
    if verb in VERB_CLASS or verb in ACTIONS:
        if " " not in first:
            return f"to {rng.choice((first, verb))} {thing}"
        return f"to {rng.choice((first, second))}" if "it" not in words(second) else f"to {first}"
    verb, _, things = task.removeprefix("to ").partition(" ")
    if len(either := re.split(r", or (?=an? )", things)) == 2:
        return f"to {verb} {rng.choice(either)}"
    match = re.search(r"\b([\w-]+) or (?:an? |the )?([\w-]+)(?= in |$)", task)
    if not match or match.group(2) in ("later", "earlier", "more", "cached") or rng.random() < 0.3:
        return task
    return task[: match.start()] + rng.choice(match.groups()) + task[match.end() :]


def participle(verb: str) -> str:
    verb = verb.split()[0]
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if verb.endswith("y") and verb[-2:-1] not in "aeou" else verb + "ed"


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    found = []
    for family in FAMILIES:
        longest_first = sorted(family, key=len, reverse=True)
        found.append((re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b"), tuple(family)))
    return tuple(found)


def vary_words(
    text: str, rng: random.Random, share: float, forbidden: str = "", *, synonyms: bool = False
) -> str:
    """Swap words for members of their family; never for one that `forbidden` (another case's words) holds.

    `synonyms`: only words that mean the same anywhere, not members of one kind.
    """
    for pattern, family in _patterns()[: SYNONYMS if synonyms else None]:
        match = pattern.search(text)
        if not match or rng.random() > share or match.group() in forbidden:
            continue
        choices = [word for word in family if word != match.group() and not _overlaps(word, forbidden)]
        if choices:
            text = text[: match.start()] + rng.choice(choices) + text[match.end() :]
    return text


def _overlaps(word: str, forbidden: str) -> bool:
    return any(part in forbidden for part in words(word) if part not in STOP)


def verb_for(want: Want, rng: random.Random, keep: Collection[str], share: float = 0.5) -> str:
    """The want's verb or one that may stand for it; never one of the rivals' words."""
    if OPEN_QUESTION.match(want.thing) and want.kind != "find":
        return want.verb
    choices = [verb for verb in VERBS.get(want.kind, ()) if not content_stems(verb) & set(keep)]
    if not plural(want):
        choices = [verb for verb in choices if not verb.endswith(" all")]
    if " from " in want.thing:
        choices = [verb for verb in choices if verb != "get rid of"]
    plain = (
        want.verb
        if want.verb not in ("get", "query", "read", "fetch", "retrieve") or not choices
        else rng.choice(choices)
    )
    return rng.choice(choices) if choices and rng.random() < share else plain


def noun(
    want: Want, rng: random.Random, *, keep: Collection[str] = (), short: bool = False, named: float = 0.5
) -> str:
    """The thing with an article, now and then told apart by a number, a name or a date (`named`: how often)."""
    if OPEN_QUESTION.match(want.thing):
        return want.thing
    thing = without_keys(want.thing) if rng.random() < 0.7 else want.thing
    if not short and named < rng.random() and (theirs := possessive(thing)) != thing and rng.random() < 0.5:
        text = theirs
    else:
        text = _limited(thing, want, rng, short=short, named=named)
    return vary_words(text, rng, 0.35, " ".join(sorted(keep)), synonyms=True)


def _limited(thing: str, want: Want, rng: random.Random, *, short: bool, named: float) -> str:
    """The thing with its article, its limits, and a name, number or date."""
    match = TAIL.search(thing)
    core, tail = (thing[: match.start()], thing[match.start() :]) if match else (thing, "")
    new_one = want.kind in ("create", "submit", "post", "generate", "open", "order") or bool(
        re.match(r"new\b", core)
    )
    if tail and (whose := OWNER.search(tail)) and rng.random() < named:
        tail = f"{tail[: whose.start('who')]}{_whose(whose['who'], rng)}{tail[whose.end('who') :]}"
        tail = re.sub(r"\b(?:an?|the|one) (?=our |[a-z]+ [A-Z])", "", tail)
    told = instance(core, rng) if rng.random() < named and not OPEN_QUESTION.match(core) else ""
    limited = (tail or "'s " in core or core.startswith("my ")) and re.match(
        r" (?:for|of|from|to|in)\b", told
    )
    if limited or (want.kind in ("create", "generate", "submit") and re.match(r" (?:no|ref|INV|\d)\b", told)):
        told = ""  # one limit is enough, and what is not made yet has no number
    if told and not tail and not new_one and (named_one := _named_one(core, told, rng)):
        return named_one
    if short and core.split()[-1] not in GENERIC:
        tail = ""
    if re.match(r"\s(?:of|for) [A-Z]", tail) and not new_one:
        core = f"the {ARTICLE.sub('', core)}"
    else:
        core = _article(core, rng, new=new_one, handled=want.kind not in LOOKING)
    near = told.startswith((" ending", " no", " ref", " #")) or not tail
    return f"{core}{told}{tail}" if near else f"{core}{tail}{told}"


def _whose(who: str, rng: random.Random) -> str:
    """`customer` -> `our customer Brightwave`; `employee` -> `employee Dana Ruiz`."""
    if who.endswith("s"):
        return who
    person = bool(re.fullmatch(PERSON, who))
    name = filled("{person}" if person else "{company}", rng)
    return rng.choice((f"{who} {name}", f"our {who} {name}"))


def _named_one(core: str, told: str, rng: random.Random) -> str:
    """`invoice INV-2041`, `customer Brightwave`, `Dana Ruiz's payslip`: what has a name needs no article."""
    bare = ARTICLE.sub("", core)
    if re.match(r"(?:new|all|our|my|both|each|every|more|own|any|\d)\b", bare) or "'s " in core:
        return ""
    whose = re.match(r" (?:of|for) ((?:[A-Z][\w&]+ ?)+)$", told)
    if whose and whose.group(1).strip() not in MONTHS and rng.random() < 0.5:
        return f"{whose.group(1).strip()}'s {bare}"
    if re.match(r" (?:no\b|INV|ref|#|\d|[A-Z])", told) and rng.random() < 0.7:
        return f"{bare}{told}"
    return ""


def _article(core: str, rng: random.Random, *, new: bool, handled: bool) -> str:
    bare = ARTICLE.sub("", core)
    last = bare.split()[-1] if bare else ""
    if re.match(r"(?:all|our|my|both|each|every|more|own|any|\d)\b", bare) or "'s " in core:
        return core
    if (last.endswith("s") and not last.endswith(("ss", "us", "is"))) or last in MASS:
        if last in MASS:
            return rng.choice(("the ", "")) + bare
        return rng.choice(("the ", "the ", "our ", "")) + bare
    if re.match(r"(?:their |[A-Z]\w+ [A-Z])", core):
        return core
    if bare.startswith("new "):
        return f"a {bare}"
    if new:
        return rng.choice((*[_an(bare)] * 11, "another ")) + bare if not core.startswith("the ") else core
    return rng.choice(("the ", "the ", "the ", "this " if handled else "our ", _an(bare))) + bare


def _an(word: str) -> str:
    return "an " if word[:1].lower() in "aeiou" and not word.startswith(("eu", "uni", "use", "us ")) else "a "


def phrase(want: Want, rng: random.Random, *, keep: Collection[str] = (), synonyms: float = 0.5, person: str = "",
           named: float = 0.5) -> str:  # fmt: skip
    """One way to ask for it, without opener, signal or full stop."""
    thing = noun(want, rng, keep=keep, named=named)
    if person:
        thing = re.sub(r"\b(?:a|an|the|one|this|that|our)\s(?:worker|employee|person|user)\b", person, thing)
    if not OPEN_QUESTION.match(thing):
        if want.kind in ("read", "list", "summarize") and rng.random() < 0.45:
            return agreed(rng.choice(THING), want).format(np=_detail(want, thing, rng))
        passive = want.kind not in ("read", "list", "search", "summarize", "find") and not BOUND.search(thing)
        if passive and rng.random() < 0.25:
            thing = re.sub(r"^(?:an?|another|one more)\s", "the ", thing) if want.kind == "update" else thing
            return agreed(rng.choice(DONE), want).format(np=thing, done=participle(want.verb))
    verb = verb_for(want, rng, keep, synonyms)
    frames = ASK_ME if re.search(r"\bme\b", verb) else LOOK if want.kind in LOOKING else ASK
    frame = rng.choice(frames)
    if verb in ("see", "view", "look at", "open") and re.match(
        r"(?:can|could) (?:you|some)|please|pls", frame
    ):
        verb = "show me"  # nobody asks another to see it
    return frame.format(vp=f"{verb} {thing}")


LOOKING = frozenset(("read", "list", "search", "summarize", "find"))


def plural(want: Want) -> bool:
    last = want.head.split()[-1] if want.head else ""
    return last.endswith("s") and not last.endswith(("ss", "us", "is"))


def agreed(frame: str, want: Want) -> str:
    """The frame's verb in the number of its thing."""
    if not plural(want):
        return frame
    for one, many in (("has", "have"), ("needs", "need"), ("was", "were"), ("isn't", "aren't"), ("is", "are"),
                      ("hasn't", "haven't"), ("does", "do"), ("shouldn't", "shouldn't")):  # fmt: skip
        frame = re.sub(
            rf"\b{one} \{{np\}}", f"{many} {{np}}", re.sub(rf"\{{np\}} {one}\b", f"{{np}} {many}", frame)
        )
    frame = re.sub(r"\bis there\b", "are there", frame)
    return re.sub(r"^does ", "do ", frame)


def _detail(want: Want, thing: str, rng: random.Random) -> str:
    details = [piece for piece in want.details if not content_stems(piece) & content_stems(want.head)]
    if details and rng.random() < 0.35:
        return f"the {ARTICLE.sub('', rng.choice(details))} {rng.choice(('on', 'of', 'for'))} {thing}"
    return thing


def terse(
    want: Want, rng: random.Random, keep: Collection[str] = (), *, whole: bool = False, named: float = 0.6
) -> str:
    """As into a search box; `whole`: with all limits of the thing."""
    thing = noun(want, rng, keep=keep, short=not whole and rng.random() < 0.4, named=named)
    thing = ARTICLE.sub("", re.sub(r"^(?:our|that|another|one more)\s", "", thing))
    reading = want.kind in ("read", "list", "summarize", "find")
    verb = "" if reading and rng.random() < 0.5 else f"{verb_for(want, rng, keep, 0.3)} "
    return f"{'show ' if ' me' in verb else verb}{thing}"
