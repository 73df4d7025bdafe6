"""Reads that services, commands and snapshots share: contents of rule versions, and the rule book."""

from collections.abc import Iterable

from django.db.models import F

from catalog.models import Tool
from rules.core.findings import Finding, OtherRule, RuleBook, ToolState, check_rule
from rules.core.rule import RuleContent
from rules.models import Rule, RuleVersion


def tool_states() -> dict[str, ToolState]:
    """Every tool by name, retired ones too; one query."""
    rows = Tool.objects.values_list("name", "status", "deprecated")
    return {name: ToolState(status == Tool.Status.ACTIVE, deprecated) for name, status, deprecated in rows}


def version_contents(versions: Iterable[RuleVersion]) -> dict[int, RuleContent]:
    """Version id -> content with tool names; one query for all of them."""
    versions = list(versions)
    ids = {tool_id for version in versions for tool_id in version.tool_ids}
    names: dict[int, str] = dict(Tool.objects.filter(pk__in=ids).values_list("pk", "name"))
    return {
        version.pk: RuleContent(
            target=names[version.target_id],
            confusables=tuple(names[tool_id] for tool_id in version.confusable_ids),
            text=version.text,
            clauses=tuple(version.clauses),
            tests=tuple(version.tests),
        )
        for version in versions
    }


def published_versions(domain: str = "") -> list[RuleVersion]:
    """The published version of every rule, by domain and code; `rule` comes with it."""
    versions = RuleVersion.objects.filter(rule__published__isnull=False, pk=F("rule__published_id"))
    if domain:
        versions = versions.filter(rule__domain_id=domain)
    return list(versions.select_related("rule").order_by("rule__domain_id", "rule__code"))


def latest_versions() -> list[RuleVersion]:
    """The newest version of every rule, published or not."""
    newest = RuleVersion.objects.order_by("rule_id", "-number").distinct("rule_id")
    return list(newest.select_related("rule"))


def current_versions(domain: str = "") -> list[RuleVersion]:
    """Per rule the published version, else the newest draft, by domain and code."""
    chosen = {version.rule_id: version for version in latest_versions()}
    chosen |= {version.rule_id: version for version in published_versions()}
    found = [version for version in chosen.values() if not domain or version.rule.domain_id == domain]
    return sorted(found, key=lambda version: (version.rule.domain_id, version.rule.code))


def rule_book(replaced: Iterable[OtherRule] = ()) -> RuleBook:
    """The catalog and the published rules; `replaced` stand in for the rules with their key, or join them."""
    versions = published_versions()
    contents = version_contents(versions)
    rules = {
        (version.rule.domain_id, version.rule.code): OtherRule(
            version.rule.domain_id, version.rule.code, contents[version.pk]
        )
        for version in versions
    }
    rules |= {other.key: other for other in replaced}
    return RuleBook(tool_states(), [rules[key] for key in sorted(rules)])


def version_findings(version: RuleVersion, book: RuleBook | None = None) -> list[Finding]:
    """What can be said about one version against the catalog and the published rules."""
    content = version_contents([version])[version.pk]
    return check_rule(content, book or rule_book(), rule_key(version.rule))


def rule_key(rule: Rule) -> tuple[str, str]:
    return (rule.domain_id, rule.code)
