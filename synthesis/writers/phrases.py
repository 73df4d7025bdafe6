"""What a tool does, as people would ask for it: verb class, object, details, and what sets it apart from look-alikes.

In: a ToolText (description, name). Out: an Ask from which requests are phrased.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from synthesis.core.clauses import first_sentence
from synthesis.core.queries import ToolText
from synthesis.core.words import STOP, content_stems, stem, words
from synthesis.writers.lexicon import (
    DONE_FRAMES,
    FAMILIES,
    FRAMES,
    ME_FRAMES,
    PARTICIPLE,
    READ_FRAMES,
    VERB_CLASS,
    VERBS,
)

LEAD_IN = re.compile(
    r"^(?:(?:this|the)\s(?:endpoint|api|method|operation|call|resource|service)\s)?(?:is\sused\sto|(?:allows?|lets?|enables?)"
    r"\s(?:you|users?|the\suser|customers?|merchants?|clients?)?\s?(?:to\s)?|use\s(?:this\s)?(?:\w+\s)?to\s|used\sto\s|"
    r"(?:endpoint|method|api|operation|request)\s(?:to|for|that)\s|can\sbe\sused\sto\s)",
    re.IGNORECASE,
)
CUT = re.compile(
    r"\s*(?:[;:(]|,\s|\s-\s|\s(?:with|using|via|based on|that|which|so that|when|if|where|in order)\s"
    r"|\sand\s(?=\w+s\s(?:the|an?|its|every|any)\s))"
)
HEAD = re.compile(r"\s(?:for|by|of|in|from|to|on|at|between|into|against|within|as|per|under|against)\s")
ARTICLE = re.compile(
    r"^(?:a|an|the|one|all|any|this|your|specific|given|single|existing|new)\s+", re.IGNORECASE
)
NOISE = re.compile(
    r"\s*\((?:v\d[^)]*|[^)]{0,40})\)|`|\*|\"|\bspecified\b\s?|\bthe given\b\s?|\bgiven\b\s?", re.IGNORECASE
)
LISTING = re.compile(
    r"^(?:an?\s|the\s)?(?:\w+\s)?(?:list|collection|array|set|details|information|summary)\s(?:of|about|on|for)\s"
    r"(?:(?:all|the|your|an?|available|existing)\s)*",
    re.IGNORECASE,
)
DANGLING = re.compile(r"(?:\s+(?:and|or|the|an?|from|to|with|as|in|of|for|by|on|is|are|its?|their))+$")
TECH = re.compile(
    r"\b(?:endpoint|api|json|id|ids|uuid|http|object|resource|payload|request|parameter|array)s?\b", re.I
)


@dataclass(frozen=True, slots=True)
class Ask:
    """verb: the description's own verb; kind: its class; object: full phrase; head: its core; details: listed parts."""

    verb: str
    kind: str
    object: str
    head: str
    details: tuple[str, ...]


@lru_cache(maxsize=20_000)
def ask_of(name: str, description: str) -> Ask:
    """Read verb, object and details out of a description; the endpoint's words stand in for an empty one."""
    sentence = NOISE.sub("", LEAD_IN.sub("", first_sentence(description))).strip()
    first, _, rest = sentence.partition(" ")
    verb = first.casefold().strip(".,:")
    if verb not in VERB_CLASS and not _is_verb(verb, rest, name):
        verb, rest = _endpoint_verb(name), sentence
    kind = VERB_CLASS.get(verb, "")
    rest = re.sub(r"^(?:and \w+s|in|up|out|or \w+s)\s", "", rest.strip())
    core = CUT.split(rest, maxsplit=1)[0].strip(" .,;:") or " ".join(words(name.partition("/")[2]))
    core = DANGLING.sub("", " ".join(core.split()[:10]))
    core = LISTING.sub("", core) or core
    head = ARTICLE.sub("", HEAD.split(core, maxsplit=1)[0].strip())
    return Ask(_base(verb), kind, _lower_first(core), _lower_first(head or core), _details(description))


def _is_verb(word: str, rest: str, name: str) -> bool:
    """A verb that the endpoint's name holds too (`Enrolls`, EnrollWorker), or one with an object behind it."""
    if len(word) > 2 and stem(word) in {stem(part) for part in words(name.partition("/")[2])[:1]}:
        return True
    third_person = word.endswith("s") and not word.endswith("ss")
    return (
        len(word) > 3
        and third_person
        and bool(re.match(r"(?:an?|the|one|all|each|selected|several)\b", rest))
    )


def _endpoint_verb(name: str) -> str:
    return next((word for word in words(name.partition("/")[2]) if word in VERB_CLASS), "get")


