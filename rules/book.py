"""Reads that services, commands and snapshots share: contents of rule versions, and the rule book."""

from collections.abc import Iterable, Iterator, Mapping
from threading import RLock

from django.db.models import Case, F, When

from catalog.core.words import closest
from catalog.imports.services import domain_slug
from catalog.models import Tool
from rules.core.check import Finding, check_rule
from rules.core.rule import PLAIN, RuleContent
from rules.core.rule_book import OtherRule, RuleBook, RuleKey, ToolState
from rules.core.rules_file import MOST_PROBLEMS, schema_problems, size_problem, to_json
from rules.models import Rule, RuleVersion
from trace_site.database import generation_key
from trace_site.lib.errors import TraceError


def tool_states() -> dict[str, ToolState]:
    """Every tool by name, retired ones too; one query."""
    rows = Tool.objects.values_list("name", "status", "deprecated")
    states = {
        (status, deprecated): ToolState(status == Tool.Status.ACTIVE, deprecated)
        for status in Tool.Status.values
        for deprecated in (True, False)
    }
    return {name: states[status, deprecated] for name, status, deprecated in rows}


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
            **{name: getattr(version, name) for name in PLAIN},
        )
        for version in versions
    }


def latest_versions() -> list[RuleVersion]:
    newest = RuleVersion.objects.order_by("rule_id", "-number").distinct("rule_id")
    return list(newest.select_related("rule"))


def current_versions(domain: str = "") -> list[RuleVersion]:
    """Per rule the published version, else the newest draft, by domain and code."""
    rows = RuleVersion.objects.filter(rule__domain_id=domain) if domain else RuleVersion.objects.all()
    live = Case(When(pk=F("rule__published_id"), then=0), default=1)
    current = rows.order_by("rule_id", live, "-number").distinct("rule_id").select_related("rule")
    return sorted(current, key=lambda version: rule_key(version.rule))


class _Kept:
    """What this process has read: the book, the newest versions, and every rule of either by its version."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.moved: Mapping[str, object] = {"catalog": "unread", "rules": "unread"}
        self.book = RuleBook({}, ())
        self.published: dict[RuleKey, int] = {}
        self.newest = RuleBook({}, ())
        self.newest_ids: dict[RuleKey, int] = {}
        self.by_version: dict[int, OtherRule] = {}


_kept = _Kept()


def cached_book() -> RuleBook:
    """The catalog and the published rules. Per process; only what changed since the last call is read again."""
    with _kept.lock:
        moved = generation_key("catalog", "rules")
        if moved.get("rules") != _kept.moved.get("rules"):
            rows = Rule.objects.exclude(published=None).values_list("domain_id", "code", "published_id")
            wanted = {(domain, code): pk for domain, code, pk in rows}
            _kept.book = _kept.book.changed(*_moved(_kept.published, wanted))
            _kept.published = wanted
            _forget()
        if moved.get("catalog") != _kept.moved.get("catalog"):
            _kept.book = _kept.book.with_tools(tool_states())
        _kept.moved = moved
        return _kept.book


def newest_rules() -> tuple[RuleBook, dict[RuleKey, int]]:
    """The newest version of every rule, published or not, and the versions' ids."""
    with _kept.lock:
        newest = RuleVersion.objects.order_by("rule_id", "-number").distinct("rule_id")
        rows = newest.values_list("rule__domain_id", "rule__code", "pk")
        wanted = {(domain, code): pk for domain, code, pk in rows}
        if wanted != _kept.newest_ids:
            _kept.newest = _kept.newest.changed(*_moved(_kept.newest_ids, wanted))
            _kept.newest_ids = wanted
            _forget()
        return _kept.newest, wanted


def rules_as_of(versions: Iterable[int]) -> list[OtherRule]:
    """What these versions say, published or not."""
    with _kept.lock:
        return _moved({}, {("", str(pk)): pk for pk in versions})[1]


