"""Which pairs of T(r) a rule tells apart, by which of its words, and which it only names.

In: a rule, read (`reading.py`). Out: every pair of its set with its state. A pair is apart when a condition leads to
the one tool or away from it, and the rule says of the other in what case it is right, or that it is not to be used.
Names alone tell nothing apart, nor do two tools that are spoken of together or in the same words.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from typing import Any, Literal, get_args

from catalog.core.words import WORD, name_words, plain_words, stem
from rules.core.reading import CALLS, Place, Reading, Statement
from rules.core.wording import Wording, concept, wording

READER = 1  # rises when the same words are read differently; what was stored before is read again

State = Literal["apart", "named", "unnamed"]
PAIR_STATES = get_args(State)
# use: led there; away: not used, or not in the case of its sentence; limit: what it needs or cannot do;
# case: what it is for; told: what it does
Kind = Literal["use", "away", "limit", "case", "told", "named"]
ORDER = get_args(Kind)
KINDS: dict[str, Kind] = {"use": "use", "dead": "away", "not": "away", "limits": "limit", "tells": "told"}

# words of a sentence that names a tool and says nothing of when it is right
_EMPTY = """exist available endpoint tool api call method operation route function service resource other another
    similar alike same like resemble relate related both following also too likewise as well either alternatively
    alternative option choice choose pick prefer consider decide depend case situation right correct suitable
    appropriate proper name offer provide set group pair family part belong some others sometimes usually often
    normally generally possibly may different various rule version lookalike again further additionally moreover
    mention know familiar confuse note catalog"""
EMPTY = frozenset(stem(word) for word in _EMPTY.split())
# words that say how a tool stands to others
_STANDING = """legacy old older new newer newest latest previous former current classic modern outdated preferred
    recommended default temporary experimental beta internal private public"""
STANDING = frozenset(concept(word) for word in _STANDING.split())
ALIKE = re.compile(
    r"\b(?:confus\w+|mix(?:ed|ing)? up|mistak\w+|mistook|look[- ]?alikes?|interchangeabl\w+|synonyms?|resembl\w+"
    r"|similar to|same as|as well as|see also|next to|beside|alongside)\b",
    re.I,
)
# what says of a tool that is only spoken of in what case it is right
CASE = re.compile(
    r"\b(?:when|whenever|if|unless|while|until|till|once|only|for|from|since|before|after|as of|up to|in case"
    r"|as long as|provided|about|where|with|without|except|excluding|during|through|outside|inside|within"
    r"|handles?|covers?|serves?|appl(?:y|ies)|meant|intended|reserved|restricted|limited|concerns?|needs?|requires?|accepts?|works?"
    r"|used (?:by|in|to)|belongs?|is right)\b",
    re.I,
)
REQUIRES = re.compile(r"\b(?:needs?|requires?|accepts?|expects?)\b", re.I)
HISTORY = re.compile(
    r"\b(?:exists?|existed|introduced|released|documented|described|listed|published)\b", re.I
)
# `A instead of B`: the first is right where the second is not, whatever else is said of it
CONTRAST = re.compile(
    r"\W*(?:and\s+|but\s+)?(?:not|never|unlike|instead|rather|over|replac\w+|supersed\w+|in place of"
    r"|in preference to)\b",
    re.I,
)
# what stands before a name that is only there
HAS = re.compile(
    r"\b(?:has|have|had|knows?|includ(?:es?|ing)|contains?|holds?|lists?|offers?|provides?|names?|mentions?"
    r"|there (?:is|are|was)|(?:is|are) called)\s+(?:(?:the|a|an|also|both)\s+)*$",
    re.I,
)
OTHERWISE = re.compile(
    r"\b(?:if not|otherwise|else|(?:by|the) default|in (?:all|any|every) other cases?)\b", re.I
)
EQUALLY = re.compile(r"\b(?:alternatively|also|too|equally|either|likewise)\b", re.I)
ASIDE = re.compile(
    r"^\W*see\b|\bone of\b|\b(?:first|second|third|last|next) (?:tool|endpoint|api|call|method|operation|route|one)\b",
    re.I,
)
# what turns a case round without a word that tells: `from 2024 on`, `until 2024`, `apart from 2024`
SIDES = (
    ("<from>", re.compile(r"\b(?:from|since|after|as of|starting)\s+(?:[\w-]+\s+){0,3}?\d", re.I)),
    ("<until>", re.compile(r"\b(?:until|till|before|up to|through|by)\s+(?:[\w-]+\s+){0,3}?\d", re.I)),
    ("<but>", re.compile(r"\b(?:except|besides|apart from|other than|excluding|outside)\b", re.I)),
)
COPULA = re.compile(r"\b(?:is|are|was|were|be|do|does|did)\s*$", re.I)


@dataclass(frozen=True, slots=True)
class Said:
    """What one place of the rule says of one tool. `wording` is what it adds to the name."""

    tool: str
    kind: Kind
    place: Place
    wording: Wording
    together: tuple[str, ...] = ()  # the tools that are named together there
    after: Place | None = None  # the place in the same sentence that it is set against

    @property
    def tells(self) -> bool:
        return bool(self.wording.telling)

    @property
    def firm(self) -> bool:
        """Whether a condition leads to the tool, or away from it."""
        return self.kind in ("away", "limit", "case") or (self.kind == "use" and self.tells)


@dataclass(frozen=True, slots=True)
class Pair:
    """`by`: the places that do it, one of each tool; of a pair that is not apart, what was found of them so far."""

    left: str
    right: str
    state: State
    by: tuple[Said | None, Said | None]


def read_pairs(reading: Reading) -> list[Pair]:
    """Every pair of T(r), the target's first."""
    content = reading.content
    said: dict[str, list[Said]] = {tool: [] for tool in content.tools}
    for one in _said(reading):
        if one.tool in said:
            said[one.tool].append(one)
    best = {tool: _best(of) for tool, of in said.items()}
    found = []
    for left, right in combinations(content.tools, 2):
        apart = _apart(said[left], said[right])
        state: State = "apart" if apart else "named" if best[left] and best[right] else "unnamed"
        found.append(Pair(left, right, state, apart or (best[left], best[right])))
    return found


