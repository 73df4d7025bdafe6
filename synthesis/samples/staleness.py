"""Which samples stand, whether they are as they would be written today, and why not. Derived from rows and by comparing
keys, never stored. The queue's triggers say the same of what is replaced (migration 0003), and a test holds them to it.

Content stale: the rule version, T(r), or the pool's tools say something else now; the sample may be wrong and stays
out of snapshots. Outdated: only prompt, model, parameters, few-shot queries or recipe changed; it is still right.
Compared with the writers as they are configured now and the recipe of the newest run of the branch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import Annotated, Any

from django.conf import settings
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.urls import reverse

from catalog.models import Tool
from rules.models import Rule, RuleVersion
from synthesis.core.keys import STAGES
from synthesis.core.plan import State
from synthesis.core.queries import RuleText
from synthesis.core.recipe import Recipe, default_recipe, read_recipe
from synthesis.llm.prompts import source
from synthesis.models import PromptVersion, Regeneration, Sample, SynthesisRun
from synthesis.offline.recorded import NAME as RECORDED
from synthesis.samples.inputs import Inputs, SampleKeys, content_inputs, old_of, rows_of, telling_writers
from synthesis.samples.sources import (
    catalog_around,
    few_shot_queries,
    published_rules,
    texts_then,
)
from trace_site.database import generation_key
from trace_site.jobs import Job

APPROVED = Q(human=Sample.Human.APPROVED)
READY = Q(machine=Sample.Machine.READY)
DROPPED = Q(machine=Sample.Machine.DROPPED)
GONE = DROPPED | Q(human=Sample.Human.REJECTED)
ENDED = [Job.State.DONE, Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED]
# planned, and nobody is writing it: its run may be resumed, or never. The ended runs are looked up once a query
ABANDONED = Q(
    machine=Sample.Machine.PENDING, run__in=SynthesisRun.objects.filter(job__state__in=ENDED).order_by()
)
_newer = Sample.objects.filter(branch=OuterRef("branch"), slot=OuterRef("slot"), pk__gt=OuterRef("pk"))
REPLACED = ~Q(slot="") & Exists(_newer.exclude(GONE | ABANDONED))
# the version a rule sample was written for is no longer the published one
OVERTAKEN = Q(rule_version__isnull=False) & ~Exists(Rule.objects.filter(published=OuterRef("rule_version")))
# of one slot the newest approved sample counts: snapshots, what is taught
OUTDONE = ~Q(slot="") & Exists(_newer.filter(human=Sample.Human.APPROVED, machine=Sample.Machine.READY))
# a newer one of the slot is written and stands, so that it need not be written any more
FILLED = ~Q(slot="") & Exists(_newer.filter(machine=Sample.Machine.READY).exclude(GONE))
STANDING = ~GONE & ~REPLACED & ~OVERTAKEN

WRITTEN_AGAIN = (Regeneration.State.WAITING, Regeneration.State.WRITING)


def written_again(branch: str) -> set[int]:
    """Rejected samples that are to be written again."""
    rows = Regeneration.objects.filter(state__in=WRITTEN_AGAIN, sample__branch=branch)
    return set(rows.values_list("sample", flat=True))


def replacement(sample: Sample) -> Sample | None:
    """The newest sample that stands in the same slot and is younger."""
    if not sample.slot:
        return None
    rows = Sample.objects.filter(branch=sample.branch, slot=sample.slot, pk__gt=sample.pk)
    return rows.exclude(GONE | ABANDONED).order_by("-pk").first()


# Content staleness over many rows at once: a sample is stale when its `content` is not what its rule version or anchor
# stands on today. Samples share few pairs of those, and a process keeps what each stands on until the catalog, the
# look-alikes or a published rule move.


NOTHING: frozenset[str] = frozenset()


Base = tuple[int | None, int | None]  # what a sample stands on: (rule version, anchor), one of them None


# what bases stand on, as far as this process was asked, and what it was asked of; nothing for a retired one
_lock = RLock()
_moved: Mapping[str, object] = {"catalog": "unread"}
_contents: dict[Base, frozenset[str]] = {}


class AnswerChanged(Func):
    """Of a sample without content (answer, made_from): a tool of its answer is retired or says something else."""

    output_field = BooleanField()
    template = """EXISTS (
  SELECT 1 FROM (VALUES (%(expressions)s)) AS given (answer, made)
  CROSS JOIN jsonb_array_elements_text(given.answer) AS named (tool)
  LEFT JOIN catalog_tool live ON live.name = named.tool AND live.status = 'active'
  WHERE live.id IS NULL OR NOT starts_with(live.content_hash, coalesce(given.made -> 'tools' ->> named.tool, '')))"""

    def __init__(self) -> None:
        super().__init__(F("answer"), F("made_from"))


BEFORE_CONTENTS = Q(content__isnull=True)
RETIRED = Exists(Tool.objects.filter(pk=OuterRef("anchor")).exclude(status=Tool.Status.ACTIVE))


def todays_contents(bases: set[Base]) -> Mapping[Base, frozenset[str]]:
    """{base: the contents that are current on it}, of these at least. One query when nothing moved, else eight."""
    global _moved, _contents
    with _lock:
        moved = generation_key("catalog", "neighbours", "rules")
        if moved != _moved:
            _moved, _contents = moved, {}
        if unread := bases - _contents.keys():
            _contents = {**_contents, **_read(unread)}
        return _contents


def _read(bases: set[Base]) -> dict[Base, frozenset[str]]:
    rules = _texts_of({version for version, _ in bases if version})
    live = Tool.objects.filter(pk__in={anchor for _, anchor in bases if anchor}, status=Tool.Status.ACTIVE)
    anchors = dict(live.values_list("pk", "name"))
    names = {*anchors.values(), *(name for rule in rules.values() for name in rule.tools)}
    inputs = content_inputs(catalog_around(names), rules)
    grounds = {base: inputs.of(base[0], anchors.get(base[1] or 0)) for base in bases}
    return {
        base: frozenset((made.plain.content, made.granted.content)) if made else NOTHING
        for base, made in grounds.items()
    }


def _texts_of(versions: set[int]) -> dict[int, RuleText]:
    """{version: its text} of those of them that are published."""
    return {version.pk: text for version, text in published_rules(only=versions)} if versions else {}


def content_stale(samples: QuerySet[Sample]) -> Q:
    """What tells the stale among these samples from the others."""
    found, all_known = _known_stale(samples)
    return found if all_known else found | BEFORE_CONTENTS & (OVERTAKEN | RETIRED | Q(AnswerChanged()))


def without_stale(samples: QuerySet[Sample]) -> QuerySet[Sample]:
    """Those whose content is today's, or not known."""
    return samples.exclude(_known_stale(samples)[0])


