"""Suggested rules kept in step with the catalog: found by a job, drafted or dismissed by people, worded by a model
where one is configured. Nothing here publishes: that takes people, through a change request.

A run computes a domain only when what it reads has changed, and writes only the rows that differ.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from django.db import transaction

from catalog.models import Domain, NeighbourList, Tool
from rules.changes.drafts import change_draft
from rules.core.redirects import Described
from rules.core.suggestions import METHOD, Evidence, Failure, Suggester, Suggestion
from rules.models import RuleChange, RuleSuggestion
from rules.suggestions.selectors import KIND, held_pairs, proposed, suggested
from trace_site.audit import models as audit_models
from trace_site.database import database_now, generation_key
from trace_site.impact import functions_named
from trace_site.jobs import Job, JobContext, enqueue
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

WRITERS = ("words", "llm")
MIN_REASON = 5
MOST_WORDED = 50  # suggestions that a run asks a language model about, unless told otherwise
REST = timedelta(minutes=10)  # between two runs that start by themselves
COMPUTED = ("score", "why", "content", "evidence", "failures", "texts", "writer", "doubt")
TOOL = ("name", "description", "deprecated")


@dataclass(frozen=True, slots=True)
class Worded:
    """What a language model makes of a suggestion: `content` is None where its answer was refused, or it sees no need.
    `doubt`: why it sees none.
    """

    writer: str
    content: dict[str, Any] | None = None
    doubt: str = ""
    refused: str = ""  # why its answer was not taken


# What an app to the right names as `rule_wording`: (job, what is asked about, its budget, progress) -> one for each, in
# order. Raises TraceError `llm_not_configured` or `bad_option`, also where nothing is asked.
Wording = Callable[
    [Job | None, Sequence[RuleSuggestion], Mapping[str, Any], Callable[[int], None]], Sequence[Worded]
]


@transaction.atomic
def suggestions_start(
    *,
    actor: Any = None,
    domain: str = "",
    writer: str = "words",
    most: int = MOST_WORDED,
    budget: Mapping[str, Any] | None = None,
    wake: bool = True,
) -> Job:
    """Queue a run; one like it that still waits is joined. Raises TraceError `bad_option`, `llm_not_configured`."""
    if writer not in WRITERS:
        message, hint = f"'{writer}' is no writer.", "Use words or llm."
        raise TraceError(message, code="bad_option", where="writer", hint=hint)
    if not 1 <= most <= 10_000:
        raise TraceError("between 1 and 10,000 can be asked about.", code="bad_option", where="most")
    if domain and not Domain.objects.filter(pk=domain).exists():
        raise TraceError(f"there is no domain '{domain[:60]}'.", code="not_found", where="domain")
    params: dict[str, Any] = {"domain": domain, "writer": writer}
    if writer == "llm":
        limits = {name: value for name, value in (budget or {}).items() if value is not None}
        functions_named("rule_wording")[0](
            None, (), limits, lambda done: None
        )  # refuses here, not in the worker
        params |= {"most": most, "budget": limits}
    waiting = Job.objects.select_for_update().filter(kind=KIND, state=Job.State.QUEUED, params=params).first()
    return waiting or enqueue(KIND, params, title="Suggest rules", created_by=actor, wake=wake)


def run_suggestions(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. Returns {"domains": {slug: counts}, "read_from", "fingerprints", "worded"}."""
    chosen = ctx.params.get("domain", "")
    ended = Job.objects.filter(kind=KIND, state=Job.State.DONE).exclude(pk=ctx.job.pk).order_by("-pk").first()
    last = (ended and ended.result) or {}
    before = last.get("fingerprints", {})
    moved = last.get("read_from") if chosen else read_from()  # of all domains
    domains = Domain.objects.filter(tools__status=Tool.Status.ACTIVE).distinct()
    counts: dict[str, dict[str, int]] = {}
    prints: dict[str, str] = dict(before)
    for domain in domains.filter(pk=chosen) if chosen else domains:
        counts[domain.pk], prints[domain.pk] = _refresh(ctx, domain, before.get(domain.pk, ""))
    worded = _reword(ctx, list(counts)) if counts and ctx.params.get("writer") == "llm" else {}
    return {"domains": counts, "fingerprints": prints, "read_from": moved, "worded": worded}