def _base(verb: str) -> str:
    if verb.endswith("ies"):
        return verb[:-3] + "y"
    if verb.endswith(("ches", "shes", "sses", "xes")):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _details(description: str) -> tuple[str, ...]:
    """The listed parts of the description: short pieces between commas after `with` or a colon."""
    tail = re.split(r":\s|\swith\s|\sincluding\s|;\s", NOISE.sub("", first_sentence(description)), maxsplit=1)
    pieces = re.split(r",\s(?:and\s)?|\sand\s|;\s", tail[1]) if len(tail) > 1 else []
    clean = [piece.strip(" .") for piece in pieces]
    return tuple(piece for piece in clean if 1 <= len(piece.split()) <= 4 and not TECH.search(piece))


@lru_cache(maxsize=20_000)
def _patterns() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    found = []
    for family in FAMILIES:
        longest_first = sorted(family, key=len, reverse=True)
        found.append((re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b"), tuple(family)))
    return tuple(found)


def vary_words(text: str, rng: random.Random, share: float, forbidden: str = "") -> str:
    """Swap words for members of their family; never for one that `forbidden` (another case's words) holds."""
    for pattern, family in _patterns():
        match = pattern.search(text)
        if not match or rng.random() > share or match.group() in forbidden:
            continue
        choices = [word for word in family if word != match.group() and not _overlaps(word, forbidden)]
        if choices:
            text = text[: match.start()] + rng.choice(choices) + text[match.end() :]
    return text


def _overlaps(word: str, forbidden: str) -> bool:
    return any(part in forbidden for part in words(word) if part not in STOP)


def distinguishing(tool: ToolText, pool: Sequence[ToolText]) -> list[str]:
    """Runs of the tool's own description whose words few look-alikes use, the rarest first."""
    others = [content_stems(f"{t.endpoint} {t.description}") for t in pool if t.name != tool.name]
    scored = []
    for run in re.split(r"[,;:.()]\s*|\s(?:and|with|for|by|from|in|on|that|which|using)\s", tool.description):
        clean = ARTICLE.sub("", DANGLING.sub("", _without_verb(run.strip(" ."))))
        said = content_stems(clean)
        if not said or not 1 <= len(clean.split()) <= 7 or TECH.search(clean):
            continue
        rarity = min(sum(word in other for other in others) for word in said)
        scored.append((rarity, clean))
    limit = max(1, len(others) // 3)
    return [_lower_first(run) for rarity, run in sorted(scored, key=lambda item: item[0]) if rarity <= limit]


def _without_verb(run: str) -> str:
    """A piece of a description without the verb that starts it."""
    first, _, rest = run.partition(" ")
    starts = first[:1].isupper() and first[1:].islower()
    return rest if rest and (starts or first.casefold() in VERB_CLASS) else run


def phrase(ask: Ask, rng: random.Random, *, plain: bool = False, person: str = "") -> str:
    """One way to ask for it, without opener, signal or punctuation."""
    thing = _thing(ask, rng, plain)
    if person:
        thing = re.sub(r"\b(?:a|an|the|one)\s(?:worker|employee|person|user)\b", person, thing)
    thing = vary_words(thing, rng, 0.5)
    kind = ask.kind or ""
    if kind in ("read", "list", "summarize") and rng.random() < 0.5:
        return rng.choice(READ_FRAMES).format(np=thing)
    if kind in PARTICIPLE and kind not in ("read", "list", "search", "summarize") and rng.random() < 0.2:
        return rng.choice(DONE_FRAMES).format(np=thing, done=PARTICIPLE[kind])
    verbs = [*VERBS.get(kind, [ask.verb]), *([ask.verb] * 2 if ask.verb not in ("return", "get") else [])]
    verb = rng.choice(verbs)
    return rng.choice(ME_FRAMES if " me" in verb or verb == "which are" else FRAMES).format(
        vp=f"{verb} {thing}"
    )


def _thing(ask: Ask, rng: random.Random, plain: bool) -> str:
    """The object in full, only its core, or one detail of it."""
    roll = rng.random()
    details = [piece for piece in ask.details if not content_stems(piece) & content_stems(ask.head)]
    if details and not plain and roll < 0.3 and ask.kind in ("read", "list", "summarize"):
        return f"the {ARTICLE.sub('', rng.choice(details))} {rng.choice(('on', 'of', 'for'))} {_article(ask, rng)}"
    if roll < 0.6:
        return _article(ask, rng)
    return ask.object


def _article(ask: Ask, rng: random.Random) -> str:
    if ask.head.endswith("s") and not ask.head.endswith("ss"):
        return rng.choice(("the ", "", "our ", "these ")) + ask.head
    new = "an " if ask.head[:1] in "aeiou" else "a "
    making = ask.kind in ("create", "submit", "post", "generate")
    return (new if making or rng.random() < 0.2 else rng.choice(("the ", "this ", "the ", "our "))) + ask.head
