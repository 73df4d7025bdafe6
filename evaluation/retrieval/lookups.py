"""What an answer is joined with: models, tools, rules, calibrations. Kept in this process while the counters in the
database stand still, which each request asks: a blocked tool, a published rule or another champion counts from the next
request on, whoever made the change and wherever.

Three counters, three parts; a part that moved is forgotten whole and read again as it is needed.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from catalog.models import Domain, Tool
from catalog.services import masked_names
from evaluation.core.confidence import Fit
from evaluation.core.metrics import cited_codes
from evaluation.core.withholding import Redaction, is_withheld
from evaluation.models import Calibration
from evaluation.requests.log import policy
from rules.models import Rule, RuleVersion
from synthesis.models import Snapshot
from trace_site.database import Generations, generation_key
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.models import AliasMove, Model
from training.registry.registry import (
    as_held,
    check_files,
    facts_of,
    held_clauses,
    held_tools,
    holds_newer,
    model_named,
    newer_than,
    newest,
)

log = logging.getLogger(__name__)
FALLBACKS = 2  # with the champion, as many models as the engine keeps in memory
MOST_MOVES = 20  # of the champion's alias that are looked through for them
PLAIN_SEARCH = "search"  # asks no model
MOST_HOLDERS = 64  # different sets of permissions whose withheld names are kept


def tools_of(model: Model) -> frozenset[str] | None:
    """None where its files are damaged and nobody knows; an engine may still answer from memory."""
    try:
        return facts_of(model).tools
    except TraceError:
        return None


@dataclass(frozen=True, slots=True)
class KnownTool:
    pk: int
    description: str
    deprecated: bool
    retired: bool
    needs: frozenset[str]


class Newer(NamedTuple):
    """Tools that some models have no token for. `held`: those that the engine answers with by their descriptions, by
    `name` together; `of`: those of each model; `lost`: how many each cannot answer with. Without a model all are held,
    and none is newer."""

    name: str
    held: dict[str, dict[str, Any]]
    of: dict[int | None, frozenset[str]]
    lost: dict[int | None, int]


class Force(NamedTuple):
    """The clauses that are in force, by token, and by `name` together."""

    name: str
    clauses: dict[str, dict[str, Any]]


NOTHING_IN_FORCE = Force(content_hash([]), {})


class CatalogPart:
    def __init__(self) -> None:
        self._tools: dict[str, KnownTool | None] = {}
        self._domains: set[str] = set()
        self._without: dict[str, list[str]] = {}
        self._newer: dict[tuple[int | None, ...], Newer] = {}
        self._redactions: dict[frozenset[str], Redaction] = {}

    def tools(self, names: Iterable[str]) -> Mapping[str, KnownTool | None]:
        """What the catalog says of these tools; None of one that it does not have."""
        if unread := {name for name in names if name not in self._tools}:
            rows = Tool.objects.filter(name__in=unread).values_list(
                "name", "pk", "description", "deprecated", "status", "permissions"
            )
            found = {
                name: KnownTool(pk, text, deprecated, status == Tool.Status.RETIRED, frozenset(needs))
                for name, pk, text, deprecated, status, needs in rows
            }
            self._tools.update({name: found.get(name) for name in unread})
        return self._tools

    def has_domain(self, slug: str) -> bool:
        """Only those that there are are kept: a caller may name any."""
        if slug not in self._domains and Domain.objects.filter(pk=slug).exists():
            self._domains.add(slug)
        return slug in self._domains

    @cached_property
    def _masked(self) -> frozenset[str]:
        return masked_names()

    def without(self, model: Model) -> list[str]:
        """The model's tools that no answer may name now."""
        if not self._masked:
            return []
        if model.store_digest not in self._without:
            if (tools := tools_of(model)) is None:
                return sorted(self._masked)
            self._without[model.store_digest] = sorted(self._masked & tools)
        return self._without[model.store_digest]

    def newer(self, models: Iterable[Model | None]) -> "Newer":
        """The tools that came to the catalog after these models; none that is blocked."""
        models = list(models)
        key = tuple(model.pk if model else None for model in models)
        if key in self._newer:
            return self._newer[key]
        found = Newer("", {}, {None: frozenset()}, {None: 0})
        known = [tools_of(model) if model else frozenset() for model in models]
        for model, tools in zip(models, known, strict=True):
            if model is None:
                every = Tool.objects.filter(status=Tool.Status.ACTIVE, blocked_at=None)
                found.held.update((tool["name"], tool) for tool in as_held(every.order_by("name")))
                continue
            newer = newer_than(tools).filter(blocked_at=None) if tools is not None else Tool.objects.none()
            own = held_tools(newer) if holds_newer(model) else []
            found.held.update((tool["name"], tool) for tool in own)
            found.of[model.pk] = frozenset(tool["name"] for tool in own)
            found.lost[model.pk] = newer.count() - len(own)
        found = found._replace(name=content_hash(list(found.held.values())) if found.held else "")
        if None not in known:
            self._newer[key] = found
        return found

    @cached_property
    def _needs(self) -> dict[str, frozenset[str]]:
        every = Tool.objects.order_by().values_list("name", "permissions")
        return {name: frozenset(needs) for name, needs in every}

    def redaction(self, holds: frozenset[str]) -> Redaction:
        """Of the names of all tools that need what is not held, beside all others; anew for each text."""
        if holds not in self._redactions:
            if len(self._redactions) >= MOST_HOLDERS:
                self._redactions.clear()
            names = {name for name, needs in self._needs.items() if is_withheld(needs, holds)}
            self._redactions[holds] = Redaction(names, self._needs.keys() - names)
        return self._redactions[holds].anew()


