"""The rule editor's form: numbered rows of clauses and tests, read into what the services take."""

import re
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from trace_site.lib.errors import TraceError

# JSON pointers of the exchange format, as the editor names them
PLACES = {
    "": "The rule",
    "tool_name": "The target",
    "confusables": "The list of look-alikes",
    "rule_text": "The rule's text",
    "code": "The code",
    "domain": "The domain",
    "clauses": "Clause",
    "tests": "Test",
}
ROW = re.compile(r"(clause|test)-(\d+)-(\w+)")


@dataclass
class RuleForm:
    """What the editor holds, exactly as typed, so that nothing is lost when it is refused."""

    domain: str = ""
    code: str = ""
    target: str = ""
    confusables: list[str] = field(default_factory=list)
    text: str = ""
    clauses: list[dict[str, Any]] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    base: int = 0  # the newest version when the page was opened; 0 for a new rule

    @classmethod
    def read(cls, data: QueryDict) -> "RuleForm":
        target = data.get("target", "").strip()
        added = [data.get("add_confusable", "").strip()]
        names = dict.fromkeys(name.strip() for name in [*data.getlist("confusables"), *added])
        base = data.get("base", "0")
        return cls(
            domain=data.get("domain", ""),
            code=data.get("code", "").strip(),
            target=target,
            confusables=[name for name in names if name and name != target],
            text=data.get("text", ""),
            clauses=[_clause(row) for row in _rows(data, "clause") if any(row.values())],
            tests=[_test(row) for row in _rows(data, "test") if any(row.values())],
            note=data.get("note", "").strip(),
            base=int(base) if base.isdecimal() else 0,
        )

    @property
    def names(self) -> list[str]:
        """T(r) as typed so far, the target first."""
        return [name for name in (self.target, *self.confusables) if name]

    def content(self) -> dict[str, Any]:
        """The keyword arguments of rule_save and rule_preview that say what the rule says."""
        return {
            "target": self.target,
            "confusables": self.confusables,
            "text": self.text,
            "clauses": self.clauses,
            "tests": self.tests,
        }


def form_words(problem: dict[str, str]) -> str:
    """A problem {"pointer", "message"} of the exchange format in the editor's words."""
    name, _, rest = problem.get("pointer", "").lstrip("/").partition("/")
    number = rest.split("/")[0]
    place = PLACES.get(name, name)
    if name in ("clauses", "tests") and number.isdecimal():
        place = f"{place} {int(number) + 1}"
    message = problem["message"]
    return f"{place} {message}" if message.startswith("is ") else f"{place}: {message}"


def in_form_words(error: TraceError) -> TraceError:
    """A refusal of the services, told in the editor's words and with every problem listed."""
    lines = [form_words(problem) for problem in error.extra.get("problems", [])]
    if not lines:
        return error
    return TraceError(lines[0], code=error.code, hint=error.hint, extra={"errors": lines})


def _rows(data: QueryDict, kind: str) -> list[dict[str, str]]:
    """The rows of one kind in the order of their numbers."""
    rows: dict[int, dict[str, str]] = {}
    for key in data:
        match = ROW.fullmatch(key)
        if match and match[1] == kind:
            rows.setdefault(int(match[2]), {})[match[3]] = data.get(key, "").strip()
    return [rows[number] for number in sorted(rows)]


def _clause(row: dict[str, str]) -> dict[str, Any]:
    return {
        "when": row.get("when", ""),
        "route_to": row.get("route_to", ""),
        "exception": bool(row.get("exception")),
        "signals": _listed(row.get("signals", "")),
    }


def _test(row: dict[str, str]) -> dict[str, Any]:
    return {"query": row.get("query", ""), "tools": _listed(row.get("tools", ""))}


def _listed(text: str) -> list[str]:
    """Things separated by line breaks or semicolons."""
    return [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
