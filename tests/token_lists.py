"""The answer of a model as text."""

from collections.abc import Iterable

from catalog.core.tokens import tool_units


def list_json(names: Iterable[str], fmt: str) -> str:
    """As a model is taught to write it: a JSON list with one string of tokens a tool."""
    tokens = [f'"{"".join(tool_units(name, fmt))}"' for name in names]
    return f"[{', '.join(tokens)}]"
