"""Reads behind the samples pages: one page of them with how many there are, one sample's attempts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.shortcuts import get_object_or_404

from catalog.models import Tool
from synthesis.core.queries import AXES, THRESHOLDS
from synthesis.models import Attempt, Sample
from synthesis.samples.counts import Tally, covers, sample_counts
from synthesis.samples.search import EXAMINED, Search
from trace_site.paging import SIZE, Page

LAST = "last"  # the key of the last page
# what a row of a list shows; the trace is not in it
SHOWN = (
    *("run__job__state", "branch", "domain_id", "style", "tier", "query", "answer", "machine", "human"),
    *("rule_version__number", "rule_version__rule__code", "rule_version__rule__published_id"),
    *("approved_how", "writer", "created_at"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """One page of samples, newest first.

    `total` is None where it is not known; it and `attempts`, those that the filters name (None without any), are
    floors where there are `more`. `tally`: what each value of each filter would leave. `examined`: only so many of
    the samples were looked at for this page, None where all were.
    """

    page: Page
    total: int | None
    more: bool
    attempts: int | None
    tally: Tally
    examined: int | None = None


def samples(filters: Mapping[str, Any], after: str = "", size: int = SIZE) -> Found:
    """Needs the same queries whatever the number of samples. after: a page's next key, or `last`."""
    search = Search(filters)
    page = sample_page(search, after, size)
    tell_why(page.rows)
    tally = sample_counts(filters)
    examined = EXAMINED if search.level else None
    if covers(filters):
        return Found(page, tally.total, False, None, tally)
    if search.level:
        whole = not after and page.next_key is None  # all there are stand on this page
        return Found(page, len(page.rows) if whole else None, False, None, tally, examined)
    if after and search.text:  # counted on the first page; all that holds the words would be read again
        return Found(page, None, False, None, tally)
    total, attempts, more = search.counted(tally.total)
    named = search.tried is not None and "tries" not in filters
    return Found(page, total, more, attempts if named else None, tally)


def sample_page(search: Search, after: str = "", size: int = SIZE) -> Page:
    """Rows with what a list shows of them; a key that is none starts anew."""
    last = after == LAST
    after = after if after.isascii() and after.isdecimal() and len(after) < 99 else ""
    within = search.range(after, newest=not last)
    if search.level:
        found, following = search.stale_ids(within, size)
        key = None if following is None or last else str(following)
    else:
        found = search.ids(within, size + (not last))
        key = str(found[size - 1]) if len(found) > size else None
    rows = Sample.objects.filter(pk__in=found[:size]).select_related("rule_version__rule", "run__job")
    return Page(list(rows.only(*SHOWN).order_by("-pk")), LAST if last else after, key)


def tell_why(rows: list[Sample]) -> None:
    """Put `why` on dropped samples: what their last attempt ended with. One query."""
    dropped = [row.pk for row in rows if row.machine == Sample.Machine.DROPPED]
    last = Attempt.objects.filter(sample__in=dropped).order_by("sample_id", "-number").distinct("sample_id")
    narrow = last.only("sample_id", "outcome", "filter_failures", "judge", "error_code")
    why = {attempt.sample_id: ended_with(attempt) for attempt in narrow}
    for row in rows:
        row.why = why.get(row.pk, "")  # type: ignore[attr-defined]


def ended_with(attempt: Attempt) -> str:
    """Why an attempt did not pass, in a few words."""
    if attempt.outcome == "filtered":
        return "filter V: " + ", ".join(dict.fromkeys(entry["check"] for entry in attempt.filter_failures))
    if attempt.outcome == "judged_out":
        return "judge J: " + (", ".join(attempt.judge.get("failed", ())) or "scored too low")
    return attempt.error_code if attempt.outcome == "error" else ""


def sample(pk: int) -> Sample:
    """One sample with what its page shows. Raises Http404."""
    parts = ("run__job", "domain", "rule_version__rule", "rule_version__target", "anchor")
    return get_object_or_404(Sample.objects.select_related(*parts), pk=pk)


def thresholds(of: Sample) -> dict[str, int]:
    """The least score of each axis that its run asked for."""
    asked = of.run.params.get("recipe", {}).get("judge", {}).get("thresholds", {})
    return {axis: asked.get(axis, THRESHOLDS[axis]) for axis in AXES}


def pool_tools(of: Sample) -> list[Tool]:
    """The pool's tools, answer first, then T(r), then in the order the writers saw."""
    tools = {tool.name: tool for tool in Tool.objects.filter(name__in={*of.pool, *of.answer}).defer("search")}
    own = set(of.rule_version.tool_ids) if of.rule_version else set()
    order = [tools[name] for name in dict.fromkeys([*of.answer, *of.pool]) if name in tools]
    return sorted(order, key=lambda tool: (tool.name not in of.answer, tool.pk not in own))
