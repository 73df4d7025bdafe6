"""A rule's content, its exchange format, and how rules without a code get one.

In: JSON entries. Out: `RuleContent` values with a hash; names stay names, the database never enters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rules.core.exchange.schema import CLAUSE, TEST
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
        return content_hash(
            {
                "target": self.target,
                "confusables": sorted(self.confusables),
                "text": self.text,
                "clauses": list(self.clauses),
                "tests": list(self.tests),
            }
        )

    def names(self) -> list[tuple[str, str]]:
        """(JSON pointer, name) of every tool the content mentions in a field."""
        named = [("/tool_name", self.target)]
        named += [(f"/confusables/{i}", name) for i, name in enumerate(self.confusables)]
        named += [(f"/clauses/{i}/route_to", clause["route_to"]) for i, clause in enumerate(self.clauses)]
        for i, test in enumerate(self.tests):
            named += [(f"/tests/{i}/tools/{j}", name) for j, name in enumerate(test["tools"])]
        return named


def make_content(
    *,
    target: str,
    confusables: Sequence[str],
    text: str,
    clauses: Iterable[dict[str, Any]] = (),
    tests: Iterable[dict[str, Any]] = (),
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


def to_json(content: RuleContent, *, code: str, domain: str) -> dict[str, Any]:
    """One rule in the exchange format; importing it again changes nothing."""
    return {
        "code": code,
        "domain": domain,
        "tool_name": content.target,
        "confusables": list(content.confusables),
        "rule_text": content.text,
        "clauses": [
            {key: clause[key] for key in CLAUSE["properties"] if key in clause} for clause in content.clauses
        ],
        "tests": [{key: test[key] for key in TEST["properties"] if key in test} for test in content.tests],
    }
