"""What one version of a rule says: `RuleContent`, and its hash."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trace_site.lib.files import content_hash
from trace_site.lib.letters import entered


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


def kept(text: str) -> str:
    """A text of a rule as it is stored and compared."""
    return entered(text).strip()


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
        target=kept(target),
        confusables=tuple(kept(name) for name in confusables),
        text=kept(text),
        clauses=tuple(
            {
                "when": kept(clause["when"]),
                "route_to": kept(clause["route_to"]),
                "exception": bool(clause.get("exception", False)),
                "signals": [kept(signal) for signal in clause.get("signals", []) if kept(signal)],
            }
            for clause in clauses
        ),
        tests=tuple(
            {"query": kept(test["query"]), "tools": [kept(name) for name in test["tools"]]} for test in tests
        ),
    )
