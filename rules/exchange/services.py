"""Rules in and out as JSON or CSV files: the whole file is checked first, then written in one transaction."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from django.db import transaction

from catalog.selectors import as_stored
from catalog.services import catalog_lock
from rules.book import CatalogNames, current_versions, latest_versions, rule_book, rule_key, version_contents
from rules.changes.drafts import request_create
from rules.changes.permits import audit_request
from rules.core.check import check_rule
from rules.core.draft import RuleDiff, diff_rules, draft_of
from rules.core.rule import RuleContent, make_content
from rules.core.rule_book import OtherRule, RuleKey
from rules.core.rules_file import EntryProblems, RuleEntry, RulesFile, find_codes, read_rules, to_json
from rules.core.tables import write_table
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from rules.services import publish_checked, recheck, versions_save
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_bytes
from trace_site.limits import RULES_FILE

KEPT_ERRORS = 1000
MOST_RULES = 50_000  # from the command line
MOST_REQUESTED = 5_000

Format = Literal["json", "csv"]


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
    """What a file would do. Entries have a domain and a code; `errors` are lines for people on the skipped rules."""

    filename: str
    format: str
    entries: list[RuleEntry]
    changes: list[FileChange]
    skipped: int
    errors: list[str]
    ignored: dict[str, int]

    def of(self, kind: str) -> list[FileChange]:
        return [change for change in self.changes if change.kind == kind]

    def counts(self) -> dict[str, Any]:
        kinds = {"added": "added", "changed": "changed", "unpublished": "draft"}
        return {
            **{name: len(self.of(kind)) for name, kind in kinds.items()},
            "unchanged": len(self.entries) - len(self.changes),
            "skipped": self.skipped,
            "errors": self.errors[:KEPT_ERRORS],
            "ignored": self.ignored,
        }


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


def rules_import(
    *,
    path: Path,
    publish: bool = False,
    dry_run: bool = False,
    actor: Any = None,
    skip_bad_rows: bool = False,
) -> tuple[FilePreview, int]:
    """An operator's import of a JSON or CSV file: what differed from the newest versions, and how many were published.

    Any mistake refuses the file (TraceError `bad_rules`); with `skip_bad_rows` only the rules that have one are left
    out. Publishing this way needs no change request and is audited as {"via": "import"}.
    """
    file = read_rules(read_bytes(path), str(path), MOST_RULES)
    with transaction.atomic():
        if publish:
            catalog_lock()  # before the rules, as in every writer of the catalog
        latest = {rule_key(version.rule): version for version in latest_versions()}
        preview = _preview(
            file, path.name, latest, latest, skip_bad_rows=skip_bad_rows, publish=publish, drafts=False
        )
        if dry_run:
            return preview, 0
        added = [change.entry for change in preview.of("added")]
        made = Rule.objects.bulk_create([Rule(domain_id=entry.domain, code=entry.code) for entry in added])
        keys = [entry.key for entry in preview.entries]
        known = [latest[key].rule_id for key in keys if key in latest]
        held = Rule.objects.select_for_update().filter(pk__in=known).order_by("pk")
        rules = {rule_key(rule): rule for rule in [*made, *held]}
        note = f"imported from {path.name}"
        versions = versions_save(
            [
                (rules[key], entry.content, note, actor)
                for key, entry in zip(keys, preview.entries, strict=True)
            ]
        )
        if publish:
            return preview, publish_checked(versions, actor, {"via": "import", "file": path.name})
        if preview.changes:
            entries = [change.entry for change in preview.changes]
            recheck(rules[entry.key].pk for entry in entries)
        return preview, 0


def file_preview(*, data: bytes, filename: str, skip_bad_rows: bool = False) -> FilePreview:
    """What a JSON or CSV file would change in the published versions, else the newest drafts; writes nothing.

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
    latest, current = (
        {rule_key(version.rule): version for version in versions}
        for versions in (latest_versions(), current_versions())
    )
    return _preview(file, filename, latest, current, skip_bad_rows=skip_bad_rows)


Versions = Mapping[RuleKey, RuleVersion]


