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
_BARE = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{_BARE}]]"
UNSPACED = rf"[{_BARE}]\p{{M}}*"
PIECE = rf"(?:\p{{Katakana}}[\p{{Katakana}}\p{{M}}ー]*|{UNSPACED}|(?:(?!\p{{Katakana}}){_LETTER})+)"
BARE = regex.compile(rf"(?V1)[[{_BARE}]--\p{{M}}]")
RUN = regex.compile(r"[\p{L}\p{M}\p{N}]+")
WORD = regex.compile(rf"(?V1){PIECE}")
WITH_BLANKS = regex.compile(rf"(?V1)\s*(?:{UNSPACED}|(?:(?![{_BARE}])[\w\p{{M}}])+|[^\w\s])|\s+$")
BETWEEN_BARE = regex.compile(rf"(?V1)(?<=[{_BARE}]\p{{M}}*) (?=[{_BARE}])")
_ASCII = re.compile(r"[^\W_]+")
_SHORT = re.compile(r"[^\W_]+(?:'[a-z]+)?"), regex.compile(rf"(?V1){PIECE}(?:'[a-z]+)?")
# lower|Upper, ACRONYM|Word, letter|digit boundaries; "v2" and "Q3" stay whole
_HUMP = regex.compile(
    r"(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{Ll}{2})(?=\p{Nd})|(?<=\p{Nd})(?=\p{Lu}\p{Ll})"
)
SYMBOL = regex.compile(r"\p{So}")  # Acme™ is Acme and not Acmetm
# joiners and selectors do nothing between letters of most scripts; others, and emoji, are misspelt without them
_NEEDS = r"[[\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}]--[\p{Latin}\p{Greek}\p{Cyrillic}\p{VS}]]"
INVISIBLE = regex.compile(
    rf"(?V1)(?<={_NEEDS}\uFE0F?)[\u200c\u200d](?={_NEEDS})(*SKIP)(*FAIL)"
    rf"|(?<=[{_NEEDS}0-9#*])\p{{VS}}(*SKIP)(*FAIL)"
    r"|[[\p{Default_Ignorable_Code_Point}\p{Cf}]--\p{PCM}]"
)


def entered(text: str) -> str:
    """A text as it is kept and compared: composed (NFC), without characters that nobody sees."""
    if text.isascii():
        return text
    seen = INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return unicodedata.normalize("NFC", seen)  # a mark may have stood apart from its letter


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
    plain = unicodedata.normalize("NFKC", SYMBOL.sub(" ", entered(text))).casefold()
    return unicodedata.normalize("NFC", plain).replace("i\u0307", "i")  # of the Turkish capital


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
