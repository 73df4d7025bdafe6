"""The rule editor's form, read from numbered rows of clauses and tests, and saved.

Nothing that somebody else saved meanwhile is overwritten. A form names the draft and the revision it shows. Whatever
was saved since then raises `EditConflict`, which holds both sides and what they make together; the person decides.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.http import QueryDict

from catalog.selectors import as_stored
from rules.book import version_contents
from rules.changes.drafts import change_add, change_draft, change_rebase, change_remove, change_save
from rules.changes.services import request_cancel
from rules.core.draft import (
    Merged,
    RuleDiff,
    content_of,
    diff_rules,
    draft_of,
    draft_problems,
    fill_draft,
    merge_contents,
)
from rules.core.rule import PLAIN
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from rules.selectors import newest_version
from trace_site.lib.errors import TraceError
from trace_site.paging import number_of

ROW = re.compile(r"(clause|test)-(\d+)-(\w+)")


@dataclass
class RuleForm:
    """What the editor holds, exactly as typed, so that nothing is lost when it is refused. `draft` is a content.

    `change` and `revision` name the draft and the revision of it that the page shows (0: none yet), `began` the
    rule's version that it showed when there was no draft, `base` the content that was saved or opened last.
    """

    draft: dict[str, Any]
    domain: str = ""
    code: str = ""
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
        draft = {
            "target": target,
            "confusables": [name for name in names if name and name != target],
            "text": _typed(data, "text"),
            "clauses": [row | {"signals": _listed(row.get("signals", ""))} for row in clauses.values()],
            "tests": [row | {"tools": _listed(row.get("tools", ""))} for row in tests.values()],
            **{name: _typed(data, f"plain-{name}") for name in PLAIN},
        }
        return cls(
            fill_draft(draft),
            domain=data.get("domain", ""),
            code=data.get("code", "").strip(),
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
        draft = fill_draft(content)
        clauses, tests = (list(range(len(draft[name]))) for name in ("clauses", "tests"))
        return cls(draft, clause_rows=clauses, test_rows=tests, base=draft, **fields)

    @property
    def names(self) -> list[str]:
        """T(r) as typed so far, the target first."""
        return [name for name in (self.draft["target"], *self.draft["confusables"]) if name]

    def content(self) -> dict[str, Any]:
        return fill_draft(as_stored(self.draft))


def _typed(data: QueryDict, name: str) -> str:
    """A text with the line breaks that people see: places in it are counted so."""
    return data.get(name, "").replace("\r\n", "\n")


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


@dataclass(frozen=True, slots=True)
class Theirs:
    """What was saved meanwhile: a revision of the draft, or a version of the rule when there was no draft yet."""

    content: dict[str, Any]
    label: str
    who: str
    at: datetime
    change: RuleChange | None = None
    version: RuleVersion | None = None


class EditConflict(Exception):
    def __init__(self, form: RuleForm, theirs: Theirs) -> None:
        super().__init__(theirs.label)
        self.form = form
        self.theirs = theirs

    @property
    def merged(self) -> Merged:
        return merge_contents(self.form.base or self.theirs.content, self.form.content(), self.theirs.content)

    @property
    def difference(self) -> RuleDiff:
        """From theirs to mine."""
        return diff_rules(content_of(self.theirs.content), content_of(self.form.content()))


@transaction.atomic
def form_save(*, form: RuleForm, rule: Rule | None, actor: Any, made: int = 0, onto: int = 0) -> RuleChange:
    """Save the form into its draft; the first save makes the draft. Raises EditConflict, or TraceError.

    `made` is the draft that this page's lost first answer spoke of: it is saved into, not made again. `onto` is what
    somebody saved meanwhile, a revision of the draft or a version of the rule: the form's changes go on top of it.
    """
    content = form.content()
    if form.change or made:
        change = open_change(form.change or made)
        if onto:
            clash = EditConflict(form, _their_revision(change))
            if change.revision != onto:
                raise clash
            content = clash.merged.content
        return _save(form, change, onto or form.revision or 1, actor, content)
    newest = newest_version(rule) if rule else None
    if newest and newest.number != form.began:
        clash = EditConflict(form, _their_version(newest))
        if newest.number != onto:
            raise clash
        content = clash.merged.content
    change = change_draft(actor=actor, rule=rule, content=content, domain=form.domain, code=form.code)
    if change.content != content:
        raise EditConflict(form, _their_revision(change))
    return _save(form, change, change.revision, actor, content)


@transaction.atomic
def form_rebase(*, form: RuleForm, actor: Any) -> tuple[RuleChange, int]:
    """The draft on top of the rule's newest version, made after the draft began; and how often both changed a place."""
    change = _save(form, open_change(form.change), form.revision, actor, form.content())
    newest = newest_version(change.rule) if change.rule else None
    overlaps = 0
    if newest and change.base and newest.pk != change.base_id:
        contents = version_contents([change.base, newest])
        began, now = (draft_of(contents[version.pk]) for version in (change.base, newest))
        merged = merge_contents(began, change.content, now)
        overlaps = merged.overlaps
        change = _save(form, change, change.revision, actor, merged.content)
    return change_rebase(change=change, expected=change.revision, actor=actor), overlaps


@transaction.atomic
def draft_discard(*, form: RuleForm, actor: Any) -> ChangeRequest:
    """Remove the change; a draft request left empty is cancelled."""
    request = change_remove(change=open_change(form.change), expected=form.revision, actor=actor)
    return _cancel_empty(request, actor)


@transaction.atomic
def draft_move(*, change: RuleChange, into: int, actor: Any) -> RuleChange:
    request = ChangeRequest.objects.filter(pk=into, state=ChangeRequest.State.DRAFT).first()
    if request is None:
        raise TraceError(f"There is no draft request {into}.", code="not_found", hint="Choose another one.")
    moved = change_add(
        request=request,
        actor=actor,
        rule=change.rule,
        content=change.content,
        domain=change.domain,
        code=change.code,
        note=change.note,
        base=change.base,
    )
    left = change_remove(change=change, expected=change.revision, actor=actor)
    _cancel_empty(left, actor)
    return moved


def open_change(pk: int) -> RuleChange:
    """Raises TraceError `not_found`."""
    rows = RuleChange.objects.select_related("request__author", "rule__published", "base", "edited_by")
    change = rows.filter(pk=pk).first()
    if change is None:
        raise TraceError("This draft was discarded meanwhile.", code="not_found", hint="Start a new one.")
    return change


def _save(
    form: RuleForm, change: RuleChange, expected: int, actor: Any, content: dict[str, Any]
) -> RuleChange:
    texts = {"domain": form.domain, "code": form.code, "note": form.note}
    try:
        return change_save(change=change, expected=expected, actor=actor, content=content, **texts)
    except TraceError as error:
        if error.code != "edited_meanwhile":
            raise
        raise EditConflict(form, _their_revision(open_change(change.pk))) from error


def _their_revision(change: RuleChange) -> Theirs:
    label = f"revision {change.revision}"
    return Theirs(change.content, label, change.edited_by.username, change.edited_at, change=change)


def _their_version(version: RuleVersion) -> Theirs:
    content = draft_of(version_contents([version])[version.pk])
    who = version.author.username if version.author else "the command line"
    return Theirs(content, f"v{version.number}", who, version.created_at, version=version)


def _cancel_empty(request: ChangeRequest, actor: Any) -> ChangeRequest:
    if request.state == ChangeRequest.State.DRAFT and not request.changes.exists():
        return request_cancel(request=request, actor=actor, reason="The draft was discarded.")
    return request
