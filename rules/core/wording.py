"""What a phrase asks for, as words that can be compared across spellings, word order and small changes of wording.

In: a phrase in English, tool names taken out. Out: a `Wording`; two of them are the same, alike, or one is inside
the other. Phrases of other languages are compared too, only without inflections and synonyms.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from catalog.core.near_duplicates import jaccard
from catalog.core.words import plain_words, stem

# The few word lists that comparing phrases needs: small words, synonyms, and words that exclude each other.
#
# Synonyms stand on one line, the word they are counted as first. Alternatives stand on one line too: phrases that
# differ in two of them speak of different cases however alike they are. Every word may be given in any form.


_ARTICLES = "a an the please pls kindly any some this that these those it its his her their our my your"
ARTICLES = frozenset(_ARTICLES.split())
_AUXILIARIES = """is are was were be been being am do does did has have had can could may might shall should will
    would must need needs want wants let lets"""
_CONNECTIVES = """and or but if when whenever while where whether which who whom whose what how then than as so also
    use uses using used call calls just only always simply directly of for to in on at by with from into via through
    about per there here up out you i we they he she me us them one's in case i.e e.g eg ie whoever anyone
    everyone everybody someone somebody t s re ve ll d m"""
SMALL = ARTICLES | frozenset(_AUXILIARIES.split()) | frozenset(_CONNECTIVES.split())
NEGATIONS = frozenset(["not", "no", "never", "without", "cannot", "nor", "neither", "none", "nothing"])

SYNONYMS = """
read retrieve fetch show see view display obtain lookup look find get
create add make register insert generate
delete remove erase
update change edit modify alter amend
cancel void annul revoke
send submit dispatch transmit
refund reimburse
list enumerate
assign allocate
assess estimate judge
identifier id
batch bulk
adjustment correction
start begin initiate launch commence
stop halt end terminate
buy purchase
supplier vendor
customer client buyer shopper
employee worker staff
company firm organisation
bill invoice
missing unavailable absent lacking unknown
known available given present
earlier prior previous before
later after since
detail information info data
wrong incorrect
sum amount
several many multiple various
all every each entire whole
allow permit
document paper
single individual one
""".strip().splitlines()
ALTERNATIVES = """
create delete update read cancel send
known missing
before after during
first last next
second minute hour day week month quarter year
hourly daily weekly monthly quarterly yearly annual
single all several batch bulk
new existing old former current
draft final finalized sent paid unpaid pending captured settled approved
open closed locked
soft hard
internal external
domestic foreign international abroad
inbound outbound incoming outgoing
credit debit
buy sell
customer supplier employee
permanent temporary contingent
full partial
manual automatic
live cached test
active inactive suspended
attach detach
enable disable
increase decrease
start stop
accept reject decline
online offline
personal business
public private
classic newer
planned unplanned
more less fewer
above below
europe africa america americas asia
""".strip().splitlines()

ALIKE = 0.7  # share of telling words (Jaccard) that two phrases must have in common
ALIKE_OVER_SHARED_TOOLS = 0.6
QUERY_ALIKE = 0.7
ALIKE_WHEN_ADDED = 0.75
LEAST_WORDS = 3  # shorter phrases say too little to be compared
SHORT_NEGATION = re.compile(
    r"\b(?:can|could|do|does|did|is|are|was|were|will|would|should|must)n['’]?t\b", re.I
)
BRACKETS = re.compile(r"\([^()]*\)")
EXAMPLE = re.compile(r"\b(?:for example|for instance|such as|e\.g\.|including|typically)\b[^,;.]*", re.I)


@dataclass(frozen=True, slots=True)
class Wording:
    """`sequence`: stems in order; `telling`: the concepts among them; `turns`: negation, numbers."""

    sequence: tuple[str, ...]
    telling: frozenset[str]
    turns: frozenset[str]

    def same_as(self, other: "Wording") -> bool:
        """Word for word the same, but for case, articles and endings."""
        return len(self.telling) > 1 and self.sequence == other.sequence

    def alike(self, other: "Wording", share: float = ALIKE) -> bool:
        """At least that share of the words in common, and no differing one turns the meaning.

        A phrase that only adds words may be a narrower case: less may be added than may be replaced.
        """
        if self.telling == other.telling:
            return len(self.telling) > 1 and self.turns == other.turns
        if min(len(self.telling), len(other.telling)) < LEAST_WORDS:
            return False
        adds = self.telling <= other.telling or other.telling <= self.telling
        near = jaccard(self.telling, other.telling) >= (ALIKE_WHEN_ADDED if adds else share)
        return near and not self.contrasts(other)

    def restated(self, other: "Wording") -> float:
        """The share of the other's telling words that are here, as in a query that asks for that case."""
        if len(other.telling) < LEAST_WORDS or not _agree(self.turns, other.turns):
            return 0.0
        return len(self.telling & other.telling) / len(other.telling)

    @property
    def line(self) -> str:
        """The sequence with a blank around each word: what stands in another's line stands there side by side."""
        return f" {' '.join(self.sequence)} "

    def inside(self, other: "Wording") -> bool:
        """Whatever meets this phrase meets the other: it says all the other says, and maybe more."""
        return (
            len(other.telling) >= LEAST_WORDS and other.telling <= self.telling and self.turns >= other.turns
        )

    def contrasts(self, other: "Wording") -> bool:
        """Whether a negation, a number or a word like `before` for `after` sets them apart."""
        if self.turns != other.turns:
            return True
        ours, theirs = self.telling - other.telling, other.telling - self.telling
        return any(_alternatives(left, right) for left in ours for right in theirs)


def wording(phrase: str) -> Wording:
    """What stands in brackets, and examples, do not count."""
    core = EXAMPLE.sub(" ", BRACKETS.sub(" ", phrase))
    return wording_of(plain_words(SHORT_NEGATION.sub(" not ", core)))


def wording_of(words: Iterable[str]) -> Wording:
    words = list(words)
    stems = [stem(word) for word in words if word not in ARTICLES]
    telling = frozenset(concept(word) for word in words if word not in SMALL and word not in NEGATIONS)
    numbers = {word for word in words if any(map(str.isnumeric, word))}
    negated = {"not"} if any(word in NEGATIONS for word in words) else set()
    return Wording(tuple(stems), telling, frozenset(numbers | negated))


@lru_cache(maxsize=100_000)
def concept(word: str) -> str:
    """The stem, or the first of its synonyms."""
    root = stem(word)
    return _SYNONYM.get(root, root)


def _agree(query: frozenset[str], case: frozenset[str]) -> bool:
    """A query may hold more numbers than the case it asks for, not fewer; negation must be in both or neither."""
    return case <= query and ("not" in query) == ("not" in case)


def _alternatives(left: str, right: str) -> bool:
    if _ALTERNATIVE.get(left, left) == _ALTERNATIVE.get(right, right):
        return True
    shorter, longer = sorted((left, right), key=len)
    return len(shorter) > 3 and longer in (f"un{shorter}", f"in{shorter}", f"non{shorter}", f"de{shorter}")


_SYNONYM = {stem(word): stem(line.split()[0]) for line in SYNONYMS for word in line.split()}
_ALTERNATIVE = {concept(word): line for line in ALTERNATIVES for word in line.split()}