class RulesPart:
    def __init__(self) -> None:
        self._rules: dict[str, list[Rule]] = {}

    @cached_property
    def force(self) -> Force:
        clauses = held_clauses()
        return Force(content_hash(clauses), {one["token"]: one for one in clauses})

    @cached_property
    def codes(self) -> frozenset[str]:
        """Of the published rules."""
        published = Rule.objects.filter(published__isnull=False).order_by()
        return frozenset(published.values_list("code", flat=True))

    def named(self, code: str) -> list[Rule]:
        """The rules of a code, which several domains may have, with what is published of them."""
        if code not in self._rules:
            rules = Rule.objects.filter(code=code).select_related("published__target")
            self._rules[code] = list(rules.order_by("pk"))
        return self._rules[code]

    def of_clause(self, clause: Mapping[str, Any], trace: str) -> list[dict[str, Any]]:
        """The rule of the clause that decided, as it is published."""
        return [
            _citation(rule, rule.published, True, trace.find(rule.code))
            for rule in self.named(clause["rule"])
            if rule.domain_id == clause["domain"] and rule.published
        ]

    def cited(self, trace: str, snapshot: int, answer: Sequence[KnownTool | None]) -> list[dict[str, Any]]:
        """The rules whose codes stand in the trace, in reading order, as the model's snapshot has them; one that it
        does not have, as it is published. Of rules with one code the one about the answer."""
        taught = versions_in(snapshot)
        ids = {tool.pk for tool in answer if tool}
        cited = []
        for code in cited_codes(trace, self.codes | taught.keys()):
            versions = []
            for rule in self.named(code):
                number = taught.get(code, {}).get(rule.domain_id)
                published = rule.published
                if published is not None and number in (None, published.number):
                    versions.append((rule, published, number is not None))
                elif number is not None and (version := version_numbered(rule.pk, number)):
                    versions.append((rule, version, True))
            if versions:
                about = max(versions, key=lambda one: (len(ids & set(one[1].tool_ids)), -one[0].pk))
                cited.append(_citation(*about, trace.find(code)))
        return cited


def _citation(rule: Rule, version: RuleVersion, in_snapshot: bool, start: int) -> dict[str, Any]:
    published = rule.published.number if rule.published else None
    return {
        "id": rule.pk,
        "code": rule.code,
        "domain": rule.domain_id,
        "version": version.number,
        "in_snapshot": in_snapshot,
        "is_published": version.number == published,
        "published_version": published,
        "target": version.target.name,
        "text": version.text,
        "start": start,
    }


