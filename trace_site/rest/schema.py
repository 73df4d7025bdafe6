"""What the API reads and answers in every operation: pages, ETags, strict JSON."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from trace_site.lib.errors import quoted
from trace_site.lib.files import deeper_than, storable_json

PAGE_PARAMETERS = [
    OpenApiParameter("after", str, description="the `next` of the page before"),
    OpenApiParameter("limit", int, description="rows of a page, 1 to 200", default=50),
]
IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=True,
    description="the ETag that the object was read with",
    examples=[OpenApiExample("revision 3", value='"3"')],
)


def page_of(serializer: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """The answer of keyset_response, for extend_schema(responses=...)."""
    name = serializer.__name__.removesuffix("Serializer")
    fields = {
        "results": serializer(many=True),
        "next": serializers.CharField(allow_null=True, help_text="what ?after= takes; null on the last page"),
    }
    return inline_serializer(f"{name}Page", fields)


# What the API reads: one JSON object, without a key given twice or a field nobody knows.


DEEPEST = 100  # objects and lists inside one another
ID: dict[str, Any] = {"min_value": 0, "max_value": 2**53}
MOST_UNKNOWN = 20  # fields that a refusal names
MOST_VALUES = 200  # of a JSON field
LONGEST_VALUE = 2_000  # characters of a text in one


class StrictJSONParser(JSONParser):
    """JSON in UTF-8. Refuses NaN, a key given twice, text no database stores, and nesting that has no end."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            text = stream.read().decode("utf-8-sig")
            data = json.loads(
                text,
                parse_constant=_no_constant,
                parse_float=_finite,
                object_pairs_hook=_no_duplicates,
            )
        except RecursionError as error:
            raise ParseError("The JSON is nested too deep.") from error
        except UnicodeDecodeError as error:
            raise ParseError(f"The body is not UTF-8: byte {error.start} fits no character.") from error
        except json.JSONDecodeError as error:
            raise ParseError(
                f"Not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
            ) from error
        except ValueError as error:
            raise ParseError(str(error)) from error
        if deeper_than(DEEPEST, data):
            raise ParseError(f"The JSON is nested deeper than {DEEPEST} levels.")
        if not storable_json(data, text):
            raise ParseError("A text holds a NUL or half of a surrogate pair, which no database stores.")
        return data


def finite(value: float) -> None:
    """Of a number that is stored or compared. Raises ValidationError."""
    if not math.isfinite(value):
        raise serializers.ValidationError("Send a finite number.")


def few_values(value: Any) -> None:
    """Of a JSON field that any object may be sent in: as much as a recipe holds. Raises ValidationError."""
    waiting, found = [value], 0
    while waiting and found <= MOST_VALUES:
        item = waiting.pop()
        found += 1
        if isinstance(item, str) and len(item) > LONGEST_VALUE:
            raise serializers.ValidationError(f"A text in it is longer than {LONGEST_VALUE:,} characters.")
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    if found > MOST_VALUES:
        raise serializers.ValidationError(f"It holds more than {MOST_VALUES} values.")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON. Use a number or null.")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"{quoted(digits)} is larger than any number. Use a smaller one.")
    return number


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"The key {quoted(twice)} is given twice. Keep one.")
    return found


class InputSerializer(serializers.Serializer[Any]):
    """A serializer that names what it does not know instead of dropping it."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and (unknown := sorted(set(map(str, data)) - set(self.fields))):
            known = ", ".join(self.fields) or "none"
            more = f" {len(unknown):,} fields are unknown." if len(unknown) > MOST_UNKNOWN else ""
            raise serializers.ValidationError(
                {
                    key[:80]: [f"There is no such field. Fields: {known}.{more}"]
                    for key in unknown[:MOST_UNKNOWN]
                }
            )
        return super().to_internal_value(data)


class TextList(serializers.ListField):
    child = serializers.CharField()


Out = serializers.Serializer[Any]