def _known_stale(samples: QuerySet[Sample]) -> tuple[Q, bool]:
    """(the stale among those with a content, whether all have one).

    A content stands for one base, unless rules of two domains have code, version, text and tools in common.
    """
    rows = set(samples.order_by().values_list("rule_version_id", "anchor_id", "content").distinct())
    groups = [
        ((version, None if version else anchor), content) for version, anchor, content in rows if content
    ]
    today = todays_contents({base for base, _ in groups})
    stale = [(base, content) for base, content in groups if content not in today[base]]
    current = {content for base, content in groups if content in today[base]}
    never = list({content for _, content in stale} - current)
    # a row without content is neither: its negation must hold
    found = Q(content__isnull=False, content__in=RawSQL("SELECT unnest(%s::text[])", (never,)))
    for (version, _), content in stale:
        if content in current:
            found |= Q(content__isnull=False, content=content, rule_version=version)
    return found, len(groups) == len(rows)


# Why a sample is not as it would be written today: what it was made from, compared with what it would be made from,
# both as `keys.made_from` gives them. Reasons about rule and tools are `content`: the sample may be wrong.

BEFORE_KEYS = "written before keys were kept per stage"
SAID = {
    "rule": "rule {what} went from {was} to {now}",
    "tool": "{what} says something else",
    "permissions": "{what} asks for other permissions",
    "joined": "{what} is new in the pool",
    "left": "{what} left the pool",
    "prompt": "prompt {what} changed",
    **dict.fromkeys(("model", "writer", "parameter"), "{what} went from {was} to {now}"),
}
NO_PART = frozenset({"key", "few_shot", "prompt", "prompt_hash", "model", "writer"})


@dataclass(frozen=True, slots=True)
class StaleReason:
    """`kind`: rule, tool, permissions, joined, left, gone, prompt, model, writer, parameter, few_shot or before."""

    kind: str
    what: str
    was: str = ""
    now: str = ""

    @property
    def content(self) -> Annotated[bool, "true: the sample may be wrong now"]:
        return self.kind in ("rule", "tool", "permissions", "joined", "left", "gone")

    def __str__(self) -> str:
        return SAID.get(self.kind, "{what}").format(what=self.what, was=self.was, now=self.now)


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[StaleReason]:
    """Empty when nothing that enters the keys differs."""
    found = list(_tools(was["tools"], now["tools"]))
    old, new = was.get("rule"), now.get("rule")
    if old and new and old != new:
        found.insert(0, StaleReason("rule", new["code"], f"v{old['version']}", f"v{new['version']}"))
    for stage in STAGES:
        found += _stage(stage, was["stages"][stage], now["stages"][stage])
    if not found and was["stages"]["judge"]["key"] != now["stages"]["judge"]["key"]:
        found.append(StaleReason("before", "keys are made in another way now"))
    return found


