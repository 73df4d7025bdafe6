"""The rule editor's form: numbered rows of clauses and tests, read into what the services take."""

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.http import QueryDict

from rules.core.draft import FIELDS, draft_problems, fill_draft
from trace_site.paging import number_of

ROW = re.compile(r"(clause|test)-(\d+)-(\w+)")


@dataclass
class RuleForm:
    """What the editor holds, exactly as typed, so that nothing is lost when it is refused.

    `change` and `revision` name the draft and the revision of it that the page shows (0: none yet), `began` the
    rule's version that it showed when there was no draft, `base` the content that was saved or opened last.
    """

    domain: str = ""
    code: str = ""
    target: str = ""
    confusables: list[str] = field(default_factory=list)
    text: str = ""
    clauses: list[dict[str, Any]] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    change: int = 0
    revision: int = 0
    began: int = 0
    base: dict[str, Any] = field(default_factory=dict)
    clause_rows: list[int] = field(default_factory=list)
    test_rows: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, data: QueryDict) -> "RuleForm":
        target = data.get("target", "").strip()
        added = data.get("add_confusable", "")
        names = dict.fromkeys(name.strip() for name in [*data.getlist("confusables"), added])
        clauses, tests = _rows(data, "clause"), _rows(data, "test")
        return cls(
            domain=data.get("domain", ""),
            code=data.get("code", "").strip(),
            target=target,
            confusables=[name for name in names if name and name != target],
            text=data.get("text", "").replace("\r\n", "\n"),  # places in it are counted in what people see
            clauses=[
                {
                    "when": row.get("when", ""),
                    "route_to": row.get("route_to", ""),
                    "exception": bool(row.get("exception")),
                    "signals": _listed(row.get("signals", "")),
                }
                for row in clauses.values()
            ],
            tests=[
                {"query": row.get("query", ""), "tools": _listed(row.get("tools", ""))}
                for row in tests.values()
            ],
            note=data.get("note", "").strip(),
            change=number_of(data.get("change", "")),
            revision=number_of(data.get("revision", "")),
            began=number_of(data.get("began", "")),
            base=_draft(data.get("base", "")),
            clause_rows=list(clauses),
            test_rows=list(tests),
        )

    @classmethod
    def of(cls, content: dict[str, Any], **fields: Any) -> "RuleForm":
        """A form that shows a draft's content."""
        content = fill_draft(content)
        clauses, tests = (list(range(len(content[name]))) for name in ("clauses", "tests"))
        return cls(**content, clause_rows=clauses, test_rows=tests, base=content, **fields)

    @property
    def names(self) -> list[str]:
        """T(r) as typed so far, the target first."""
        return [name for name in (self.target, *self.confusables) if name]

    @cached_property
    def is_too_long(self) -> bool:
        """Whether something is longer than a draft may hold; its sentences are not looked through then."""
        return bool(draft_problems(self.content()))

    @property
    def numbered_clauses(self) -> list[tuple[int, dict[str, Any]]]:
        return list(zip(self.clause_rows, self.clauses, strict=True))

    @property
    def numbered_tests(self) -> list[tuple[int, dict[str, Any]]]:
        return list(zip(self.test_rows, self.tests, strict=True))

    def content(self) -> dict[str, Any]:
        """What the rule says, as the services take it."""
        return fill_draft({name: getattr(self, name) for name in FIELDS})


def _rows(data: QueryDict, kind: str) -> dict[int, dict[str, str]]:
    """The rows of one kind that hold anything, in the order of their numbers."""
    rows: dict[int, dict[str, str]] = {}
    for key in data:
        match = ROW.fullmatch(key)
        if match and match[1] == kind:
            rows.setdefault(int(match[2]), {})[match[3]] = data.get(key, "").strip()
    typed = {"clause": ("when", "signals"), "test": ("query",)}[kind]
    return {number: rows[number] for number in sorted(rows) if any(rows[number].get(name) for name in typed)}


def _listed(text: str) -> list[str]:
    """Things separated by line breaks or semicolons."""
    return [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]


def _draft(text: str) -> dict[str, Any]:
    """The content a page sends back as JSON; anything else counts as nothing."""
    try:
        given = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return {} if draft_problems(given) else fill_draft(given)
