"""Rules in and out as JSON or CSV files: the whole file is checked first, then written in one transaction."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from django.db import transaction

from rules.book import CatalogNames, current_versions, latest_versions, rule_book, rule_key, version_contents
from rules.changes.drafts import request_create
from rules.changes.permits import audit_request
from rules.core.check import check_rule
from rules.core.draft import RuleDiff, diff_rules, draft_of
from rules.core.rule import RuleContent
from rules.core.rule_book import OtherRule, RuleKey
from rules.core.rules_file import (
    EntryProblems,
    RuleEntry,
    RulesFile,
    find_codes,
    read_rules,
    to_json,
)
from rules.core.tables import write_table
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from rules.services import publish_checked, recheck, versions_save
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_bytes
from trace_site.limits import RULES_FILE

KEPT_ERRORS = 1000
MOST_RULES = 50_000  # from the command line

Format = Literal["json", "csv"]


@dataclass(frozen=True, slots=True)
class RulesResult:
    """`codes` are (added, changed) codes as domain/code, for people."""

    counts: dict[str, Any]
    added: list[str]
    changed: list[str]
    published: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What a file holds, ready to be written: every entry has a domain and a code. `errors` are lines for people."""

    entries: list[RuleEntry]
    errors: list[str]
    skipped: int
    ignored: dict[str, int]

    def counts(self) -> dict[str, Any]:
        return {"skipped": self.skipped, "errors": self.errors[:KEPT_ERRORS], "ignored": self.ignored}


def rules_import(
    *,
    path: Path,
    publish: bool = False,
    dry_run: bool = False,
    actor: Any = None,
    skip_bad_rows: bool = False,
) -> RulesResult:
    """An operator's import of a JSON or CSV file: a rule that says something new gets a new version.

    Any mistake refuses the file (TraceError `bad_rules`); with `skip_bad_rows` only the rules that have one are left
    out. Publishing this way needs no change request and is audited as {"via": "import"}.
    """
    file = read_rules(read_bytes(path), str(path), MOST_RULES)
    with transaction.atomic():
        latest = latest_versions()
        found = check_file(file, latest, skip_bad_rows=skip_bad_rows, publish=publish)
        return _write(found, latest, publish=publish, dry_run=dry_run, actor=actor, filename=path.name)


def rules_export(*, domain: str = "", rules: Iterable[int] | None = None) -> list[dict[str, Any]]:
    """The published version of each rule, or its newest draft, in the exchange format; `rules` keeps only those ids."""
    wanted = None if rules is None else set(rules)
    versions = [
        version for version in current_versions(domain) if wanted is None or version.rule_id in wanted
    ]
    contents = version_contents(versions)
    return [
        to_json(contents[version.pk], code=version.rule.code, domain=version.rule.domain_id)
        for version in versions
    ]


def as_text(rules: Sequence[dict[str, Any]], fmt: Format) -> str:
    """The file that an export is: the same bytes from the command line, the page and the API."""
    if fmt == "csv":
        return write_table(rules)
    return json.dumps(rules, ensure_ascii=False, indent=2) + "\n"


def check_file(
    file: RulesFile, latest: Sequence[RuleVersion], *, skip_bad_rows: bool, publish: bool = False
) -> Checked:
    """Names, domains and codes of a file against the catalog and the rules; with `publish` its findings too.

    Raises TraceError `bad_rules` with every mistake and its place; with `skip_bad_rows` only when nothing is left.
    """
    problems, names = file.problems, CatalogNames()
    for entry in file.entries:
        found = names.problems(entry.content, entry.domain)
        problems.items += [(entry.pointer + pointer, sentence) for pointer, sentence in found]
    good = _good(file.entries, problems)
    placed = [replace(entry, domain=names.domains[entry.content.target]) for entry in good]
    coded = _with_codes(placed, latest, file)
    if publish:
        _check_findings(_good(coded, problems), problems)
    good = _good(coded, problems)
    whole = any(pointer.count("/") < 1 for pointer, _ in problems.items)
    if problems.items and (whole or not skip_bad_rows or not good):
        raise _refusal(file)
    return Checked(good, _told(file), len(_bad(problems)), dict(problems.ignored))


def _told(file: RulesFile) -> list[str]:
    """Place and sentence of every problem, in the order of the rules."""
    return [
        f"{file.place(pointer)}: {sentence}" for pointer, sentence in sorted(file.problems.items, key=_number)
    ]


def _number(problem: tuple[str, str]) -> int:
    """The rule that the pointer leads to: 3 of /3/code and of /rules/3/code."""
    return next((int(part) for part in problem[0].split("/") if part.isdecimal()), -1)


def _bad(problems: EntryProblems) -> set[str]:
    """Pointers of the rules that have a mistake: /3 or, in an object, /rules/3."""
    parts = (pointer.split("/") for pointer, _ in problems.items)
    return {"/".join(part[: 3 if part[1:2] == ["rules"] else 2]) for part in parts}


