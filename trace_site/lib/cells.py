"""Values as text for people, and cells of a CSV file that a spreadsheet must not run as formulas (OWASP)."""

import csv
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

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


class _Echo:
    def write(self, text: str) -> str:
        return text


def csv_lines(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """A table as CSV for a spreadsheet: a byte order mark, every cell quoted and guarded, lines end with CRLF."""
    writer = csv.writer(_Echo(), quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    yield "\ufeff" + writer.writerow(head)
    for row in rows:
        yield writer.writerow([guard(_cell(value)) for value in row])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def readable(value: Any) -> str:
    """A JSON value in words: nothing is "none", plain lists are read with commas, objects line by line."""
    if value is None or value == "" or value == [] or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ", ".join(map(readable, value))
    if isinstance(value, dict) and not any(_nested(item) for item in value.values()):
        return "\n".join(f"{name.replace('_', ' ')}: {readable(item)}" for name, item in value.items())
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, indent=1)
    return str(value)


def _nested(value: Any) -> bool:
    """Whether a value would need more than one line of its own."""
    inner = value if isinstance(value, list) else []
    return bool(isinstance(value, dict) and value) or any(isinstance(item, list | dict) for item in inner)