def to_add(left: str, right: str, by: Sequence[Mapping[str, Any] | None]) -> str:
    """What would tell two tools apart that are not; `by` are the rows of `kept` that speak of them."""
    one, other = by
    if one is None or other is None:
        missing = [name for name, said in ((left, one), (right, other)) if said is None]
        return f"Say when {' and when '.join(missing)} is right: the rule does not name it."
    if one["kind"] == other["kind"] == "away":
        return "The rule leads away from both. Say which of them is still right, and when."
    if all(one[part] == other[part] for part in ("pointer", "start", "end")):
        return "Both are named together. Say when the one is right, and when the other."
    if weak := [name for name, said in ((left, one), (right, other)) if not said["firm"]]:
        return f"Say when {' and when '.join(weak)} is right."
    return "Both are right in the same words. Say what sets the two cases apart."


# What is kept of a reading, by the ids of the tools.

Row = dict[str, Any]


def kept(pairs: Sequence[Pair], ids: Mapping[str, int]) -> tuple[list[Row], list[list[Any]]]:
    """`said` and `pairs` of a stored reading (rules.models.RuleReading)."""
    said: dict[tuple[str, Place], int] = {}
    rows: list[Row] = []
    stored: list[list[Any]] = []
    for pair in pairs:
        places = []
        for one in pair.by:
            if one and (one.tool, one.place) not in said:
                said[one.tool, one.place] = len(rows)
                rows.append({"tool": ids[one.tool], "kind": one.kind, "firm": one.firm, **asdict(one.place)})
            places.append(said[one.tool, one.place] if one else None)
        stored.append([ids[pair.left], ids[pair.right], pair.state, *places])
    return rows, stored


def apart(pairs: Iterable[Sequence[Any]], corrections: Iterable[Mapping[str, Any]]) -> list[list[int]]:
    """The stored pairs that count, the smaller id first: as read, but for what a person has corrected."""
    found = {tuple(sorted(pair[:2])): pair[2] == "apart" for pair in pairs}
    found |= {tuple(sorted(one["pair"])): one["apart"] for one in corrections}
    return sorted(list(pair) for pair, is_apart in found.items() if is_apart)


def _said(reading: Reading) -> Iterator[Said]:
    """Clauses first, then the text from left to right."""
    content = reading.content
    for number, clause in enumerate(content.clauses):
        yield Said(clause["route_to"], "use", Place(f"/clauses/{number}"), _added(clause["when"], ()))
    for number, one in enumerate(reading.statements):
        kind, added = _read(reading, one)
        against = _set_against(reading, number)
        for tool in one.tools:
            yield Said(tool, kind, _place(one), added, one.tools, against)


def _place(one: Statement) -> Place:
    return Place("/rule_text", one.start, one.end)


