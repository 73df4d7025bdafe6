"""What every export knows of its tools, whatever its kind."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evaluation.core.written_out import Decision
from trace_site.lib.errors import TraceError

Flags = npt.NDArray[np.bool_]  # of every tool


class Spoken(NamedTuple):
    """A clause that the model has not learned decides. `told`: what its answer says of the clauses."""

    decision: Decision
    told: dict[str, Any]


Overlay = Callable[[dict[str, Any], str], Spoken | None]  # of a request and the model's first tool


@dataclass(frozen=True, eq=False, kw_only=True)
class Catalogued:
    folder: Path
    digest: str  # sha256 of manifest.json, which holds the sha256 of every file
    spec: dict[str, Any]
    overlay: Overlay | None = None  # clauses in force beside the model

    @cached_property
    def names(self) -> list[str]:
        """Of its tools, in the order of spec["tools"]."""
        return [tool["name"] for tool in self.spec["tools"]]

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def domains(self) -> npt.NDArray[np.str_]:
        return np.array([tool["domain"] for tool in self.spec["tools"]], dtype=np.str_)

    @cached_property
    def needs(self) -> dict[frozenset[str], list[int]]:
        """{permission targets: the tools that need one of them}."""
        found = defaultdict(list)
        for number, tool in enumerate(self.spec["tools"]):
            if tool.get("permissions"):
                found[frozenset(tool["permissions"])].append(number)
        return found

    def left_out(self, item: dict[str, Any]) -> Flags:
        """The tools that a request must not be answered with at all: those left out, and those of other domains."""
        domain = item.get("domain") or ""
        found: Flags = self.domains != domain if domain else np.zeros(len(self.names), dtype=np.bool_)
        found[[self.numbers[name] for name in item.get("without") or () if name in self.numbers]] = True
        return found

    def not_granted(self, item: dict[str, Any]) -> Flags:
        """Those that need permissions of which the request carries none. None: it may use all."""
        found = np.zeros(len(self.names), dtype=np.bool_)
        if item.get("permissions") is not None:
            granted = frozenset(item["permissions"])
            for need, tools in self.needs.items():
                found[tools] = need.isdisjoint(granted)
        return found

    def require(self, tool: str, item: dict[str, Any]) -> None:
        """Raises TraceError `unknown_tool`."""
        if tool not in self.numbers:
            raise TraceError(
                f"the model has no tool {tool}.",
                code="unknown_tool",
                where=f"question {item['id']}",
                hint="Build the probes from the catalog the model was trained on.",
            )