def _tools(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[StaleReason]:
    for name in sorted(was.keys() & now.keys()):
        if was[name].partition("+")[0] != now[name].partition("+")[0]:
            yield StaleReason("tool", name, was[name], now[name])
        elif was[name] != now[name]:
            yield StaleReason("permissions", name, was[name], now[name])
    for name in sorted(now.keys() - was.keys()):
        yield StaleReason("joined", name, "", now[name])
    for name in sorted(was.keys() - now.keys()):
        yield StaleReason("left", name, was[name], "")


def _stage(stage: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[StaleReason]:
    if was.get("prompt_hash") != now.get("prompt_hash") and "prompt" in was and "prompt" in now:
        yield StaleReason("prompt", f"{now['prompt']}.jinja", was["prompt_hash"], now["prompt_hash"])
    for name in ("model", "writer"):
        if was.get(name, "") != now.get(name, "") and (was.get(name) and now.get(name)):
            yield StaleReason(name, f"{name} of the {stage}", str(was[name]), str(now[name]))
    if ("prompt" in was) != ("prompt" in now):
        way = {True: "language model", False: "offline"}
        yield StaleReason("writer", f"writer of the {stage}", way["prompt" in was], way["prompt" in now])
        return
    if was.get("few_shot", []) != now.get("few_shot", []):
        yield StaleReason("few_shot", "other few-shot queries are shown")
    for name in sorted((was.keys() | now.keys()) - NO_PART):
        if was.get(name) != now.get(name):
            sides = ["none" if side.get(name) is None else str(side[name]) for side in (was, now)]
            # a long value is kept as its hash
            said = [f"another text ({side[1:7]})" if side.startswith("#") else side for side in sides]
            yield StaleReason("parameter", f"{stage} {name}", *said)


LEVELS = {"current": State.CURRENT, "outdated": State.OUTDATED, "content": State.STALE}


@dataclass(frozen=True, slots=True)
class Staleness:
    state: State
    reasons: tuple[StaleReason, ...] = ()

    @property
    def level(self) -> str:
        """`current`, `outdated` or `content`."""
        return next(name for name, state in LEVELS.items() if state == self.state)


def stale_map(samples: QuerySet[Sample]) -> dict[int, Staleness]:
    """{sample id: its state with reasons}, in a fixed number of queries. For a page of samples."""
    today = Today(list(rows_of(samples)))
    made = dict(Sample.objects.filter(pk__in=[row.pk for row in today.rows]).values_list("pk", "made_from"))
    return {
        row.pk: Staleness(state, today.reasons(row, state, made[row.pk])) for row, state in today.states()
    }


def states(samples: QuerySet[Sample]) -> dict[int, State]:
    """{sample id: its state}, for any number of samples; no reasons."""
    return {row.pk: state for row, state in Today(list(rows_of(samples))).states()}


def stale_filter(samples: QuerySet[Sample], level: str) -> QuerySet[Sample]:
    """Those of one level: `current`, `outdated` or `content`."""
    if level == "content":
        return samples.filter(content_stale(samples))
    return samples.filter(pk__in=[pk for pk, state in states(samples).items() if state == LEVELS[level]])


class Today:
    """Today's inputs for the given rows: their rules as published now, the tools around them, each writer's own."""

    def __init__(self, rows: Sequence[SampleKeys]) -> None:
        self.rows = rows
        versions = {row.version for row in rows if row.version}
        known = RuleVersion.objects.filter(pk__in=versions, rule__published__isnull=False)
        found = list(known.values_list("pk", "number", "rule__published_id"))
        self.numbers = {pk: number for pk, number, _ in found}
        self.current = _texts_of({now for _, _, now in found})  # {published version: its text}
        self.rules = {pk: self.current[now] for pk, _, now in found if now in self.current}
        self.old = old_of([row.pk for row in rows if row.content is None])
        names = {row.anchor for row in rows if row.anchor}
        names |= {name for rule in self.current.values() for name in rule.tools}
        names |= {name for old in self.old.values() for name in old.answer}
        self.catalog = catalog_around(names)
        self._inputs: dict[tuple[str, str], Inputs] = {}
        self._few_shots = cache(few_shot_queries)

    def states(self) -> list[tuple[SampleKeys, State]]:
        groups: dict[tuple[str, str], list[SampleKeys]] = {}
        for row in self.rows:
            groups.setdefault(_writers_of(row), []).append(row)
        found = [pair for group in groups.values() for pair in self.inputs(group[0]).states(group)]
        return sorted(found, key=lambda pair: pair[0].pk)

    def inputs(self, row: SampleKeys) -> Inputs:
        branch, writer = kind = _writers_of(row)
        if kind not in self._inputs:
            recipe, models = newest_recipe(branch, writer)
            writers = telling_writers(writer, recipe, models)
            share = recipe.trace.permission_share
            made = (self.catalog, self.current, branch, writers, share)
            self._inputs[kind] = Inputs.today(*made, self._few_shots)
        return self._inputs[kind]

    def reasons(self, row: SampleKeys, state: State, made: Mapping[str, Any]) -> tuple[StaleReason, ...]:
        if state == State.CURRENT:
            return ()
        if row.version and row.version not in self.rules:
            return (StaleReason("gone", "the rule is withdrawn"),)
        if row.content is None or row.number is None:
            before = () if row.branch == "imported" else (StaleReason("before", BEFORE_KEYS),)
            return (*self._of_old(row), *before)
        inputs = self.inputs(row)
        rule = self.rules[row.version] if row.version else None
        ground = inputs.of_rule(rule) if rule else inputs.of_anchor(row.anchor or "")
        if ground is None:
            return (StaleReason("gone", f"{row.anchor} is retired"),)
        _, now = inputs.made_from(ground, row.kind, row.number, row.seed, row.batch, bool(row.granted))
        return tuple(differences(made, now))

    def _of_old(self, row: SampleKeys) -> Iterable[StaleReason]:
        if row.version and row.version not in self.current:
            now = self.rules[row.version]
            yield StaleReason("rule", now.code, f"v{self.numbers[row.version]}", f"v{now.version}")
        old = self.old[row.pk]
        for name in old.answer:
            if name not in self.catalog.tools:
                yield StaleReason("gone", f"{name} is retired")
            elif (was := old.tools.get(name)) and not self.catalog.tools[name].hash.startswith(was):
                yield StaleReason("tool", name)


def _writers_of(row: SampleKeys) -> tuple[str, str]:
    return row.branch, next((name for name in ("llm", RECORDED) if row.writer.startswith(name)), "offline")


def newest_recipe(branch: str, writer: str) -> tuple[Recipe, dict[str, str]]:
    """The recipe of the newest run of this branch and kind of writer, and its models where settings name none."""
    runs = SynthesisRun.objects.filter(branch=branch, params__has_key="recipe")
    runs = runs.exclude(params__has_key="regenerate")  # those follow the run of what was rejected
    others = Q(writer__startswith="llm") | Q(writer=RECORDED)
    kind = runs.exclude(others) if writer == "offline" else runs.filter(writer__startswith=writer)
    params = kind.order_by("-id").values_list("params", flat=True).first() or {}
    recipe = read_recipe(params["recipe"]) if params else default_recipe()
    models = {row["role"]: row["model"] for row in params.get("endpoints", ())}
    return recipe, {} if settings.LLM_GENERATOR_MODEL else models


def stale_shown(sample: Sample, reasons: Sequence[StaleReason]) -> list[dict[str, Any]]:
    """[{"reason", "before", "after", "url"}]: both texts of a prompt or tool where they are known and differ, or where
    two versions of a rule can be compared. At most one query for prompts and two for tools.
    """
    hashes = {reason.was for reason in reasons if reason.kind == "prompt"}
    prompts = dict(PromptVersion.objects.filter(hash__in=hashes).values_list("hash", "source"))
    marks = {one.what: one.was.partition("+")[0] for one in reasons if one.kind == "tool" and one.was}
    tools = texts_then(marks)
    now = dict(Tool.objects.filter(name__in=tools).values_list("name", "description"))
    found = []
    for reason in reasons:
        before = after = url = ""
        if reason.kind == "prompt" and reason.was in prompts:
            before, after = prompts[reason.was], source(reason.what.removesuffix(".jinja"))
        if reason.kind == "tool" and reason.what in tools:
            before, after = tools[reason.what][0], now.get(reason.what, "")
        if reason.kind == "rule" and sample.rule_version and reason.was:
            numbers = int(reason.was.removeprefix("v")), int(reason.now.removeprefix("v"))
            url = reverse("rules:compare", args=[sample.rule_version.rule_id, *numbers])
        found.append({"reason": reason, "before": before, "after": after, "url": url})
    return found
