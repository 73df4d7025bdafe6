"""What every export knows of its tools, whatever its kind."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trace_site.lib.errors import TraceError


@dataclass(frozen=True, eq=False, kw_only=True)
class Catalogued:
    folder: Path
    digest: str  # sha256 of manifest.json, which holds the sha256 of every file
    spec: dict[str, Any]
    names: list[str]  # of its tools, in the order of spec["tools"]

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def by_name(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in self.spec["tools"]}

    @cached_property
    def needs(self) -> dict[int, frozenset[str]]:
        """{tool: its permission targets}, of those that have some."""
        told = {at: frozenset(tool.get("permissions") or ()) for at, tool in enumerate(self.spec["tools"])}
        return {at: need for at, need in told.items() if need}

    def left_out(self, item: dict[str, Any]) -> frozenset[int]:
        """The tools that a request must not be answered with at all: those left out, and those of other domains."""
        domain = item.get("domain") or ""
        hidden = {self.numbers[name] for name in item.get("without") or () if name in self.numbers}
        if domain:
            hidden |= {at for at, tool in enumerate(self.spec["tools"]) if tool["domain"] != domain}
        return frozenset(hidden)

    def not_granted(self, item: dict[str, Any]) -> frozenset[int]:
        """Those that need permissions of which the request carries none. None: it may use all."""
        if item.get("permissions") is None:
            return frozenset()
        granted = frozenset(item["permissions"])
        return frozenset(at for at, need in self.needs.items() if need.isdisjoint(granted))

    def require(self, tool: str, item: dict[str, Any]) -> None:
        """Raises TraceError `unknown_tool`."""
        if tool not in self.numbers:
            raise TraceError(
                f"the model has no tool {tool}.",
                code="unknown_tool",
                where=f"question {item['id']}",
                hint="Build the probes from the catalog the model was trained on.",
            )
