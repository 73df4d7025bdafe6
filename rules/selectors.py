"""Reads of the rule pages."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any

from django.contrib.auth import get_user_model
from django.db.models import BooleanField, Count, F, Func, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.shortcuts import get_object_or_404
from django.urls import reverse

from catalog.models import TokenUnit, Tool
from rules.book import version_contents
from rules.core.draft import RuleDiff, diff_rules
from rules.core.pairs import State, to_add
from rules.core.rule import RuleContent, pointed_row
from rules.core.text_clauses import LEADING, TextClause, text_clauses
from rules.models import OPEN, Rule, RuleChange, RuleClause, RuleHealth, RuleReading, RuleVersion
from trace_site.impact import Impact
from trace_site.paging import SIZE, Page, keyset, number_of

MOST_WORDS = 12  # of a search
NAMED = 3  # rules or requests that an impact lists


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    version: RuleVersion
    content: RuleContent
    change: RuleDiff | None


def rule(pk: int) -> Rule:
    return get_object_or_404(Rule.objects.select_related("domain", "published"), pk=pk)


def history(rule: Rule) -> list[HistoryEntry]:
    """Newest first, each with its change against the one before; the first has none."""
    versions = list(rule.versions.select_related("target", "author", "rule").order_by("-number"))
    contents = version_contents(versions)
    before = [*versions[1:], None]
    return [
        HistoryEntry(version, said, diff_rules(contents[old.pk], said) if old else None)
        for version, old in zip(versions, before, strict=True)
        for said in [contents[version.pk]]
    ]


def tool_set(version: RuleVersion) -> list[Tool]:
    found = Tool.objects.defer("embedding", "search", "words").in_bulk(version.tool_ids)
    return [found[pk] for pk in version.tool_ids]


def newest_readings(versions: Iterable[RuleVersion]) -> QuerySet[RuleReading]:
    """Of each version the reading that counts."""
    rows = RuleReading.objects.filter(version__in=[version.pk for version in versions])
    return rows.order_by("version_id", "-number").distinct("version_id")


@dataclass(frozen=True, slots=True)
class PairRow:
    """One pair of a version's set as a page shows it. `words`: what speaks of the left tool, and of the right one."""

    left: Tool
    right: Tool
    state: Annotated[State, "as it counts: only `apart` is covered"]
    read: Annotated[State, "as it was read"]
    words: Annotated[tuple[str, str], "what the rule says of the one, and of the other"]
    add: Annotated[str, "what would tell them apart, if anything is missing"]
    correction: dict[str, Any] | None  # {reason, by, at}

    @property
    def ids(self) -> str:
        return f"{self.left.pk}-{self.right.pk}"

    @property
    def tools(self) -> Annotated[tuple[str, str], "two tools of the rule's set"]:
        return self.left.name, self.right.name


@dataclass(frozen=True, slots=True)
class PairTable:
    """What a version tells apart, open pairs first."""

    rows: list[PairRow]
    total: int
    apart: int
    named: int
    corrected: int


def pair_table(version: RuleVersion, tools: Sequence[Tool]) -> PairTable | None:
    """From the reading that counts; None where the version was never read. Two queries."""
    reading = newest_readings([version]).first()
    if reading is None:
        return None
    by_id = {tool.pk: tool for tool in tools}
    corrected = {tuple(sorted(one["pair"])): one for one in reading.corrections}
    authors = get_user_model().objects.filter(pk__in=[one["author"] for one in corrected.values()])
    names: dict[int, str] = dict(authors.values_list("pk", "username")) if corrected else {}
    rows = []
    for a, b, read, *places in reading.pairs:
        by = [None if place is None else reading.said[place] for place in places]
        one = corrected.get((min(a, b), max(a, b)))
        state: State = read
        if one is not None:
            state = "apart" if one["apart"] else "named" if read == "apart" else read
        told = one and {**one, "by": names.get(one["author"], ""), "at": datetime.fromisoformat(one["at"])}
        left, right = by_id[a], by_id[b]
        hint = "" if state == "apart" or read == "apart" else to_add(left.name, right.name, by)
        first, second = (_quoted(version, said) for said in by)
        rows.append(PairRow(left, right, state, read, (first, second), hint, told))
    counts = Counter(row.state for row in rows)
    rows.sort(key=lambda row: row.state == "apart")
    return PairTable(rows, len(rows), counts["apart"], counts["named"], len(corrected))


def _quoted(version: RuleVersion, said: dict[str, Any] | None) -> str:
    """The words of a place that a reading names."""
    if said is None:
        return ""
    name, number = pointed_row(said["pointer"])
    if name == "clauses" and number is not None:
        return f"clause {number + 1}: {version.clauses[number]['when']}"
    return version.text[said["start"] : said["end"]].strip(" ,;\n")


@dataclass(frozen=True, slots=True)
class VersionClause:
    """A clause of one version. `token` is empty while no version that has it was published."""

    clause: TextClause
    token: str
    in_force: bool

    def as_dict(self) -> dict[str, Any]:
        said = self.clause
        return {"token": self.token, "text": said.text, "stance": said.stance, "tools": list(said.tools)}


def version_clauses(versions: Iterable[RuleVersion]) -> dict[int, list[VersionClause]]:
    """Version id -> its clauses in the order of the text. Two queries."""
    versions = list(versions)
    contents = version_contents(versions)
    rows = RuleClause.objects.filter(rule__in={version.rule_id for version in versions})
    tokens = {(row.rule_id, row.clause): row.token for row in rows.select_related("token")}
    found: dict[int, list[VersionClause]] = {}
    for version in versions:
        told = found[version.pk] = []
        for clause in text_clauses(contents[version.pk]):
            token = tokens.get((version.rule_id, clause))
            in_force = token is not None and token.state == TokenUnit.State.ACTIVE
            told.append(VersionClause(clause, token.string if token else "", in_force))
    return found