def _moved(held: dict[RuleKey, int], wanted: dict[RuleKey, int]) -> tuple[list[RuleKey], list[OtherRule]]:
    """The rules that are gone, and those to put in, read where their version was not read before."""
    keys = sorted(key for key, pk in wanted.items() if held.get(key) != pk)
    unread = [wanted[key] for key in keys if wanted[key] not in _kept.by_version]
    versions = RuleVersion.objects.filter(pk__in=unread).select_related("rule").order_by("pk")
    contents = version_contents(versions)
    for version in versions:
        _kept.by_version[version.pk] = OtherRule(*rule_key(version.rule), contents[version.pk])
    return sorted(held.keys() - wanted.keys()), [_kept.by_version[wanted[key]] for key in keys]


def _forget() -> None:
    in_use = {*_kept.newest_ids.values(), *_kept.published.values()}
    _kept.by_version = {pk: rule for pk, rule in _kept.by_version.items() if pk in in_use}


def rule_book(replaced: Iterable[OtherRule] = ()) -> RuleBook:
    """The cached book; `replaced` stand in for the rules with their key, or join them."""
    return cached_book().changed((), replaced)


def version_findings(version: RuleVersion, book: RuleBook | None = None) -> list[Finding]:
    content = version_contents([version])[version.pk]
    return check_rule(content, book or rule_book(), rule_key(version.rule))


def rule_key(rule: Rule) -> tuple[str, str]:
    return (rule.domain_id, rule.code)


# What stands against a rule: the exchange format, then the catalog, with what was probably meant.

CLOSEST = 3
MOST_MEANT = 20  # unknown names of one file that get a suggestion
Problem = tuple[str, str]  # (JSON pointer of the exchange format, sentence)


class CatalogNames:
    """The tools with these names, else all of the catalog. One query; suggestions come from the cached book."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        tools = Tool.objects.all() if names is None else Tool.objects.filter(name__in=set(names))
        rows = list(tools.values_list("name", "domain_id", "status"))
        self.domains: dict[str, str] = {name: domain for name, domain, _ in rows}
        self.retired = {name for name, _, status in rows if status != Tool.Status.ACTIVE}
        self._meant: dict[str, str] = {}

    def problems(self, content: RuleContent, domain: str) -> Iterator[Problem]:
        """Unknown names anywhere, a retired target, and a domain that is not the target's."""
        for pointer, name in content.names():
            if name and name not in self.domains:
                if name not in self._meant and len(self._meant) < MOST_MEANT:
                    self._meant[name] = self._closest(name)
                yield pointer, f"'{name}' is not in the catalog.{self._meant.get(name, '')}"
        if content.target in self.retired:
            yield "/tool_name", f"the target '{content.target}' is retired."
        known = self.domains.get(content.target)
        if known and domain and domain_slug(domain) != known:
            yield "/domain", f"the target belongs to the domain '{known}', not to '{domain}'."

    def _closest(self, name: str) -> str:
        found = closest(name, cached_book().tools.like(name), CLOSEST, 0.5)
        return f" Closest: {', '.join(found)}." if found else ""


def content_problems(
    content: RuleContent, names: CatalogNames, *, code: str = "", domain: str = ""
) -> list[Problem]:
    """What keeps the content from being a whole rule of the catalog; empty `code` and `domain` are made later."""
    item = to_json(content, code=code, domain=domain)
    if too_much := size_problem(item):
        return [too_much]
    given = {key: value for key, value in item.items() if value or key not in ("code", "domain")}
    problems = [] if content.target else [("/tool_name", "is empty.")]
    problems += schema_problems(given | {"tool_name": content.target or "API/ENDPOINT"})
    if content.target and content.target in content.confusables:
        place = content.confusables.index(content.target)
        problems.append((f"/confusables/{place}", "the target is listed among its own confusables."))
    return problems + list(names.problems(content, domain))


def refused_content(problems: list[Problem]) -> TraceError:
    """Code `bad_rule`; extra: the first problems with JSON pointers."""
    pointer, sentence = problems[0]
    listed = [{"pointer": place, "message": text} for place, text in problems[:MOST_PROBLEMS]]
    return TraceError(sentence, code="bad_rule", where=pointer, extra={"problems": listed})
