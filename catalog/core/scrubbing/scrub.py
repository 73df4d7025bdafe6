"""Personal data out of queries, before anything stores them.

In: a text. Out: the text with neutral stand-ins, and what was found where. The findings hold places, not the words:
whoever keeps them keeps nothing personal. No list of patterns is whole: people read what it proposes.
"""

import re
import unicodedata
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from catalog.core.scrubbing.identities import (
    STAND_INS,
    PersonalSpan,
    cards,
    checked_ids,
    ibans,
    ip_addresses,
    patterned,
    phones,
)
from catalog.core.words import plain_words
from trace_site.lib.letters import entered

ORDER = {kind: place for place, kind in enumerate(STAND_INS)}
DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """`text` is safe to store as far as the detectors see; `found` are places in `plain`, which is not."""

    plain: str
    text: str
    found: tuple[PersonalSpan, ...]

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(one.kind for one in self.found))


def scrub(text: str, spare: Container[str] = (), known: str = "") -> Scrubbed:
    """`text` on one line, a stand-in for whatever points at a person, but kinds in `spare` and words in `known`."""
    plain = one_line(text)
    found = _apart(one for detect in DETECTORS for one in detect(plain) if one.kind not in spare)
    found = [one for one in found if not known or plain[one.start : one.end] not in one_line(known)]
    pieces: list[str] = []
    end = 0
    for one in found:
        pieces += [plain[end : one.start], one.stand_in]
        end = one.end
    return Scrubbed(plain, "".join([*pieces, plain[end:]]), tuple(found))


