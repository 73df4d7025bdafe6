"""Rules in and out as JSON files: the whole file is checked first, then written in one transaction."""

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import transaction

from rules.book import current_versions, latest_versions, rule_book, version_contents
from rules.core.findings import OtherRule, check_rule
from rules.core.rule import EntryProblems, KnownRule, RuleEntry, find_codes, parse_document, to_json
from rules.models import Rule, RuleVersion
from rules.names import ToolNames
from rules.services import build_version, publish_checked
from trace_site import audit
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json

KEPT_ERRORS = 1000


@dataclass(frozen=True, slots=True)
class RulesResult:
    """`codes` are (added, changed) codes as domain/code, for people."""

    counts: dict[str, Any]
    added: list[str]
    changed: list[str]
    published: int


def rules_import(
    *, path: Path, publish: bool = False, dry_run: bool = False, filename: str = "", actor: Any = None
) -> RulesResult:
    """Import a JSON list of rules. A rule that says something new gets a new version; any error refuses the file."""
    shown = filename or str(path)
    try:
        document = read_json(path)
    except TraceError as error:
        error.where = error.where.replace(str(path), shown, 1)
        raise
    entries, problems = parse_document(document)
    with transaction.atomic():
        names = ToolNames()
        for entry in entries:
            names.check(entry, problems)
        placed = [entry for entry in (names.with_domain(entry, problems) for entry in entries) if entry]
        _refuse(shown, problems)
        latest = latest_versions()
        coded = _with_codes(placed, latest, problems)
        if publish:
            _check_findings(coded, problems)
        _refuse(shown, problems)
        return _write(coded, latest, names.ids(), publish=publish, dry_run=dry_run, actor=actor, shown=shown)


def rules_export(*, domain: str = "") -> list[dict[str, Any]]:
    """The published version of each rule, or its newest draft, in the exchange format."""
    versions = current_versions(domain)
    contents = version_contents(versions)
    return [
        to_json(contents[version.pk], code=version.rule.code, domain=version.rule.domain_id)
        for version in versions
    ]


def _refuse(shown: str, problems: EntryProblems) -> None:
    if not problems.items:
        return
    lines = [f"{shown}#{pointer}: {sentence}" for pointer, sentence in problems.items]
    pointer, sentence = problems.items[0]
    count = len(lines)
    raise TraceError(
        sentence,
        code="bad_rules",
        where=f"{shown}#{pointer}",
        hint=f"({count} problem{'s' if count > 1 else ''}; nothing was imported.)",
        extra={"errors": lines[:KEPT_ERRORS]},
    )


def _with_codes(
    entries: list[RuleEntry], latest: list[RuleVersion], problems: EntryProblems
) -> list[RuleEntry]:
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
    seen: dict[tuple[str, str], str] = {}
    for domain, group in by_domain.items():
        for entry, code in zip(group, find_codes(group, known[domain]), strict=True):
            first = seen.setdefault((domain, code), entry.pointer)
            if first != entry.pointer:
                problems.add(f"{entry.pointer}/code", f"the code {code} is already used at #{first}/code.")
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
    entries: list[RuleEntry],
    latest: list[RuleVersion],
    ids: dict[str, int],
    *,
    publish: bool,
    dry_run: bool,
    actor: Any,
    shown: str,
) -> RulesResult:
    before = {(version.rule.domain_id, version.rule.code): version for version in latest}
    current = {
        key: version
        for key, version in before.items()
        if key in {(entry.domain, entry.code) for entry in entries}
    }
    added = [entry for entry in entries if (entry.domain, entry.code) not in current]
    changed = [
        entry
        for entry in entries
        if (version := current.get((entry.domain, entry.code)))
        and version.content_hash != entry.content.content_hash()
    ]
    published = 0
    if not dry_run:
        rules = _rules(added, current)
        written = _versions([*added, *changed], rules, current, ids, actor, shown)
        kept = {key: version for key, version in current.items() if key not in written}
        if publish:
            published = publish_checked([*written.values(), *kept.values()], actor)
    counts = {
        "added": len(added),
        "changed": len(changed),
        "unchanged": len(entries) - len(added) - len(changed),
        "errors": [],
    }
    return RulesResult(counts, _labels(added), _labels(changed), published)


def _labels(entries: list[RuleEntry]) -> list[str]:
    return [f"{entry.domain}/{entry.code}" for entry in entries]


def _rules(
    added: list[RuleEntry], current: dict[tuple[str, str], RuleVersion]
) -> dict[tuple[str, str], Rule]:
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
    rules: dict[tuple[str, str], Rule],
    current: dict[tuple[str, str], RuleVersion],
    ids: dict[str, int],
    actor: Any,
    shown: str,
) -> dict[tuple[str, str], RuleVersion]:
    versions = {}
    for entry in entries:
        key = (entry.domain, entry.code)
        number = current[key].number + 1 if key in current else 1
        versions[key] = build_version(rules[key], number, entry.content, ids)
        versions[key].note, versions[key].author = f"imported from {Path(shown).name}"[:300], actor
    RuleVersion.objects.bulk_create(versions.values(), batch_size=500)
    saved: list[tuple[Any, dict[str, Any]]] = [
        (version.rule, {"version": version.number, "note": version.note}) for version in versions.values()
    ]
    audit.record_all(actor=actor, action="rule.saved", objects=saved)
    return versions
