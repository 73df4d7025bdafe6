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

from catalog.core.words import name_words, stem
from rules.core.reading import CALLS, Place, Reading, Statement
from rules.core.wording import Wording, concept, wording
from trace_site.lib.letters import WORD

READER = 2  # rises when the same words are read differently; what was stored before is read again

State = Literal["apart", "named", "unnamed"]
PAIR_STATES = get_args(State)
# use: led there; away: not used, or not in the case of its sentence; limit: what it needs or cannot do;
# case: when it is right; told: what it does
Kind = Literal["use", "away", "limit", "case", "told", "named"]
ORDER = get_args(Kind)

# words of a sentence that names a tool and says nothing of when it is right
_EMPTY = """exist available endpoint tool api call method operation route function service resource other another
    similar alike same like resemble relate related both following also too likewise as well either alternatively
    alternative otherwise else default option choice choose pick prefer consider decide depend case situation right
    correct suitable appropriate proper name offer provide set group pair family part belong some others sometimes
    usually often normally generally possibly may different various rule version lookalike again further additionally
    moreover mention know familiar confuse catalog way thing fine good"""
EMPTY = frozenset(stem(word) for word in _EMPTY.split())
# of the words around a name: nothing sets it apart from the other, whatever case they speak of
ALIKE = re.compile(
    r"\b(?:confus\w+|mix(?:ed|ing)?(?: \w+)? up|mistak\w+ \w+ for|mistook|look[- ]?alikes?|interchangeabl\w+|synonyms?"
    r"|resembl\w+|see also|(?:(?:similar|next) to|(?:same|well) as|beside|alongside)\s*$)",
    re.I,
)
# A condition leads to a name by where it stands. Before it: `If ..., A`, `In Europe it is A`, `drafts are in A`.
WHEN = r"(?:when|whenever|if|unless|while|until|till|once|except|in\s+case|as\s+long\s+as|provided|only)"
TURN = rf"""(?:{WHEN}|for|from|since|before|after|as\s+of|up\s+to|without|excluding|during|outside|inside|within|under
    |above|below|beyond|where)"""
STANDING = """(?:legacy|old|older|new|newer|newest|latest|previous|former|current|classic|modern|outdated|preferred
    |recommended|default|temporary|experimental|right)"""
