"""Reads of the rule pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F, Func, Q, QuerySet
from django.shortcuts import get_object_or_404

from catalog.models import Domain, Tool
from rules.book import version_contents
from rules.core.diff import RuleDiff, diff_rules
from rules.core.rule import RuleContent
from rules.models import Rule, RuleVersion


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A version and what it changed against the one before; the first has no change."""

    version: RuleVersion
    change: RuleDiff | None


def rule(pk: int) -> Rule:
    return get_object_or_404(Rule.objects.select_related("domain", "published"), pk=pk)


def history(rule: Rule) -> list[HistoryEntry]:
    """Newest first, each with its change."""
    versions = list(rule.versions.select_related("target", "author", "rule").order_by("-number"))
    contents = version_contents(versions)
    before = [*versions[1:], None]
    return [
        HistoryEntry(version, diff_rules(contents[old.pk], contents[version.pk]) if old else None)
        for version, old in zip(versions, before, strict=True)
    ]


def content(version: RuleVersion) -> RuleContent:
    return version_contents([version])[version.pk]


def tool_set(version: RuleVersion) -> list[Tool]:
    """T(r), the target first."""
    found = Tool.objects.defer("embedding", "search", "words").in_bulk(version.tool_ids)
    return [found[pk] for pk in version.tool_ids]


def rules_holding(tool: Tool) -> list[RuleVersion]:
    """The newest version of every rule whose newest or published version holds the tool."""
    holds = Q(target=tool) | Q(confusable_ids__contains=[tool.pk])
    rows = RuleVersion.objects.filter(holds).filter(Q(rule__published=None) | Q(rule__published_id=F("pk")))
    newest = rows.select_related("rule", "target").order_by("rule_id", "-number").distinct("rule_id")
    return sorted(newest, key=lambda version: version.rule.code)


def rules_naming(names: Sequence[str]) -> list[tuple[RuleVersion, list[str]]]:
    """Published rules whose set holds one of the tools, each with those tools."""
    ids: dict[int, str] = dict(Tool.objects.filter(name__in=names).values_list("pk", "name"))
    published = RuleVersion.objects.filter(rule__published_id=F("pk")).select_related("rule__domain")
    touched = published.filter(Q(target__in=ids) | Q(confusable_ids__overlap=list(ids)))
    return [
        (version, [ids[pk] for pk in version.tool_ids if pk in ids])
        for version in touched.order_by("rule__code")
    ]


def ruled_tools() -> Q:
    """The condition on catalog.Tool that a published rule's T(r) holds it."""
    published = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by()
    confusables = published.values_list(Func(F("confusable_ids"), function="unnest"))
    return Q(pk__in=published.values("target_id")) | Q(pk__in=confusables)


def domains() -> QuerySet[Domain]:
    return Domain.objects.all()


def newest_version(rule: Rule) -> RuleVersion | None:
    return rule.versions.select_related("target", "author", "rule").order_by("-number").first()