def _preview(
    file: RulesFile,
    filename: str,
    latest: Versions,
    against: Versions,
    *,
    drafts: bool = True,
    **options: bool,
) -> FilePreview:
    entries, errors = _checked(file, latest, **options)
    contents = version_contents(against[entry.key] for entry in entries if entry.key in against)
    changes = []
    for entry in entries:
        now = against.get(entry.key)
        if now is None:
            changes.append(FileChange("added", entry))
        elif now.content_hash != entry.content.content_hash():
            changes.append(FileChange("changed", entry, latest[entry.key], contents[now.pk]))
        elif drafts and now.rule.published_id is None:
            changes.append(FileChange("draft", entry, latest[entry.key]))
    skipped = len(_bad(file.problems))
    return FilePreview(filename, file.format, entries, changes, skipped, errors, dict(file.problems.ignored))


def _checked(
    file: RulesFile, latest: Versions, *, skip_bad_rows: bool, publish: bool = False
) -> tuple[list[RuleEntry], list[str]]:
    """The good entries, each with domain and code, and a line for people on every mistake.

    Names, domains and codes are held against the catalog and the rules; with `publish` the findings count too.
    Raises TraceError `bad_rules` with every mistake and its place; with `skip_bad_rows` only when nothing is left.
    """
    problems, names = file.problems, CatalogNames()
    stored = as_stored([asdict(entry.content) for entry in file.entries])
    pairs = zip(file.entries, stored, strict=True)
    file.entries[:] = [replace(entry, content=make_content(**content)) for entry, content in pairs]
    for entry in file.entries:
        found = names.problems(entry.content, entry.domain)
        problems.items += [(entry.pointer + pointer, sentence) for pointer, sentence in found]
    good = [
        replace(entry, domain=names.domains[entry.content.target]) for entry in _good(file.entries, problems)
    ]
    good = _good(_with_codes(good, latest.values(), file), problems)
    if publish:
        book = rule_book(OtherRule(*entry.key, entry.content) for entry in good)
        for entry in good:
            for finding in check_rule(entry.content, book, entry.key):
                if finding.level == "error":
                    problems.add(entry.pointer, f"{entry.code}: {finding.sentence} {finding.fix}")
        good = _good(good, problems)
    # in the order of the rules: 3 of /3/code and of /rules/3/code
    problems.items.sort(
        key=lambda problem: next((int(part) for part in problem[0].split("/") if part.isdecimal()), -1)
    )
    errors = [f"{file.place(pointer)}: {sentence}" for pointer, sentence in problems.items]
    whole = any("/" not in pointer for pointer, _ in problems.items)
    if errors and (whole or not skip_bad_rows or not good):
        pointer, sentence = problems.items[0]
        raise TraceError(
            sentence,
            code="bad_rules",
            where=file.place(pointer),
            hint=f"({len(errors):,} problem{'s' if len(errors) > 1 else ''}; nothing was imported.)",
            extra={"errors": errors[:KEPT_ERRORS], "count": len(errors)},
        )
    return good, errors


def _bad(problems: EntryProblems) -> set[str]:
    """Pointers of the rules that have a mistake: /3 or, in an object, /rules/3."""
    parts = (pointer.split("/") for pointer, _ in problems.items)
    return {"/".join(part[: 3 if part[1:2] == ["rules"] else 2]) for part in parts}


def _good(entries: Iterable[RuleEntry], problems: EntryProblems) -> list[RuleEntry]:
    bad = _bad(problems)
    return [entry for entry in entries if entry.pointer not in bad]


def _with_codes(entries: list[RuleEntry], latest: Iterable[RuleVersion], file: RulesFile) -> list[RuleEntry]:
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
            "The rules already say what the file says.",
            code="nothing_changes",
            where=preview.filename,
            hint="There is nothing to request.",
        )
    title = title or f"Import of {preview.filename}"[:200]
    request = request_create(actor=actor, title=title, description=description)
    made = []
    for change in changes:
        entry, newest = change.entry, change.newest
        made.append(
            RuleChange(
                request=request,
                rule=newest.rule if newest else None,
                domain="" if newest else entry.domain,
                code="" if newest else entry.code,
                content=draft_of(entry.content),
                note=f"imported from {preview.filename}"[:300],
                base=newest,
                base_published_id=newest.rule.published_id if newest else None,
                edited_by=actor,
            )
        )
    RuleChange.objects.bulk_create(made, batch_size=500)
    request.revision += 1
    request.save(update_fields=["revision", "updated_at"])
    counts = {kind: sum(change.kind == kind for change in changes) for kind in ("added", "changed", "draft")}
    audit_request("edited", request, actor, before=request.state, imported=preview.filename, **counts)
    return request