def _good(entries: Iterable[RuleEntry], problems: EntryProblems) -> list[RuleEntry]:
    bad = _bad(problems)
    return [entry for entry in entries if entry.pointer not in bad]


def _refusal(file: RulesFile) -> TraceError:
    pointer, sentence = min(file.problems.items, key=_number)
    count = len(file.problems.items)
    return TraceError(
        sentence,
        code="bad_rules",
        where=file.place(pointer),
        hint=f"({count:,} problem{'s' if count > 1 else ''}; nothing was imported.)",
        extra={"errors": _told(file)[:KEPT_ERRORS], "count": count},
    )


def _with_codes(entries: list[RuleEntry], latest: Sequence[RuleVersion], file: RulesFile) -> list[RuleEntry]:
    """Give each entry its code; the same code twice in a domain is an error naming both places."""
    contents = version_contents(latest)
    known: defaultdict[str, list[tuple[str, RuleContent]]] = defaultdict(list)
    for version in sorted(latest, key=lambda version: version.rule_id):
        known[version.rule.domain_id].append((version.rule.code, contents[version.pk]))
    by_domain: defaultdict[str, list[RuleEntry]] = defaultdict(list)
    for entry in entries:
        by_domain[entry.domain].append(entry)
    coded: list[RuleEntry] = []
    seen: dict[RuleKey, str] = {}
    for domain, group in by_domain.items():
        for entry, code in zip(group, find_codes(group, known[domain]), strict=True):
            first = seen.setdefault((domain, code), entry.pointer)
            if first != entry.pointer:
                where = file.place(f"{first}/code")
                file.problems.add(f"{entry.pointer}/code", f"the code {code} is already used at {where}.")
            coded.append(replace(entry, code=code))
    return coded


def _check_findings(entries: list[RuleEntry], problems: EntryProblems) -> None:
    others = [OtherRule(entry.domain, entry.code, entry.content) for entry in entries]
    book = rule_book(others)
    for entry in entries:
        for finding in check_rule(entry.content, book, (entry.domain, entry.code)):
            if finding.level == "error":
                problems.add(entry.pointer, f"{entry.code}: {finding.sentence} {finding.fix}")


def _write(
    found: Checked, latest: Sequence[RuleVersion], *, publish: bool, dry_run: bool, actor: Any, filename: str
) -> RulesResult:
    keys = {_key(entry) for entry in found.entries}
    newest = {key: version for version in latest if (key := rule_key(version.rule)) in keys}
    added = [entry for entry in found.entries if _key(entry) not in newest]
    changed = [
        entry
        for entry in found.entries
        if (version := newest.get(_key(entry))) and version.content_hash != entry.content.content_hash()
    ]
    published = 0
    if not dry_run:
        made = Rule.objects.bulk_create([Rule(domain_id=entry.domain, code=entry.code) for entry in added])
        ids = [version.rule_id for version in newest.values()]
        held = Rule.objects.select_for_update().filter(pk__in=ids).order_by("pk")
        rules = {rule_key(rule): rule for rule in [*made, *held]}
        note = f"imported from {filename}"
        versions = versions_save(
            [(rules[_key(entry)], entry.content, note, actor) for entry in found.entries]
        )
        if publish:
            published = publish_checked(versions, actor, {"via": "import", "file": filename})
        elif added or changed:
            recheck(rules[_key(entry)].pk for entry in [*added, *changed])
    unchanged = len(found.entries) - len(added) - len(changed)
    counts = {"added": len(added), "changed": len(changed), "unchanged": unchanged, **found.counts()}
    names = [f"{entry.domain}/{entry.code}" for entry in [*added, *changed]]
    return RulesResult(counts, names[: len(added)], names[len(added) :], published)


def _key(entry: RuleEntry) -> RuleKey:
    return (entry.domain, entry.code)


# A file becomes one change request: first what it would change, then a draft that people submit.


MOST_REQUESTED = 5_000


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
            hint="Split the file, or have an operator import it with manage.py rules_import.",
        )
    file = read_rules(data, filename, MOST_REQUESTED)
    latest = latest_versions()
    checked = check_file(file, latest, skip_bad_rows=skip_bad_rows)
    changes = _changes(checked.entries, latest)
    return FilePreview(filename, file.format, changes, len(checked.entries) - len(changes), checked)


def _changes(entries: Sequence[RuleEntry], latest: Sequence[RuleVersion]) -> list[FileChange]:
    """The entries that say something new: against the published version, else the newest draft."""
    newest = {rule_key(version.rule): version for version in latest}
    keys = {_key(entry) for entry in entries}
    current = {key: version for version in current_versions() if (key := rule_key(version.rule)) in keys}
    contents = version_contents(current.values())
    found = []
    for entry in entries:
        key = _key(entry)
        now = current.get(key)
        if now is None:
            found.append(FileChange("added", entry))
        elif now.content_hash != entry.content.content_hash():
            found.append(FileChange("changed", entry, newest[key], contents[now.pk]))
        elif now.rule.published_id is None:
            found.append(FileChange("draft", entry, newest[key]))
    return found


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