LEADS = re.compile(
    rf"""\b{WHEN}\b
    |^\W*(?:(?:and|but)\s+)?(?:{TURN}|to|in|with|by)\s
      (?:.*(?:[,:|>]|(?<!there\s)\b(?:is|are|was|then))|(?:[\w-]+\s+){{1,3}})\s*$
    |\?\s*(?:then)?\s*$
    |\b(?:(?:is|are|was|were|stays?|kept)\s+(?:(?:only|still)\s+)?(?:in|at|under)|belongs?\ to)\s*$
    |\b(?:use|call|with|from|through|via|by)\s+(?:[\w-]+\s+){{0,3}}(?:api|endpoint|tool|route|{STANDING}),?\s*$""",
    re.I | re.S | re.X,
)
# Behind it: `A is only for ...`, `A when ...`, `A needs ...`, `A is the classic endpoint`.
FOLLOWS = re.compile(
    rf"""\W*(?:(?:is|are|was|were|be|been|has|have|can|could|may|must|should|will|would)\s+)*
    (?:(?:and|but|not|never|just|still|always|correct|best|better|right|meant|intended|reserved|restricted|limited
    |used|called|taken|kept|needed|required|valid|available|allowed|permitted|offered|provided|supported|to\ be\ used
    |the\ one|works?|runs?|appl(?:y|ies)|helps?|stays?)\s+)*
    (?:(?:{TURN}|handles?|covers?|serves?|concerns?|needs?|requires?|accepts?|expects?|takes?|excludes?|cannot
    |(?:the|an?)\s+(?:\w+\s+)?{STANDING})\b|(?<=\W)(?<!\bis\s)to\s)""",
    re.I | re.X,
)
ANY = frozenset(concept(word) for word in ("read", "list"))  # no matter of its own: what most tools do
# a heading of its own: `Refunds: A`, `| refunds | A |`, `A (refunds)`
BEFORE, BEHIND = re.compile(r"(?:[:|>]|\s[-–—=])\s*$"), re.compile(r"\s*(?:[:|(]|->|[-–—=]\s)")
PLACE = re.compile(rf"(?:{BEFORE.pattern}|\b(?:to|into|in|at|is|are|as)\s+(?:the\s+)?$)", re.I)
REQUIRES = re.compile(r"\b(?:needs?|requires?|accepts?|expects?)\b", re.I)
# what happened to a tool, or is said of it, is no case of it
HISTORY = re.compile(
    r"\W*(?:(?:is|are|was|were|has|have|had|been|be|not|also|often|\w+ly)\s+)*(?:exists?|existed|introduced|released"
    r"|documented|described|explained|listed|published|mentioned|discussed|talked|known|heard|written|added|renamed"
    r"|maintained|(?:comes?|shows?) up)\b",
    re.I,
)
# `A instead of B`: the first is right where the second is not, whatever else is said of it
CONTRAST = re.compile(
    r"\W*(?:and\s+|but\s+)?(?:not|never|unlike|instead|rather|over|replac\w+|supersed\w+|in place of"
    r"|in preference to)\b",
    re.I,
)
# `Do not call A`, not `Let us not forget A`
REJECTS = re.compile(
    r"\b(?:instead|rather|unlike|over|replac\w+|supersed\w+)\b|(?:\b(?:not|never|avoid|without)|n['’]t)\s+"
    r"(?:(?:[\w-]+\s+){0,3}(?:use|using|call|calling|choose|take|pick|prefer|to|with|by|from|via|through)\s+)?"
    r"(?:(?:for|the|an?|any|old|legacy|classic|deprecated|obsolete)\s+)*$",
    re.I,
)
# `B is deprecated and replaced by it`: by what was named before
BY_IT = re.compile(r"\bby (?:it|this|that)\b|\bin favou?r of (?:it|this|that)\b|\bin its favou?r\b", re.I)
OTHERWISE = re.compile(
    r"^\W*then\W*$|\bif (?:\w+ )?(?:(?:is|are|was|has|have|does|do) ?)?(?:not|n['’]t)\b"
    r"|\b(?:otherwise|else|(?:by|the) default|in (?:all|any|every) other cases?)\b",
    re.I,
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
    firm: bool  # whether a condition leads to the tool, or away from it
    heading: bool = False
    together: tuple[str, ...] = ()  # the tools that are named together there
    after: Place | None = None  # the place that it is set against

    @property
    def tells(self) -> bool:
        return bool(self.wording.telling)


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
    empty = EMPTY - {stem(word) for tool in reading.content.tools for word in _matter(tool)}
    for number, clause in enumerate(reading.content.clauses):
        added = _added(clause["when"], empty)
        place = Place(f"/clauses/{number}")
        yield Said(clause["route_to"], "use", place, added, bool(added.telling))
    for number, one in enumerate(reading.statements):
        kind, added, firm = _read(one, empty)
        heading = bool(BEFORE.search(one.lead) or BEHIND.match(one.tail))
        against = _set_against(reading, number)
        for tool in one.tools:
            yield Said(tool, kind, _place(one), added, firm, heading, one.tools, against)


def _place(one: Statement) -> Place:
    return Place("/rule_text", one.start, one.end)


def _read(one: Statement, empty: frozenset[str]) -> tuple[Kind, Wording, bool]:
    """What a statement says of its tools, in which words, and whether a condition leads to them or away."""
    added = _added(one.words, empty)
    tells = bool(added.telling)
    if ALIKE.search(one.lead) or ALIKE.search(one.tail):
        return "named", added, False
    if one.stance == "dead":
        return "away", added, True
    if one.stance == "not":
        rejects = bool(REJECTS.search(one.lead))
        return ("away" if rejects else "named"), added, rejects
    if not tells and OTHERWISE.search(one.words):
        return "use", added, False
    if CALLS.search(one.lead):  # `Use A.` is a call too, without a case
        return ("use" if tells or not EQUALLY.search(one.words) else "named"), added, tells
    leads, is_object = bool(LEADS.search(one.lead)), bool(wording(one.lead).telling)
    if not tells or HISTORY.match(one.tail):
        return "named", added, False
    if is_object:  # words lead up to the name, and are a condition, or a place to which they lead
        led = leads or PLACE.search(one.lead)
        return ("use" if led else "named"), added, leads
    firm = leads or bool(FOLLOWS.match(one.tail))
    if one.stance == "limits" or REQUIRES.search(one.words):
        return "limit", added, firm
    return ("case" if firm else "told"), added, firm


def _set_against(reading: Reading, number: int) -> Place | None:
    """The place before it that `instead of` sets it against in the same sentence, or `replaced by it` in any."""
    one = reading.statements[number]
    before = reading.statements[number - 1] if number else None
    if before is None or before.stance == one.stance:
        return None
    if one.stance == "dead":
        return _place(before) if BY_IT.search(one.tail) else None
    is_set = one.stance == "not" and before.sentence == one.sentence and CONTRAST.match(one.lead)
    return _place(before) if is_set and not COPULA.search(before.tail) else None


def _added(words: str, empty: frozenset[str]) -> Wording:
    """What a phrase says beyond naming: what stands in brackets counts, empty words do not."""
    phrase = ASIDE.sub(" ", re.sub(r"[()\[\]]", " ", words))
    whole = wording(WORD.sub(lambda match: " " if stem(match[0].casefold()) in empty else match[0], phrase))
    sides = {side for side, shape in SIDES if shape.search(phrase)}
    return Wording(whole.sequence, whole.telling | sides, whole.turns)


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
    if not (
        one.heading
        and other.heading
        or (one.firm or other.firm)
        and _stands(one, other)
        and _stands(other, one)
    ):
        return False
    mine, theirs = one.wording, other.wording
    return "away" in (one.kind, other.kind) or mine.telling != theirs.telling or mine.turns != theirs.turns


def _stands(told: Said, led: Said) -> bool:
    """Whether the first place says when its tool is right: by a condition, as what is left when the other's does not
    hold, or by words on the same matter that the other place does not have."""
    if told.firm or not told.tells:
        return told.firm or led.tells
    matter = led.wording.telling | {concept(word) for tool in (led.tool, told.tool) for word in _matter(tool)}
    ours, theirs = (Wording((), said.wording.telling - ANY, frozenset()) for said in (led, told))
    if not (theirs.telling & matter or ours.contrasts(theirs)):
        return False
    turns, others = told.wording.turns, led.wording.turns
    return bool(theirs.telling - ours.telling or turns - others) or ("not" in turns) != ("not" in others)


def _matter(tool: str) -> list[str]:
    """The words of a name behind its API."""
    return name_words(tool.partition("/")[2])
