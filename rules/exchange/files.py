"""Rules in and out as JSON or CSV files: the whole file is checked first, then written in one transaction."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from django.db import transaction

from rules.book import ToolNames, current_versions, latest_versions, rule_book, version_contents
from rules.core.check import check_rule
from rules.core.rule import to_json
from rules.core.rule_book import OtherRule
from rules.core.rules_file import EntryProblems, KnownRule, RuleEntry, RulesFile, find_codes, read_rules
from rules.core.tables import write_table
from rules.health import recheck
from rules.models import Rule, RuleVersion
from rules.services import build_version, publish_checked
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_bytes

KEPT_ERRORS = 1000
MOST_RULES = 50_000  # from the command line

Format = Literal["json", "csv"]
Key = tuple[str, str]  # (domain, code)


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
    ids: dict[str, int]

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
    problems, names = file.problems, ToolNames()
    for entry in file.entries:
        names.check(entry, problems)
    placed = [entry for entry in (names.with_domain(entry, problems) for entry in file.entries) if entry]
    coded = _with_codes(_good(placed, problems), latest, file)
    if publish:
        _check_findings(_good(coded, problems), problems)
    good = _good(coded, problems)
    whole = any(pointer.count("/") < 1 for pointer, _ in problems.items)
    if problems.items and (whole or not skip_bad_rows or not good):
        raise _refusal(file)
    return Checked(good, _told(file), len(_bad(problems)), dict(problems.ignored), names.ids())


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
    known: defaultdict[str, list[KnownRule]] = defaultdict(list)
    for version in sorted(latest, key=lambda version: version.rule_id):
        content = contents[version.pk]
        rule = KnownRule(version.rule.code, content.target, frozenset(content.confusables))
        known[version.rule.domain_id].append(rule)
    by_domain: defaultdict[str, list[RuleEntry]] = defaultdict(list)
    for entry in entries:
        by_domain[entry.domain].append(entry)
    coded: list[RuleEntry] = []
    seen: dict[Key, str] = {}
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
    keys = {(entry.domain, entry.code) for entry in found.entries}
    current = {
        key: version for version in latest if (key := (version.rule.domain_id, version.rule.code)) in keys
    }
    added = [entry for entry in found.entries if (entry.domain, entry.code) not in current]
    changed = [
        entry
        for entry in found.entries
        if (version := current.get((entry.domain, entry.code)))
        and version.content_hash != entry.content.content_hash()
    ]
    published = 0
    if not dry_run:
        rules = _rules(added, current)
        written = _versions([*added, *changed], rules, current, found.ids, actor, filename)
        kept = {key: version for key, version in current.items() if key not in written}
        if publish:
            live = [*written.values(), *kept.values()]
            published = publish_checked(live, actor, {"via": "import", "file": filename})
        elif written:
            recheck(version.rule_id for version in written.values())
    unchanged = len(found.entries) - len(added) - len(changed)
    counts = {"added": len(added), "changed": len(changed), "unchanged": unchanged, **found.counts()}
    return RulesResult(counts, _labels(added), _labels(changed), published)


def _labels(entries: list[RuleEntry]) -> list[str]:
    return [f"{entry.domain}/{entry.code}" for entry in entries]


def _rules(added: list[RuleEntry], current: dict[Key, RuleVersion]) -> dict[Key, Rule]:
    """The rule of every entry: rows of new ones are made, rows of old ones are locked."""
    made = Rule.objects.bulk_create([Rule(domain_id=entry.domain, code=entry.code) for entry in added])
    ids = [version.rule_id for version in current.values()]
    locked = Rule.objects.select_for_update().filter(pk__in=ids).order_by("pk")
    rules = {(rule.domain_id, rule.code): rule for rule in [*made, *locked]}
    for key, version in current.items():
        version.rule = rules[key]
    return rules


def _versions(
    entries: list[RuleEntry],
    rules: dict[Key, Rule],
    current: dict[Key, RuleVersion],
    ids: dict[str, int],
    actor: Any,
    filename: str,
) -> dict[Key, RuleVersion]:
    versions = {}
    for entry in entries:
        key = (entry.domain, entry.code)
        number = current[key].number + 1 if key in current else 1
        versions[key] = build_version(rules[key], number, entry.content, ids)
        versions[key].note, versions[key].author = f"imported from {filename}"[:300], actor
    RuleVersion.objects.bulk_create(versions.values(), batch_size=500)
    saved: list[tuple[Any, dict[str, Any]]] = [
        (version.rule, {"version": version.number, "note": version.note}) for version in versions.values()
    ]
    audit_models.record_all(actor=actor, action="rule.saved", objects=saved)
    return versions
