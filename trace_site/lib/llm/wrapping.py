"""What models put around a right answer: thinking in front, one fence, a sentence, whole numbers in quotes.

Taken off, never mended: what stands inside is read as it is.
"""

import json
import re
from typing import Any

THINKING = re.compile(
    r"\s*[<\[](?P<tag>(?:\w+:)?(?:think|thinking|thought|reasoning|reflection))[>\]].*?(?:[<\[]/(?P=tag)[>\]]|\Z)",
    re.S | re.I,
)
# where the opening mark was part of the prompt, and the channels of models that have those
LAST_MARK = re.compile(r".*(?:[<\[]/(?:think|thinking|thought|reasoning)[>\]]|<\|message\|>)", re.S | re.I)
FENCE = re.compile(r"(?:```|~~~)[\w-]*\s*\n?(.*?)(?:```|~~~)", re.S)


def without_thinking(text: str) -> str:
    """What follows the thinking in front of an answer; empty where nothing does."""
    while found := THINKING.match(text):
        text = text[found.end() :]
    return text


def bare_json(text: str) -> str:
    """The one object in a text that is more than that. Raises ValueError when there is none, or more than one."""
    text = without_thinking(text)
    if found := LAST_MARK.match(text):
        text = text[found.end() :]
    fenced = FENCE.findall(text)
    if len(fenced) == 1 and fenced[0].lstrip()[:1] == "{":
        return str(fenced[0])
    start = text.find("{")
    if start < 0:
        raise ValueError("no object")
    _, end = json.JSONDecoder().raw_decode(text, start)
    if "{" in text[end:]:
        raise ValueError("more than one object")
    return text[start:end]


def numbers_of(value: Any, schema: Any) -> Any:
    """The value with whole numbers in place of their texts, where the schema wants whole numbers."""
    if isinstance(value, str) and schema.get("type") == "integer" and re.fullmatch(r"\s*-?\d{1,9}\s*", value):
        return int(value)
    if isinstance(value, dict):
        of = schema.get("properties", {})
        return {name: numbers_of(one, of.get(name, {})) for name, one in value.items()}
    if isinstance(value, list):
        return [numbers_of(one, schema.get("items", {})) for one in value]
    return value
