"""Reads of the list of rules: RuleHealth says what the checks found, nothing is checked here."""

from dataclasses import dataclass, fields
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.http import QueryDict

from rules.core.finding import Finding, Place
from rules.models import Rule, RuleHealth, RuleVersion
from trace_site.paging import SIZE, Page

MOST_WORDS = 12


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """What the list is narrowed by; empty values narrow nothing. `order` is empty (by code) or `changed`."""

    search: str = ""
    domain: str = ""
    state: str = ""
    light: str = ""
    target: str = ""
    order: str = ""

    @classmethod
    def read(cls, data: QueryDict) -> "RuleFilter":
        """What a query string asks for; the words to search stand under `q`."""
        given = {field.name: data.get(field.name, "") for field in fields(cls)}
        return cls(**{**given, "search": data.get("q", "").strip()})

    @property
    def narrows(self) -> bool:
        return any((self.search, self.domain, self.state, self.light, self.target))


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One line of the list: the version people work on, and what the checks said of it."""

    rule: Rule
    version: RuleVersion
    light: str
    findings: list[Finding]

    @property
    def state(self) -> str:
        if self.rule.published_id is None:
            return "draft"
        return "published" if self.rule.published_id == self.version.pk else "changed"

    @property
    def words(self) -> str:
        return f"{len(self.findings)} finding{'s' if len(self.findings) > 1 else ''}"


@dataclass(frozen=True, slots=True)
class RuleList:
    """One page of rules, and how many there are in all, by light."""

    page: Page
    total: int
    errors: int
    warnings: int


def rule_list(chosen: RuleFilter, after: str = "", size: int = SIZE) -> RuleList:
    """Two queries, however many rules there are and are shown."""
    rows = _narrowed(chosen)
    counts: dict[str, int] = dict(rows.order_by().values_list("light").annotate(Count("pk")))
    errors, warnings = (counts.get(level, 0) for level in ("error", "warning"))
    return RuleList(_page(rows, chosen, after, size), sum(counts.values()), errors, warnings)


def rule_ids(chosen: RuleFilter) -> list[int]:
    """The rules that the list shows on all its pages."""
    return list(_narrowed(chosen).values_list("rule_id", flat=True))


def finding_of(told: dict[str, Any]) -> Finding:
    """A finding as RuleHealth keeps it."""
    fields = {**told, "place": Place(**told["place"]), "path": tuple(told["path"])}
    return Finding(**fields)


def _narrowed(chosen: RuleFilter) -> QuerySet[RuleHealth]:
    rows = RuleHealth.objects.all()
    for word in chosen.search.casefold().split()[:MOST_WORDS]:
        rows = rows.filter(words__contains=word)
    if chosen.domain:
        rows = rows.filter(rule__domain_id=chosen.domain)
    if chosen.light:
        rows = rows.filter(light=chosen.light)
    if chosen.target == "deprecated":
        rows = rows.filter(Q(version__target__deprecated=True) | Q(version__target__status="retired"))
    match chosen.state:
        case "draft":
            rows = rows.filter(rule__published=None)
        case "published":
            rows = rows.filter(rule__published=F("version"))
        case "changed":
            rows = rows.exclude(rule__published=None).exclude(rule__published=F("version"))
    return rows


def _page(rows: QuerySet[RuleHealth], chosen: RuleFilter, after: str, size: int) -> Page:
    """By domain and code after the key `domain/code`, or newest version first after the key of a version."""
    if chosen.order == "changed":
        rows = rows.order_by("-version_id")
        if after.isdecimal() and len(after) < 19:
            rows = rows.filter(version_id__lt=int(after))
    else:
        rows = rows.order_by("rule__domain_id", "rule__code")
        domain, _, code = after.partition("/")
        if code:
            rows = rows.filter(Q(rule__domain_id__gt=domain) | Q(rule__domain_id=domain, rule__code__gt=code))
    shown = rows.select_related("rule__domain", "version__target", "version__author").defer(
        "words", *(f"version__target__{name}" for name in ("embedding", "search", "words", "description"))
    )
    found = [_row(health) for health in shown[: size + 1]]
    page, more = found[:size], len(found) > size
    return Page(page, after, _key(page[-1], chosen) if more else None)


def _row(health: RuleHealth) -> RuleRow:
    return RuleRow(health.rule, health.version, health.light, [finding_of(told) for told in health.findings])


def _key(row: RuleRow, chosen: RuleFilter) -> str:
    return str(row.version.pk) if chosen.order == "changed" else f"{row.rule.domain_id}/{row.rule.code}"
