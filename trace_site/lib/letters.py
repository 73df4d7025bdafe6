"""Texts as they enter, and the one way to cut a text of any script into words.

In: what a person, a file or a program wrote. Out: one spelling of it (NFC, nothing invisible), and its words. Of ASCII
texts both are what they always were, so that keys and hashes of stored texts stay.
"""

import json
import re
import unicodedata
from typing import Any

import regex

# written without spaces: each character counts as a word when compared, as half of one when counted
_BARE = r"[[\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]--[\p{M}\p{P}\p{Nd}]]"
_LETTER = (
    rf"(?:[[\p{{L}}\p{{M}}\p{{N}}]--[{_BARE}\p{{Variation_Selector}}]](?:\u200d|(?<=\p{{ccc=9}})\u200c)?)"
)
UNSPACED = rf"{_BARE}[\p{{M}}\u200d]*"
PIECE = rf"(?:\p{{Katakana}}[\p{{Katakana}}\p{{M}}ー]*|{UNSPACED}|(?:(?!\p{{Katakana}}){_LETTER})+)"
BARE = regex.compile(rf"(?V1){_BARE}")
IN_WORD = rf"(?:(?!{_BARE})[\w\p{{M}}])"
RUN = regex.compile(r"[\p{L}\p{M}\p{N}]+")
WORD = regex.compile(rf"(?V1){PIECE}")
# words and marks, or what stands between blanks, each with the blanks before it
WITH_BLANKS = regex.compile(rf"(?V1)\s*(?:{UNSPACED}|{IN_WORD}+|[^\w\s])|\s+$")
UNBROKEN = regex.compile(rf"(?V1)\s*(?:{UNSPACED}|(?:(?!{UNSPACED})\S)+)|\s+$")
BETWEEN_BARE = regex.compile(rf"(?V1)(?<={_BARE}\p{{M}}*) (?={_BARE})")
_ASCII = re.compile(r"[^\W_]+")
_SHORT = re.compile(r"[^\W_]+(?:'[a-z]+)?"), regex.compile(rf"(?V1){PIECE}(?:'[a-z]+)?")
# lower|Upper, ACRONYM|Word, letter|digit boundaries; "v2" and "Q3" stay whole
_HUMP = regex.compile(
    r"(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{Ll}{2})(?=\p{Nd})|(?<=\p{Nd})(?=\p{Lu}\p{Ll})"
)
# Acme™ is Acme and not Acmetm; in Persian a joiner parts words, and is as often typed as a blank
PARTS = regex.compile(r"[℠™]|(?<=\p{Arabic})\u200c(?=\p{Arabic})")
# joiners and selectors do nothing between letters of most scripts; others, and emoji, are misspelt without them
_PLAIN = r"\p{Latin}\p{Greek}\p{Cyrillic}\p{Variation_Selector}"
_NEEDS = rf"[[\p{{L}}\p{{M}}\p{{Extended_Pictographic}}\p{{Emoji_Modifier}}]--[{_PLAIN}]]"
_HIDDEN = r"[[\p{Default_Ignorable_Code_Point}\p{Cf}]--\p{PCM}]"
INVISIBLE = regex.compile(
    rf"(?V1)(?<={_NEEDS}\uFE0F?)[\u180e\u200c\u200d](?={_NEEDS})(*SKIP)(*FAIL)"
    r"|(?<=[[\p{L}&&\p{Arabic}]\p{ccc=9}])\u200d(*SKIP)(*FAIL)"
    rf"|(?<=[{_NEEDS}0-9#*])\p{{Variation_Selector}}(*SKIP)(*FAIL)"
    r"|\U0001F3F4[\U000E0030-\U000E007A]{3,6}\U000E007F(*SKIP)(*FAIL)"  # the flag of Wales
    rf"|{_HIDDEN}"
)
HIDDEN = regex.compile(rf"(?V1){_HIDDEN}")
# blanks of every width look alike, and so do hyphens that keep a line together
_ALIKE = dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x2800, 0x3000], " ")
_ALIKE |= dict.fromkeys([0x2010, 0x2011], "-")
# digits, Arabic letters as Persian keyboards have them, and the stroke that only lengthens a word
_SAME = {zero + n: str(n) for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50) for n in range(10)}
_SAME |= {0x643: "ک", 0x649: "ی", 0x64A: "ی", 0x640: ""}
# full stops of other scripts, which need no space behind them, and what may close a sentence after one
STOPS = "։؝؞؟۔।॥።፧፨།༎។៕᠃᠉‼⁇⁈⁉。！？｡﹖﹗"
_CLOSING = r"\"')\]」』）»”’"


def sentence_end(ascii_end: str, flags: int = 0) -> re.Pattern[str]:
    """Where a sentence ends: as `ascii_end` says, or behind a full stop of another script."""
    other = rf"(?<=[{STOPS}])(?![{STOPS}{_CLOSING}])\s*|(?<=[{STOPS}][{_CLOSING}])(?![{_CLOSING}])\s*"
    return re.compile(f"{ascii_end}|{other}", flags)


def entered(text: str) -> str:
    """A text as it is kept and compared: composed (NFC), plain blanks, without characters that nobody sees."""
    if text.isascii():
        return text
    seen = INVISIBLE.sub("", unicodedata.normalize("NFC", text)).translate(_ALIKE)
    # a mark may have stood apart from its letter
    return seen if unicodedata.is_normalized("NFC", seen) else entered(seen)


def entered_all(value: Any) -> Any:
    """The same of every text in what JSON gave; its objects stay and change."""
    if isinstance(value, str):
        return entered(value)
    if isinstance(value, dict):
        value.update({key: entered_all(item) for key, item in value.items()})
        return value
    return [entered_all(item) for item in value] if isinstance(value, list) else value


def invisible(value: Any) -> int:
    """How many characters `entered_all` takes out of what JSON gave."""
    text = json.dumps(value, ensure_ascii=False)
    return 0 if text.isascii() else len(INVISIBLE.findall(text))


def folded(text: str) -> str:
    """A text as it is compared: full-width letters and ligatures are plain ones, case is gone."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", HIDDEN.sub("", PARTS.sub(" ", entered(text)))).casefold()
    one = unicodedata.normalize("NFD", plain).replace("i\u0307", "i")  # of the Turkish capital
    return unicodedata.normalize("NFC", one.translate(_SAME))


def split_words(text: str, *, short_forms: bool = False) -> list[str]:
    """The words of a text as they stand, in order. `short_forms`: don't and payroll's stay whole."""
    if text.isascii():
        return (_SHORT[0] if short_forms else _ASCII).findall(text)
    return (_SHORT[1] if short_forms else WORD).findall(text)


def split_humps(name: str) -> list[str]:
    """The words inside an identifier, as they stand: a change from lower to upper case ends a word in every script."""
    return [part for word in split_words(name) for part in _HUMP.split(word) if part]


def count_words(text: str) -> int:
    """What stands between spaces; of scripts without spaces two characters are a word."""
    if not BARE.search(text):
        return len(text.split())
    return sum(max(1, (len(BARE.findall(part)) + 1) // 2) for part in text.split())
