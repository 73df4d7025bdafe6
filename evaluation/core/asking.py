"""What an engine is asked: what a caller would send, and nothing else.

The endpoint, the benchmarks, the tests of rules and the requests kept out of training all ask through `Query`, so what
is measured is what is served. What a label says of a request (its domain, rule, side, cluster) has no field here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from evaluation.core.withholding import Granted
from trace_site.lib.errors import TraceError
from trace_site.lib.store import DIGEST, KEY

MODES = ("fast", "trace", "both")
LONGEST_QUERY = 4_000  # characters
MOST_TOOLS = 100  # of one answer
MOST_QUERIES = 64  # of one batch
LONGEST_CALLER = 200  # characters
LONGEST_DOMAIN = 60

READ = ("query", "permissions", "domain", "exact", "without")  # of a request, what the model is told


class Stored(NamedTuple):
    """A model as site and engine name it to each other: where in the artefact store, and the digest of what lies
    there."""

    key: str
    digest: str


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


def is_text(given: Any, longest: int) -> bool:
    return type(given) is str and len(given) <= longest and not given.isspace() and given != ""


def are(fits: Callable[[Any], bool], given: Any) -> bool:
    return type(given) is list and all(map(fits, given))


def are_texts(given: Any) -> bool:
    return are(lambda one: type(one) is str, given)


def is_flag(given: Any) -> bool:
    return type(given) is bool


def is_stored(given: Any) -> bool:
    """What this takes names nothing outside the store."""
    if type(given) is not dict or not are_texts([given.get(name) for name in Stored._fields]):
        return False
    return bool(KEY.fullmatch(given["key"]) and DIGEST.fullmatch(given["digest"]))


def are_objects(given: Any) -> bool:
    return are(lambda one: type(one) is dict, given)


NO_MODEL = "must be the key and digest of a model in the artefact store, or null where something is held."
# {field of a request: (whether this is one, what else to say)}; the API and the engine ask the same of the first
FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "query": (
        lambda given: is_text(given, LONGEST_QUERY),
        f"must be a text of 1..{LONGEST_QUERY} characters.",
    ),
    "mode": (lambda given: given in MODES, f"must be one of {', '.join(MODES)}."),
    "k": (
        lambda given: type(given) is int and 1 <= given <= MOST_TOOLS,
        f"must be a whole number in 1..{MOST_TOOLS}.",
    ),
    "domain": (
        lambda given: given in (None, "") or is_text(given, LONGEST_DOMAIN),
        f"must be a text of at most {LONGEST_DOMAIN} characters, or null.",
    ),
    "exact": (is_flag, "must be true or false."),
    "permissions": (lambda given: given is None or are_texts(given), "must be a list of texts, or null."),
    "stream": (is_flag, "must be true or false."),
    "without": (lambda given: given is None or are_texts(given), "must be a list of texts."),
    "requests": (
        lambda given: are_objects(given) and 1 <= len(given) <= MOST_QUERIES,
        f"must be 1..{MOST_QUERIES} objects.",
    ),
    "model": (lambda given: given is None or is_stored(given), NO_MODEL),
    "fallback": (lambda given: are(is_stored, given), "must be a list of models, each by key and digest."),
    "held": (lambda given: type(given) is str, "must be the name of what is held."),
    "tools": (are_objects, "must be tools."),
    "clauses": (are_objects, "must be clauses."),
}


def check(asked: Mapping[str, Any]) -> None:
    """What is asked, as `as_asked` has it or a stranger sent it. Raises TraceError `bad_request`, naming the field."""
    for name, (fits, problem) in FIELDS.items():
        if name in asked and not fits(asked[name]):
            raise TraceError(problem, code="bad_request", where=f"/{name}")


def read_asked(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a stranger asks, checked; what is left out is as `Query` has it. Raises TraceError `bad_request`."""
    usual = Query("").as_asked() | {"without": [], "stream": False}
    asked = {name: data.get(name, default) for name, default in usual.items()}
    asked["without"] = asked["without"] or []
    check(asked)
    return asked


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
