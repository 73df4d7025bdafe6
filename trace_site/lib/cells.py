"""Cells of a CSV file that a spreadsheet must not run as formulas: OWASP, CSV injection."""

import re
import unicodedata

FORMULA = frozenset("=+-@\u2212\t\r\n")  # U+2212 is the minus sign; full-width forms are folded into these
SPLITS = re.compile(r"([,;\t\r\n])")  # where a spreadsheet of another country may begin a new cell


def starts_formula(text: str) -> bool:
    """Whether a spreadsheet may take the text for a formula: an operator after any spaces, quotes or unseen marks."""
    for letter in text:
        if letter in FORMULA or unicodedata.normalize("NFKC", letter)[:1] in FORMULA:
            return True
        category = unicodedata.category(letter)
        if not letter.isspace() and letter not in "\"'`" and category not in ("Cf", "Cc", "Pi", "Pf"):
            return False
    return False


def guard(cell: str) -> str:
    """An apostrophe before whatever could start a formula, also where another separator would begin a cell.

    Exactly undone by `unguard`: a leading apostrophe changes neither what starts a formula nor where a cell splits.
    """
    parts = SPLITS.split(cell)
    for place in range(0, len(parts), 2):
        if starts_formula(parts[place] if place else cell):
            parts[place] = f"'{parts[place]}"
    return "".join(parts)


def unguard(cell: str) -> str:
    parts = SPLITS.split(cell)
    for place in range(0, len(parts), 2):
        if parts[place].startswith("'") and starts_formula((parts[place] if place else cell)[1:]):
            parts[place] = parts[place][1:]
    return "".join(parts)