def _refresh(ctx: JobContext, domain: Domain, fingerprint: str) -> tuple[dict[str, int], str]:
    """Find one domain's suggestions: ({tools, proposed, new, changed, gone, back}, hash of what was read)."""
    rows = list(Tool.objects.filter(domain=domain, status=Tool.Status.ACTIVE).values_list("pk", *TOOL))
    names: dict[int, str] = {pk: name for pk, name, *_ in rows}
    said = {name: content_hash([name, description, old]) for _, name, description, old in rows}
    near = _neighbours(names)
    failures = failing_requests(domain.pk)
    back = _forgive(domain, said, names)
    dismissed = RuleSuggestion.objects.filter(domain=domain).exclude(dismissed_reason="")
    without = held_pairs(names)
    for row in dismissed:
        without |= {frozenset((row.content["target"], name)) for name in row.content["confusables"]}
    read = [METHOD, sorted(said.items()), sorted(near.items()), [asdict(one) for one in failures]]
    found_from = content_hash([*read, sorted(map(sorted, without))])
    if found_from == fingerprint and not back:
        kept = RuleSuggestion.objects.filter(domain=domain, dismissed_reason="").count()
        unchanged = dict.fromkeys(("new", "changed", "gone", "back"), 0)
        return {"tools": len(rows), "proposed": kept, **unchanged}, found_from
    total = 2 * len(rows)
    tools = [Described(*texts) for _, *texts in sorted(rows, key=lambda row: row[1])]
    suggester = Suggester(
        tools, near, failures, lambda done: ctx.progress(done, total, f"reading what {domain.pk} tools say")
    )
    found = suggester.suggestions(without)
    ids = {name: pk for pk, name in names.items()}
    fresh = {row.key: row for row in (_row(domain, one, suggester, ids, said) for one in found)}
    with ctx.guard():
        counts = _store(domain, fresh)
        detail = {**counts, "proposed": len(fresh)}
        if any(counts.values()):
            audit_models.record(actor=ctx.job.created_by, action="rules.suggested", obj=domain, detail=detail)
    ctx.progress(total, total, f"{len(fresh):,} suggestions for {domain.pk}")
    return {"tools": len(rows), "proposed": len(fresh), **counts, "back": back}, found_from


def _neighbours(names: Mapping[int, str]) -> dict[str, dict[str, float]]:
    lists = NeighbourList.objects.filter(tool__in=names).values_list("tool_id", "neighbour_ids", "scores")
    return {
        names[pk]: {
            names[other]: score for other, score in zip(others, scores, strict=True) if other in names
        }
        for pk, others, scores in lists
    }


def failing_requests(domain: str) -> list[Failure]:
    """What an app to the right measured of requests that got another tool: it names a function of a domain's slug in
    its AppConfig as `failing_requests`, which gives (request, tool wanted, tool chosen); the request is empty where
    not all may read it.
    """
    missed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    measured = functions_named("failing_requests")
    for query, wanted, chosen in (row for failing in measured for row in failing(domain)):
        missed[wanted, chosen].append(query)
    return [
        Failure(*pair, (*sorted({*queries} - {""}), *(query for query in queries if not query)))
        for pair, queries in sorted(missed.items())
    ]


def _texts(tools: Iterable[str], said: Mapping[str, str]) -> str:
    return content_hash([said.get(name, "") for name in tools])


@transaction.atomic
def _forgive(domain: Domain, said: Mapping[str, str], names: Mapping[int, str]) -> int:
    """Forget the dismissals whose tools say something else by now; returns how many. A tool that is in use no more says
    nothing."""
    rows = RuleSuggestion.objects.filter(domain=domain).exclude(dismissed_reason="")
    changed = [row for row in rows if row.texts != _texts([names.get(pk, "") for pk in row.tool_ids], said)]
    RuleSuggestion.objects.filter(pk__in=[row.pk for row in changed]).delete()
    told = [(row, {"reason": row.dismissed_reason}) for row in changed]
    audit_models.record_all(actor=None, action="suggestion.dismissal_ended", objects=told)
    return len(changed)


def _row(
    domain: Domain, one: Suggestion, suggester: Suggester, ids: Mapping[str, int], said: Mapping[str, str]
) -> RuleSuggestion:
    return RuleSuggestion(
        domain=domain,
        key=content_hash([one.kind, one.target, sorted(one.confusables)]),
        kind=one.kind,
        target_id=ids[one.target],
        confusable_ids=[ids[name] for name in one.confusables],
        score=one.score,
        why=one.why,
        content=one.content,
        evidence=[_quoted(suggester.tools[part.tool], part) for part in one.evidence],
        failures=[
            {"query": query, "wanted": failure.wanted, "chosen": failure.chosen}
            for failure in one.failures
            for query in failure.queries
        ],
        texts=_texts(one.tools, said),
    )


def _quoted(tool: Described, part: Evidence) -> dict[str, Any]:
    """The words themselves, so that they stay what they were when the description changes."""
    text = tool.description[part.start : part.end]
    cut = len(text) - len(text.lstrip())
    marks = [[start - part.start - cut, end - part.start - cut] for start, end in part.marks]
    return {"tool": tool.name, "text": text.strip(), "marks": [mark for mark in marks if mark[0] >= 0]}