@lru_cache(maxsize=16)  # snapshots are frozen
def versions_in(snapshot: int) -> dict[str, dict[str, int]]:
    """{code: {domain: version}} of a snapshot's rules."""
    rows = Snapshot.objects.filter(pk=snapshot).values_list("manifest__rules", flat=True).first() or []
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["code"], {})[row["domain"]] = row["version"]
    return found


@lru_cache(maxsize=1024)  # versions are frozen, and so are their targets' names
def version_numbered(rule: int, number: int) -> RuleVersion | None:
    return RuleVersion.objects.select_related("target").filter(rule=rule, number=number).first()


class ServingPart:
    def __init__(self) -> None:
        self._models: dict[str, Model | None] = {}
        self.outdated: Model | None = None  # a champion that cannot be asked any more
        self._checked: dict[int, tuple[TraceError | None, float]] = {}
        self._fits: dict[int, dict[str, Fit]] = {}

    def model(self, reference: str | int) -> Model | None:
        """None: PLAIN_SEARCH, or a champion where there is none that can answer. Raises TraceError `not_found`."""
        name = str(reference).strip()
        if name not in self._models:
            none_yet = name == AliasMove.Alias.CHAMPION and newest(name) is None
            found = None if none_yet or name == PLAIN_SEARCH else model_named(name)
            if found and name == AliasMove.Alias.CHAMPION and self._is_outdated(found):
                self.outdated, found = found, None
            self._models[name] = found
        return self._models[name]

    def _is_outdated(self, model: Model) -> bool:
        try:
            return facts_of(model).is_outdated
        except (TraceError, OSError):  # its files are gone, which whoever asks is told
            return False

    def check_files(self, model: Model) -> None:
        """Looks at most once a second. Raises TraceError as `export_dir`."""
        found, until = self._checked.get(model.pk, (None, 0.0))
        if time.monotonic() > until:
            found = None
            try:
                check_files(model)
            except TraceError as error:
                found = error
                log.error("model %s cannot be served: %s", model.pk, error)
            self._checked[model.pk] = found, time.monotonic() + 1
        if found:
            raise found.with_traceback(None)

    @cached_property
    def earlier_champions(self) -> list[Model]:
        """The champions before this one whose files are still there, the latest first, FALLBACKS at most."""
        moves = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-id")
        _, *earlier = dict.fromkeys(moves.values_list("model", flat=True)[:MOST_MOVES])
        models = Model.objects.select_related("run__snapshot").filter(removed_at=None).in_bulk(earlier)
        return [models[pk] for pk in earlier if pk in models][:FALLBACKS]

    def fits(self, model: Model | None) -> dict[str, Fit]:
        """{decode: how far its answers can be trusted}."""
        if model is None:
            return {}
        if model.pk not in self._fits:
            rows = Calibration.objects.filter(model=model)
            self._fits[model.pk] = {row.decode: Fit.of(row.fit) for row in rows}
        return self._fits[model.pk]

    @cached_property
    def logged_share(self) -> float:
        """Of the requests, that the log keeps."""
        return policy().share


class Lookups(NamedTuple):
    catalog: CatalogPart
    rules: RulesPart
    serving: ServingPart


_kept: tuple[Mapping[str, str], Lookups] = (
    dict.fromkeys(Lookups._fields, "unread"),
    Lookups(CatalogPart(), RulesPart(), ServingPart()),
)


def lookups(moved: Generations | None = None) -> Lookups:
    """What is known as of now: one query, unless the counters were read already, as `moved`."""
    global _kept
    before, kept = _kept
    if moved is None:
        moved = generation_key(*Lookups._fields)
    if gone := [name for name in Lookups._fields if moved.get(name) != before.get(name)]:
        kept = kept._replace(**{name: type(getattr(kept, name))() for name in gone})
        _kept = moved, kept
    return kept
