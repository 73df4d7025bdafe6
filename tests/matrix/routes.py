"""Every address of the site with the names of its parts, as the URLconf holds them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLResolver, get_resolver


@dataclass(frozen=True)
class Route:
    """`parts`: the names of what stands in its path."""

    name: str
    pattern: str
    parts: tuple[str, ...]
    view: Any


def routes() -> list[Route]:
    return list(_under(get_resolver().url_patterns, "", ""))


def _under(patterns: list[Any], names: str, before: str) -> Iterator[Route]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inside = f"{pattern.namespace}:" if pattern.namespace else ""
            yield from _under(pattern.url_patterns, names + inside, path)
        else:
            parts = tuple(pattern.pattern.converters) or tuple(pattern.pattern.regex.groupindex)
            yield Route(f"{names}{pattern.name}", path, parts, pattern.callback)