def _read(reading: Reading, one: Statement) -> tuple[Kind, Wording]:
    text, kind = reading.content.text, KINDS[one.stance]
    if ALIKE.search(one.words):
        return "named", wording("")
    apis = sorted({tool.partition("/")[0] for tool in reading.content.tools})
    added = _added(one.words, () if kind == "use" else apis)
    if kind == "told":
        kind = "limit" if REQUIRES.search(one.words) else "case" if CASE.search(one.words) else "told"
    lead = text[one.start : text.index(one.tools[0], one.start)]
    if kind == "use" and HAS.search(lead):
        return "named", added
    if added.telling:
        history = kind in ("told", "case", "limit") and HISTORY.search(one.words)
        return ("named" if history else kind), added
    if OTHERWISE.search(one.words):
        return "use", added
    if kind == "use":  # a call without a case, such as `Use A.`
        return ("use" if CALLS.search(lead) and not EQUALLY.search(one.words) else "named"), added
    return (kind if kind == "away" else "named"), added


def _set_against(reading: Reading, number: int) -> Place | None:
    """The place before it in the same sentence that `instead of` and its like set it against."""
    one = reading.statements[number]
    before = reading.statements[number - 1] if number else None
    if before is None or one.stance != "not" or before.sentence != one.sentence or before.stance == "not":
        return None
    text = reading.content.text
    is_set = CONTRAST.match(text, one.start, one.end) and not COPULA.search(text[before.start : before.end])
    return _place(before) if is_set else None


def _added(words: str, apis: Sequence[str]) -> Wording:
    """What a phrase says beyond naming: what stands in brackets counts, empty words and the tools' APIs do not."""
    phrase = ASIDE.sub(" ", re.sub(r"[()\[\]]", " ", words))
    whole = wording(WORD.sub(lambda match: " " if stem(match[0].casefold()) in EMPTY else match[0], phrase))
    named = {concept(word) for api in apis for word in (*name_words(api), *plain_words(api))}
    sides = {side for side, shape in SIDES if shape.search(phrase)}
    return Wording(whole.sequence, (whole.telling - named) | sides, whole.turns)


def _best(said: Sequence[Said]) -> Said | None:
    """What says most of a tool."""
    return min(said, key=lambda one: (not one.firm, ORDER.index(one.kind)), default=None)


def _apart(left: Sequence[Said], right: Sequence[Said]) -> tuple[Said, Said] | None:
    """The first two places that tell two tools apart, two conditions before a condition and a description."""
    found = [both for both in product(left, right) if tell_apart(*both)]
    return min(found, key=lambda both: sum(not one.firm for one in both), default=None)


def tell_apart(one: Said, other: Said) -> bool:
    """Whether these two places, each of another tool, say which of the two is right."""
    if one.tool in other.together or other.tool in one.together:
        return False  # what is said of both tells neither from the other
    if one.place == other.after or other.place == one.after:
        return True
    if "named" in (one.kind, other.kind) or one.kind == other.kind == "away":
        return False
    if "away" in (one.kind, other.kind):
        away, said = (one, other) if one.kind == "away" else (other, one)
        return said.kind != "told" or _on_topic(away, said)
    spoken_of = [said for said in (one, other) if said.kind in ("told", "case")]
    if one.kind == other.kind == "case":
        return not _same(one.wording, other.wording)
    if len(spoken_of) == 2:  # a case and a description: each must say something of its own
        return one.kind != other.kind and _adds(one, other) and _adds(other, one)
    if len(spoken_of) == 1:
        led = other if spoken_of[0] is one else one
        return (led.tells or spoken_of[0].kind == "case") and _adds(led, spoken_of[0])
    return (one.tells or other.tells) and not _same(one.wording, other.wording)


def _same(one: Wording, other: Wording) -> bool:
    return one.telling == other.telling and one.turns == other.turns


def _adds(led: Said, told: Said) -> bool:
    """Whether a description says anything that the other place does not, and of the same matter."""
    if told.kind == "told" and not _on_topic(led, told):
        return False
    ours, theirs = led.wording.turns, told.wording.turns
    return bool(told.wording.telling - led.wording.telling or theirs - ours) or ("not" in ours) != (
        "not" in theirs
    )


def _on_topic(other: Said, told: Said) -> bool:
    """Whether a description speaks of what the other place or one of the names speaks of: `comes up now and then` is
    said of any tool."""
    words = (word for tool in (other.tool, told.tool) for word in name_words(tool.partition("/")[2]))
    matter = other.wording.telling | STANDING | {concept(word) for word in words}
    ours, theirs = (Wording((), said.wording.telling, frozenset()) for said in (other, told))
    return bool(told.wording.telling & matter) or ours.contrasts(theirs)
