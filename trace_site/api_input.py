"""What the API reads: one JSON object, without a key given twice or a field nobody knows."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from trace_site.lib.files import storable


class StrictJSONParser(JSONParser):
    """JSON in UTF-8. Refuses NaN, a key given twice, text no database stores, and nesting that has no end."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            data = json.loads(
                stream.read().decode("utf-8-sig"),
                parse_constant=_no_constant,
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
        if not storable(data):
            raise ParseError("A text holds a NUL or half of a surrogate pair, which no database stores.")
        return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON. Use a number or null.")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"The key {twice!r} is given twice. Keep one.")
    return found


class InputSerializer(serializers.Serializer[Any]):
    """A serializer that names what it does not know instead of dropping it."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and (unknown := sorted(set(map(str, data)) - set(self.fields))):
            known = ", ".join(self.fields) or "none"
            raise serializers.ValidationError(
                dict.fromkeys(unknown, [f"There is no such field. Fields: {known}."])
            )
        return super().to_internal_value(data)
