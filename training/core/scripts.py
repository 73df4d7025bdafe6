"""In which scripts a vocabulary reads, and which words of a request are written in others.

In: a vocabulary's pieces, a request. Out: names of scripts as Unicode has them (LATIN, CJK, CYRILLIC), and words.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable

# whole words of a script from which on it can be read; English vocabularies hold single letters of most scripts, and
# 244 Chinese characters in the default encoder's
READABLE = 500
LETTERS = ("Lu", "Ll", "Lt", "Lo")  # not modifiers, which are in use with every script


def request_words(text: str) -> list[str]:
    """What stands between spaces and holds a letter: numbers and signs are no words."""
    return [word for word in text.split() if any(character.isalpha() for character in word)]


def scripts_of(text: str) -> set[str]:
    """The scripts of its letters, after compatible spelling: full-width and mathematical letters are plain ones."""
    if text.isascii():  # most words of most requests
        return {"LATIN"} if any(map(str.isalpha, text)) else set()
    letters = [one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) in LETTERS]
    return {unicodedata.name(letter, "UNNAMED").split()[0] for letter in letters}


def readable_scripts(pieces: Iterable[str]) -> frozenset[str]:
    """The scripts in which a vocabulary holds enough whole words; pieces that continue a word (`##`) are none."""
    words = (piece.lstrip("\u2581") for piece in pieces if not piece.startswith("##"))
    counts = Counter(script for word in words if word.isalpha() for script in scripts_of(word))
    return frozenset(script for script, count in counts.items() if count >= READABLE)