def _store(domain: Domain, fresh: Mapping[str, RuleSuggestion]) -> dict[str, int]:
    """Write what differs. What a language model worded stays while the texts that it read are the same; what somebody
    dismissed meanwhile stays dismissed."""
    stored = {row.key: row for row in RuleSuggestion.objects.filter(domain=domain)}
    kept = {key: row for key, row in stored.items() if not row.dismissed_reason}
    new = [row for key, row in fresh.items() if key not in stored]
    gone = [row.pk for key, row in kept.items() if key not in fresh]
    changed = []
    for key in fresh.keys() & kept.keys():
        row, old = fresh[key], kept[key]
        if old.writer != "words" and old.texts == row.texts:
            row.content, row.writer, row.doubt = old.content, old.writer, old.doubt
        if any(getattr(row, name) != getattr(old, name) for name in COMPUTED):
            row.pk, row.found_at = old.pk, old.found_at
            changed.append(row)
    RuleSuggestion.objects.filter(pk__in=gone).delete()
    RuleSuggestion.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)  # another run may be at it
    RuleSuggestion.objects.bulk_update(changed, COMPUTED, batch_size=500)
    return {"new": len(new), "changed": len(changed), "gone": len(gone)}


# The language model's part.


def _reword(ctx: JobContext, domains: Sequence[str]) -> dict[str, Any]:
    """Ask about the best that nobody worded yet; what is refused keeps its words. {asked, worded, doubted, refused}."""
    rows = proposed(domains).filter(writer="words", doubt="")
    asked = list(rows.order_by("-score", "id")[: ctx.params["most"]])
    counts, refused = {"asked": len(asked), "worded": 0, "doubted": 0}, Counter[str]()

    def progress(done: int) -> None:
        ctx.progress(done, len(asked), "asking the language model")

    wording: Wording = functions_named("rule_wording")[0]
    found = wording(ctx.job, asked, ctx.params.get("budget", {}), progress) if asked else []
    for row, said in zip(asked, found, strict=True):
        if said.refused:
            refused[said.refused] += 1
            continue
        row.writer, row.doubt = said.writer, said.doubt
        row.content = said.content or row.content
        counts["doubted" if said.doubt else "worded"] += 1
    with ctx.guard():
        RuleSuggestion.objects.bulk_update(asked, ["content", "writer", "doubt"], batch_size=500)
    return {**counts, "refused": dict(refused)}


# What people do.


@transaction.atomic
def suggestions_draft(*, suggestions: Iterable[int], actor: Any) -> list[RuleChange]:
    """A draft for the actor of each that is proposed and nobody is writing yet, in a request of its own. Raises
    TraceError `not_allowed`."""
    held = RuleSuggestion.objects.select_for_update().filter(pk__in=list(suggestions)).order_by("pk")
    still = proposed().filter(pk__in=[row.pk for row in held]).order_by("-score", "pk")
    return [
        change_draft(actor=actor, content=one.row.content, domain=one.row.domain_id)
        for one in suggested(list(still))
        if one.draft is None
    ]


@transaction.atomic
def suggestion_dismiss(*, suggestion: RuleSuggestion, reason: str, actor: Any) -> None:
    """Not proposed again until the text of one of its tools changes. Needs a reason."""
    reason = reason.strip()
    if len(reason) < MIN_REASON:
        message = f"Say why no such rule is needed, in at least {MIN_REASON} characters."
        raise TraceError(message, code="no_reason", where="reason")
    row = RuleSuggestion.objects.select_for_update().get(pk=suggestion.pk)
    row.dismissed_reason, row.dismissed_by, row.dismissed_at = reason, actor, database_now()
    row.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
    audit_models.record(actor=actor, action="suggestion.dismissed", obj=row, detail={"reason": reason})


@transaction.atomic
def suggestion_restore(*, suggestion: RuleSuggestion, actor: Any) -> None:
    """Undo a dismissal."""
    row = RuleSuggestion.objects.select_for_update().get(pk=suggestion.pk)
    if row.dismissed_reason:
        row.dismissed_reason, row.dismissed_by, row.dismissed_at = "", None, None
        row.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
        audit_models.record(actor=actor, action="suggestion.restored", obj=row)


def read_from() -> list[Any]:
    """What suggestions are found from, as it stands: another value makes a look due."""
    return [generation_key("catalog", "rules"), _failing_now()]


def _failing_now() -> str:
    domains = Domain.objects.order_by("pk").values_list("pk", flat=True)
    return content_hash([asdict(one) for slug in domains for one in failing_requests(slug)])


@lru_cache(maxsize=1)
def _failing_lately(rest: int) -> str:
    """Read once a rest: it goes through all that was measured."""
    return _failing_now()


def sweep() -> None:
    """Look again when tools, rules or failing requests changed since the last look; only where somebody has looked
    before."""
    last = Job.objects.filter(kind=KIND).order_by("-pk").first()
    if last is None or last.state != Job.State.DONE or last.finished_at is None:
        return
    now = database_now()
    if now - last.finished_at <= REST:
        return
    known, failing = (last.result or {}).get("read_from") or ("", "")
    rest = int(now.timestamp() // REST.total_seconds())
    if known != generation_key("catalog", "rules") or failing != _failing_lately(rest):
        suggestions_start()