def one_line(text: str) -> str:
    """Compatibility forms (full-width digits and the like) as plain ones, invisible characters out, blanks single."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    plain = unicodedata.normalize("NFKC", entered(text).translate(DASHES)).translate(DASHES)
    hidden = ("Cc", "Cs", "Co")
    shown = (" " if one.isspace() else "" if unicodedata.category(one) in hidden else one for one in plain)
    return " ".join("".join(shown).split())


def _apart(found: Iterable[PersonalSpan]) -> list[PersonalSpan]:
    """Without overlaps: the kind named first wins, and what is kept grows over whatever overlaps it."""
    kept: list[PersonalSpan] = []
    for one in sorted(found, key=lambda one: one.start):
        if kept and one.start < kept[-1].end:
            last = kept.pop()
            kind = min(last.kind, one.kind, key=ORDER.__getitem__)
            one = PersonalSpan(kind, last.start, max(last.end, one.end))
        kept.append(one)
    return kept


# Names of people, by careful heuristics: a title, a given name with a surname, a given name where a person is meant.
#
# Common given names and surnames are lists beside this file. A name that is on no list is found only by a title or by
# words that introduce a person; that is why an editor reads every query before it is stored.


FOLDER = Path(__file__).resolve().parent
_WORD = r"[^\W\d_]+(?:['’-][^\W\d_]{2,})*"
WORD = re.compile(_WORD)
POSSESSIVE = re.compile(r"['’]s$")
_PROPER = r"[A-ZÀ-ÖØ-ÞŁŚŻČŠŽİ][^\W\d_]*(?:['’-][^\W\d_]+)*"
PARTICLES = frozenset(plain_words("van von der den de da do dos di del della la le el al bin ibn ben ter"))
MOST_PARTICLES = 4  # of a name
TITLE = re.compile(
    r"\b(?i:mr|mrs|ms|mx|miss|mister|dr|prof|sir|madam|herr|frau|señora?|sr|sra|monsieur|mme|mlle|signora?|dott)\b\.?\s+"
    rf"(?:(?i:dr|prof)\.?\s+)?({_PROPER}(?:\s+(?:{_PROPER}|(?:van|von|der|den|de|da|di|del)\b))*)"
)
LOWER_TITLE = re.compile(rf"\b(?:mr|mrs|ms|herr|frau)\b\.?\s+({_WORD})", re.I)
INTRODUCED = re.compile(
    rf"\b(?:my name is|name's|named|signed by|regards,|cheers,|best,|sincerely,|this is)\s+({_PROPER}(?:\s+{_PROPER})?)"
)
PLACES = frozenset(plain_words("north south new san santa santo sao são st saint port fort mount lake"))


@cache
def _words(name: str) -> frozenset[str]:
    lines = (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def people(text: str) -> Iterator[PersonalSpan]:
    for match in TITLE.finditer(text):
        yield PersonalSpan("name", match.start(1), match.end(1))
    for match in LOWER_TITLE.finditer(text):
        if _base(match[1]) in _words("surnames") | _words("given_names"):
            yield PersonalSpan("name", match.start(1), match.end(1))
    for match in INTRODUCED.finditer(text):
        first = _base(match[1].split()[0])
        if first in _words("given_names") | _words("ambiguous_names") or " " in match[1]:
            yield PersonalSpan("name", match.start(1), match.end(1))
    words = list(WORD.finditer(text))
    shouted = text.isupper()
    place = 0
    while place < len(words):
        last = _last_of_name(text, words, place, shouted)
        if last is None:
            place += 1
            continue
        start, end = words[place].start(), words[last].end()
        yield PersonalSpan("name", start, start + len(POSSESSIVE.sub("", text[start:end])))
        place = last + 1


def _last_of_name(text: str, words: list[re.Match[str]], at: int, shouted: bool) -> int | None:
    """The last word of the name that starts here, or None."""
    if at and words[at - 1].group().casefold() in PLACES:
        return None
    first = _base(words[at].group())
    given, ambiguous = first in _words("given_names"), first in _words("ambiguous_names")
    if not given and not ambiguous:
        return _reversed_name(text, words, at)
    last = _with_surname(text, words, at, shouted)
    if last > at:
        firm = last + 1 < len(words) and words[last + 1].group().casefold() in _words("firms_and_places")
        return None if firm and _joined(text, words, last) else last
    capital = words[at].group()[:1].isupper() and not shouted
    if words[at].group().isupper() and len(first) < 4 and not shouted:
        return None  # MIA is an airport
    if given and _meant(text, words, at, capital):
        return at
    possessive = _possessive(text, words[at])
    return at if ambiguous and capital and possessive and at > 0 else None


def _with_surname(text: str, words: list[re.Match[str]], at: int, shouted: bool) -> int:
    """The last word of given name and surnames; `at` where no surname follows."""
    given = _base(words[at].group()) in _words("given_names")
    capital = words[at].group()[:1].isupper() and not shouted
    last = at
    while last + 1 < len(words) and last - at < 4 and _joined(text, words, last, initials=True):
        if _possessive(text, words[last]) and last > at:
            break
        word = words[last + 1].group()
        base = _base(word)
        proper = (
            capital and word[:1].isupper() and not word.isupper() and base not in _words("firms_and_places")
        )
        surname = base in _words("surnames") and (given or proper)
        initial = len(word) == 1 and word.isupper()
        again = base in _words("given_names") and _possessive(text, words[last + 1])
        if base in PARTICLES and (end := _after_particles(text, words, last + 1)):
            after = words[end].group()
            if not ((capital and after[:1].isupper()) or _base(after) in _words("surnames")):
                break
            last = end
        elif surname or (given and (initial or proper or again)):
            last += 1
        else:
            break
    return last


def _after_particles(text: str, words: list[re.Match[str]], at: int) -> int | None:
    """The word after `van der` and the like, if one follows."""
    for _ in range(MOST_PARTICLES):
        if at + 1 == len(words) or not _joined(text, words, at):
            return None
        at += 1
        if _base(words[at].group()) not in PARTICLES:
            return at
    return None


def _reversed_name(text: str, words: list[re.Match[str]], at: int) -> int | None:
    """`Gonzalez, Maria` and `Gonzalez Maria`; a surname alone counts with a possessive."""
    word = words[at].group()
    if _base(word) not in _words("surnames") or not word[:1].isupper():
        return None
    if at + 1 < len(words):
        between = text[words[at].end() : words[at + 1].start()]
        if between in (", ", ",", " ") and _base(words[at + 1].group()) in _words("given_names"):
            return at + 1
    return at if _possessive(text, words[at]) else None


def _meant(text: str, words: list[re.Match[str]], at: int, capital: bool) -> bool:
    """Whether a lone given name, which is no everyday word, stands where a person is meant."""
    if _possessive(text, words[at]):
        return True
    before = words[at - 1].group().casefold() if at else ""
    after = words[at + 1].group().casefold() if at + 1 < len(words) else ""
    if after in _words("firms_and_places") and _joined(text, words, at):
        return False
    if len(words[at].group()) > 3 or (capital and at > 0):
        return True
    return before in _words("words_before_names") or after in _words("words_after_names")


def _joined(text: str, words: list[re.Match[str]], at: int, *, initials: bool = False) -> bool:
    """Whether nothing but a blank (or the point of an initial) stands between this word and the next."""
    between = text[words[at].end() : words[at + 1].start()]
    return between.strip(" ") == "" or (initials and between.strip() == "." and len(words[at].group()) == 1)


def _possessive(text: str, word: re.Match[str]) -> bool:
    after = re.match(r"['’](?:s\b|\s|$)", text[word.end() : word.end() + 3])
    return bool(after or POSSESSIVE.search(word.group()))


@lru_cache(maxsize=4096)
def _base(word: str) -> str:
    """A word as the lists hold it: lower case, no accents, no possessive."""
    plain = POSSESSIVE.sub("", word).casefold().translate(_PLAIN).replace("'", "").replace("’", "")
    first, _, rest = plain.partition("-")
    return first if rest in _words("given_names") else plain  # jean-pierre


_PLAIN = str.maketrans(
    "áàâäãåąăāçćčďðéèêëęěėíìîïīıľłñńňóòôöõøőřŕśšșşťțţúùûüůűūýÿźżž",
    "aaaaaaaaacccddeeeeeeeiiiiiillnnnooooooorrsssstttuuuuuuuyyzzz",
)

DETECTORS = (patterned, ibans, cards, ip_addresses, checked_ids, phones, people)
