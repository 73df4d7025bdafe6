"""Plain functions that make one valid row of each kind; override what the test is about."""

from itertools import count
from typing import Any

from catalog.models import Domain, Tool

_numbers = count(1)


def make_domain(slug: str = "hr") -> Domain:
    return Domain.objects.get_or_create(slug=slug, defaults={"title": slug.upper()})[0]


def make_tool(name: str = "", **overrides: Any) -> Tool:
    name = name or f"Payroll/Endpoint{next(_numbers)}"
    api, _, endpoint = name.partition("/")
    fields: dict[str, Any] = {
        "api": api,
        "endpoint": endpoint,
        "description": f"Reads {endpoint} from {api}.",
        "domain": make_domain(),
        "content_hash": "0" * 64,
        "words": f"{api} {endpoint}",
    }
    return Tool.objects.create(name=name, **{**fields, **overrides})
