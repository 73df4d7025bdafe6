"""What one version of a rule says: `RuleContent`, and its hash."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trace_site.lib.files import content_hash


@dataclass(frozen=True, slots=True)
class RuleContent:
    """What one version of a rule says."""

    target: str
    confusables: tuple[str, ...]
    text: str
    clauses: tuple[dict[str, Any], ...] = ()
    tests: tuple[dict[str, Any], ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """T(r) = {target} + confusables."""
        return (self.target, *self.confusables)

    def content_hash(self) -> str:
        """The order of the confusables says nothing, so it is not hashed."""
        return content_hash(asdict(self) | {"confusables": sorted(self.confusables)})

    def names(self) -> list[tuple[str, str]]:
        """(JSON pointer, name) of every tool the content mentions in a field."""
        named = [("/tool_name", self.target)]
        named += [(f"/confusables/{i}", name) for i, name in enumerate(self.confusables)]
        named += [(f"/clauses/{i}/route_to", clause["route_to"]) for i, clause in enumerate(self.clauses)]
        for i, test in enumerate(self.tests):
            named += [(f"/tests/{i}/tools/{j}", name) for j, name in enumerate(test["tools"])]
        return named


def pointed_row(pointer: str) -> tuple[str, int | None]:
    """The field and the row of it that a JSON pointer leads to: `/clauses/1/route_to` -> ("clauses", 1)."""
    name, _, rest = pointer.lstrip("/").partition("/")
    number = rest.partition("/")[0]
    return name, int(number) if number.isdecimal() else None


def make_content(
    *,
    target: str,
    confusables: Sequence[str],
    text: str,
    clauses: Iterable[Mapping[str, Any]] = (),
    tests: Iterable[Mapping[str, Any]] = (),
) -> RuleContent:
    """Trim texts, fill the optional fields of clauses, drop what the format does not know."""
    return RuleContent(
        target=target.strip(),
        confusables=tuple(name.strip() for name in confusables),
        text=text.strip(),
        clauses=tuple(
            {
                "when": clause["when"].strip(),
                "route_to": clause["route_to"].strip(),
                "exception": bool(clause.get("exception", False)),
                "signals": [signal.strip() for signal in clause.get("signals", []) if signal.strip()],
            }
            for clause in clauses
        ),
        tests=tuple(
            {"query": test["query"].strip(), "tools": [name.strip() for name in test["tools"]]}
            for test in tests
        ),
    )
