"""What an engine is asked: what a caller would send, and nothing else.

The endpoint, the benchmarks, the tests of rules and the requests kept out of training all ask through `Query`, so what
is measured is what is served. What a label says of a request (its domain, rule, side, cluster) has no field here.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.core.withholding import Granted

READ = ("query", "permissions", "domain", "exact", "without")  # of a request, what the model is told


@dataclass(frozen=True, slots=True)
class Query:
    """One question. `permissions`: the targets that are granted; None: all. `domain`: the caller wants tools of it
    alone. `exact`: the ranking equals scoring every tool; without it a search of limited length may do."""

    query: str
    mode: str = "fast"
    k: int = 10
    permissions: Granted = None
    domain: str | None = None
    exact: bool = True

    def as_asked(self) -> dict[str, Any]:
        granted = None if self.permissions is None else sorted(self.permissions)
        return asdict(self) | {"permissions": granted}


def engine_item(key: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """One request as the model is told of it."""
    return {"id": key} | {name: asked[name] for name in READ}


def labelled_item(
    row: Mapping[str, Any], without: Collection[str] = (), *, domain: str | None = None
) -> dict[str, Any]:
    """A labelled request as its caller would ask it. `without`: tools that no answer may name now; `domain`: only
    where a measurement gives it, see Evaluation.Decode."""
    permissions = row.get("permissions")
    granted = None if permissions is None else frozenset(permissions)
    query = Query(row["query"], permissions=granted, domain=domain)
    return engine_item(str(row["id"]), query.as_asked() | {"without": sorted(without)})


def labelled_question(row: Mapping[str, Any]) -> dict[str, Any]:
    """A lettered question without its answer."""
    return {name: row[name] for name in ("id", "question", "choices", "tool") if name in row}
