"""A file of rules becomes one change request: first what it would change, then a draft that people submit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction

from rules.book import current_versions, latest_versions, version_contents
from rules.changes.drafts import audit_request, request_create
from rules.core.draft import RuleDiff, diff_rules, draft_of
from rules.core.rule import RuleContent
from rules.core.rules_file import RuleEntry, read_rules
from rules.exchange.files import Checked, Key, check_file
from rules.models import ChangeRequest, RuleChange, RuleVersion
from trace_site.lib.errors import TraceError
from trace_site.limits import RULES_FILE

MOST_RULES = 5_000
HINT = "Split the file, or have an operator import it with manage.py rules_import."


@dataclass(frozen=True, slots=True)
class FileChange:
    """What the file does to one rule. `draft`: it repeats a rule that says the same and is not published."""

    kind: Literal["added", "changed", "draft"]
    entry: RuleEntry
    newest: RuleVersion | None = None
    was: RuleContent | None = None

    @property
    def label(self) -> str:
        return f"{self.entry.domain}/{self.entry.code}"

    @property
    def diff(self) -> RuleDiff | None:
        return diff_rules(self.was, self.entry.content) if self.was else None


@dataclass(frozen=True, slots=True)
class FilePreview:
    """`changes` in the order of the file."""

    filename: str
    format: str
    changes: list[FileChange]
    unchanged: int
    checked: Checked

    def of(self, kind: str) -> list[FileChange]:
        return [change for change in self.changes if change.kind == kind]

    def counts(self) -> dict[str, Any]:
        kinds = {"added": "added", "changed": "changed", "unpublished": "draft"}
        found = {name: len(self.of(kind)) for name, kind in kinds.items()}
        return found | {"unchanged": self.unchanged} | self.checked.counts()


def file_preview(*, data: bytes, filename: str, skip_bad_rows: bool = False) -> FilePreview:
    """What a JSON or CSV file would change; writes nothing.

    Raises TraceError `bad_rules` with every mistake, `too_large`, or what makes the file unreadable.
    """
    if len(data) > RULES_FILE:
        raise TraceError(
            f"the file has {len(data):,} bytes; the limit is {RULES_FILE:,}.",
            code="too_large",
            where=filename,
            hint=HINT,
        )
    file = read_rules(data, filename, MOST_RULES)
    latest = latest_versions()
    checked = check_file(file, latest, skip_bad_rows=skip_bad_rows)
    changes = _changes(checked.entries, latest)
    return FilePreview(filename, file.format, changes, len(checked.entries) - len(changes), checked)


def _changes(entries: Sequence[RuleEntry], latest: Sequence[RuleVersion]) -> list[FileChange]:
    """The entries that say something new: against the published version, else the newest draft."""
    newest = {_key(version): version for version in latest}
    keys = {(entry.domain, entry.code) for entry in entries}
    current = {key: version for version in current_versions() if (key := _key(version)) in keys}
    contents = version_contents(current.values())
    found = []
    for entry in entries:
        key = (entry.domain, entry.code)
        now = current.get(key)
        if now is None:
            found.append(FileChange("added", entry))
        elif now.content_hash != entry.content.content_hash():
            found.append(FileChange("changed", entry, newest[key], contents[now.pk]))
        elif now.rule.published_id is None:
            found.append(FileChange("draft", entry, newest[key]))
    return found


def _key(version: RuleVersion) -> Key:
    return (version.rule.domain_id, version.rule.code)


@transaction.atomic
def file_request(
    *, preview: FilePreview, actor: Any, title: str = "", description: str = "", drafts: bool = False
) -> ChangeRequest:
    """One draft request that holds every change of the file; with `drafts` it also publishes what is unpublished.

    Raises TraceError `nothing_changes`, or `not_allowed` for who may not write rules.
    """
    changes = [change for change in preview.changes if drafts or change.kind != "draft"]
    if not changes:
        raise TraceError(
            "The rules say already what the file says.",
            code="nothing_changes",
            where=preview.filename,
            hint="There is nothing to request.",
        )
    request = request_create(
        actor=actor, title=title or f"Import of {preview.filename}"[:200], description=description
    )
    note = f"imported from {preview.filename}"[:300]
    RuleChange.objects.bulk_create(
        [_rule_change(change, request, note, actor) for change in changes], batch_size=500
    )
    request.revision += 1
    request.save(update_fields=["revision", "updated_at"])
    counts = {kind: sum(change.kind == kind for change in changes) for kind in ("added", "changed", "draft")}
    audit_request("edited", request, actor, before=request.state, imported=preview.filename, **counts)
    return request


def _rule_change(change: FileChange, request: ChangeRequest, note: str, actor: Any) -> RuleChange:
    entry, newest = change.entry, change.newest
    return RuleChange(
        request=request,
        rule=newest.rule if newest else None,
        domain="" if newest else entry.domain,
        code="" if newest else entry.code,
        content=draft_of(entry.content),
        note=note,
        base=newest,
        base_published_id=newest.rule.published_id if newest else None,
        edited_by=actor,
    )