def clauses_leading() -> QuerySet[RuleClause]:
    """Clauses of published rules that lead to tools, which alone can decide."""
    in_force = RuleClause.objects.filter(token__state=TokenUnit.State.ACTIVE, rule__published__isnull=False)
    return in_force.filter(stance__in=LEADING)


def clauses_in_force() -> list[dict[str, Any]]:
    """Of all published rules, in the order of the ledger: each with the number of the published version, T(r) as
    `set`, and whether it waits until a model has learned it. Two queries; what it gives changes with `rules` of
    `generation_key`."""
    rows = RuleClause.objects.filter(token__state=TokenUnit.State.ACTIVE, rule__published__isnull=False)
    columns = (
        "token__string",
        "rule__code",
        "rule__domain_id",
        "rule__published__number",
        "text",
        "stance",
        "tools",
    )
    sets = ("rule__published__target", "rule__published__confusable_ids", "rule__waits")
    found = list(rows.order_by("token__slot").values_list(*columns, *sets))
    ids = {pk for *_, target, confusables, _ in found for pk in (target, *confusables)}
    names = dict(Tool.objects.filter(pk__in=ids).values_list("pk", "name"))
    return [
        {
            "token": token,
            "rule": code,
            "domain": domain,
            "version": version,
            "set": [names[pk] for pk in (target, *confusables)],
            "tools": tools,
            "text": text,
            "stance": stance,
            "waits": waits,
        }
        for token, code, domain, version, text, stance, tools, target, confusables, waits in found
    ]


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


def newest_version(rule: Rule) -> RuleVersion | None:
    return rule.versions.select_related("target", "author", "rule").order_by("-number").first()


# Reads of the list of rules: RuleHealth says what the checks found, nothing is checked here.


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
    def read(cls, data: Mapping[str, Any]) -> "RuleFilter":
        """What a query asks for; the words to search stand under `q`."""
        given = {field.name: data.get(field.name, "") for field in fields(cls)}
        return cls(**{**given, "search": data.get("q", "").strip()})

    @property
    def narrows(self) -> bool:
        return any((self.search, self.domain, self.state, self.light, self.target))


@dataclass(frozen=True, slots=True)
class RuleList:
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
    rows = rows.select_related("rule__domain", "version__target", "version__author").defer(
        "words", *(f"version__target__{name}" for name in ("embedding", "search", "words", "description"))
    )
    rows = rows.annotate(published_number=F("rule__published__number"))
    if chosen.order == "changed":
        last = number_of(after)
        return keyset(rows, str(last) if last else "", by="version_id", newest=True, size=size)
    domain, _, code = after.partition("/")
    if code:
        rows = rows.filter(Q(rule__domain_id__gt=domain) | Q(rule__domain_id=domain, rule__code__gt=code))
    found = list(rows.order_by("rule__domain_id", "rule__code")[: size + 1])
    last_rule = found[size - 1].rule if len(found) > size else None
    return Page(found[:size], after, f"{last_rule.domain_id}/{last_rule.code}" if last_rule else None)


# What a change of tools touches among the rules, told to the catalog's previews and to undo (trace_site.impact).


def rules_of_tools(ids: list[int]) -> Iterable[Impact]:
    """Rules that name the tools now, rules that once did, and open changes that do; each stands in the way of undo.

    Reads the ids of every version once: an import touches tools by the thousand, and SQL is slow at such lists.
    """
    touched = set(ids)
    named: dict[int, str] = {}
    once: dict[int, str] = {}
    seen: set[int] = set()
    rows = RuleVersion.objects.order_by("rule__code", "rule_id", "-number")
    for pk, rule, code, published, target, confusables in rows.values_list(
        "pk", "rule_id", "rule__code", "rule__published_id", "target_id", "confusable_ids"
    ):
        newest = rule not in seen
        seen.add(rule)
        if target in touched or not touched.isdisjoint(confusables):
            (named if newest or pk == published else once)[rule] = code
    once = {rule: code for rule, code in once.items() if rule not in named}
    if named:
        yield _impact("rules", named, "rule names them" if len(named) == 1 else "rules name them")
    if once:
        yield _impact("earlier_rules", once, "named them in an earlier version")
    yield from _changes(touched)


def _impact(key: str, codes: dict[int, str], label: str) -> Impact:
    url = reverse("rules:detail", args=[*codes]) if len(codes) == 1 else reverse("rules:list")
    return Impact(key, len(codes), label, url, f"Tools it added are named by {_listed([*codes.values()])}.")


def _changes(touched: set[int]) -> Iterable[Impact]:
    """Open changes hold tool names, not ids, since they may be half typed."""
    held: dict[int, set[str]] = {}
    open_changes = RuleChange.objects.filter(request__state__in=OPEN)
    for request, target, others in open_changes.values_list(
        "request_id", "content__target", "content__confusables"
    ):
        held.setdefault(request, set()).update([str(target), *map(str, others or [])])
    names = sorted(set().union(*held.values()))  # thousands: one array, for placeholders are slow to bind
    named = Tool.objects.filter(RawSQL("catalog_tool.name = ANY (%s)", [names], BooleanField()))
    known = dict(named.values_list("name", "pk"))
    found = sorted(pk for pk, typed in held.items() if any(known.get(name) in touched for name in typed))
    if found:
        label = f"open change request{'' if len(found) == 1 else 's'} about them"
        url = reverse("rules:request", args=found) if len(found) == 1 else reverse("rules:requests")
        listed = _listed([f"change request {pk}" for pk in found])
        yield Impact("open_changes", len(found), label, url, f"Tools it added are named by {listed}.")


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
