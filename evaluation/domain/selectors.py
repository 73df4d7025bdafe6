"""One domain as its page, report and API show it: how much is told apart, what goes wrong where it is not, and how that
moved.

It is read from the newest count, but for answers reported wrong, which are counted at the look; the number of
queries does not depend on how much there is.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from django.contrib.humanize.templatetags.humanize import apnumber
from django.urls import reverse
from django.utils import timezone

from evaluation.core.confusion import EMBEDDING, MODEL, SIDES
from evaluation.core.coverage import GROUP_WORDS
from evaluation.core.metrics import ALL
from evaluation.core.paired import WORSE
from evaluation.coverage.counted import counted
from evaluation.coverage.gaps import (
    UNSPOKEN,
    Asked,
    asked_by_group,
    hold_most,
    right,
    share,
    side_of,
    trend,
)
from evaluation.coverage.pages import STATES, clusters_url, model_words, requests_url
from evaluation.models import ClusterPlace, DomainPoint
from rules.models import RuleVersion
from synthesis.core.agreement import FEWEST, Rate
from trace_site.lib.charts import Dot, DotChart, DotRow, LineChart, Series, line_chart


@dataclass(frozen=True)
class DomainPage:
    """`asked`: labelled requests by group; `most`: how many of the first gaps hold most expected wrong answers."""

    figures: DomainPoint
    asked: dict[str, Asked]
    most: int

    @property
    def domain(self) -> str:
        return self.figures.domain_id

    @property
    def side(self) -> str:
        return side_of(self.figures)

    @property
    def who(self) -> str:
        return model_words(self.figures)

    def answer(self, group: str) -> str:
        """Whether the model is better than plain search there, as the gate and Compare tell it; empty without one."""
        return str(self.figures.groups[group].get("answer", ""))

    @property
    def is_thin(self) -> bool:
        """Whether what goes wrong for lack of a rule rests on so few requests that it should be said."""
        return self.asked["uncovered"].n < FEWEST


def shown_domain(rows: dict[str, DomainPoint], wanted: str) -> DomainPoint | None:
    """The one that is asked for, else that with the most expected wrong answers."""
    if wanted:
        return rows.get(wanted)
    order = sorted(rows.values(), key=lambda row: (-(row.score or 0), -row.gaps, row.domain_id))
    return order[0] if order else None


def domain_page(figures: DomainPoint) -> DomainPage:
    asked = asked_by_group(figures.domain_id, side_of(figures))
    return DomainPage(figures, asked, hold_most(figures.domain_id, figures.score))


# The sentence of the page.


class Said(NamedTuple):
    """A piece of a sentence; with `href` the number that its list is behind."""

    text: str
    href: str = ""


def headline(page: DomainPage) -> list[Said]:
    """How many clusters are told apart, what goes wrong where they are not, and which gaps hold most of it."""
    figures = page.figures
    day = timezone.localtime(figures.at)
    said = [Said(f"{figures.domain.title}, {day:%-d %b}: ")]
    if figures.clustering is None:
        tools = Said(
            f"{figures.tools:,} tool{'' if figures.tools == 1 else 's'}",
            f"{reverse('catalog:list')}?domain={page.domain}",
        )
        return [*said, Said("nobody has looked for look-alikes among its "), tools, Said(" yet.")]
    if figures.clusters == 0:
        return [*said, Said("no look-alikes are left to tell apart.")]
    said += _told_apart(page)
    if figures.clusters == figures.done and not figures.gaps:
        said += _go_wrong(page, "covered", "where rules decide", " still")
    else:
        said += _where_not(page)
    return [*said, Said(".")]


def _told_apart(page: DomainPage) -> Iterator[Said]:
    figures, every = page.figures, clusters_url(page.domain, state="counted")
    if figures.done < figures.clusters:
        yield Said(f"{figures.done:,}", clusters_url(page.domain, state="apart"))
        yield Said(" of ")
        yield Said(f"{figures.clusters:,}", every)
        yield Said(f" look-alike clusters {_are(figures.done)} told apart")
        return
    yield Said("the " if figures.clusters == 1 else "all ")
    yield Said(f"{figures.clusters:,}", every)
    yield Said(
        f" look-alike cluster{'' if figures.clusters == 1 else 's'} {_are(figures.clusters)} told apart"
    )


def _where_not(page: DomainPage) -> Iterator[Said]:
    gap = page.asked[ALL].gap
    if not page.asked[ALL].n:
        yield Said("; how often requests go wrong is not measured")
        return
    # a cluster counts as told apart although single tools of it are not
    where = "where they are not" if page.figures.done < page.figures.clusters else "where a tool is not"
    yield from _go_wrong(page, "uncovered", where)
    if not gap:
        yield Said("; no request goes wrong for lack of a rule")
        return
    yield Said("; ")
    yield Said(f"{gap:,}", requests_url(page.domain, wrong=page.side, at="uncovered"))
    yield Said(f" request{' goes' if gap == 1 else 's go'} wrong for lack of a rule")
    if page.most:
        yield Said(", and ")
        yield Said(
            f"{apnumber(page.most)} gap{'' if page.most == 1 else 's'}",
            clusters_url(page.domain, gaps="yes", first=str(page.most)),
        )
        yield Said(f" hold{'s' if page.most == 1 else ''} most of it")


def _go_wrong(page: DomainPage, group: str, where: str, still: str = "") -> Iterator[Said]:
    """Of the labelled requests of a group."""
    asked = page.asked[group]
    if not asked.n:
        yield Said(f"; how often requests go wrong {where} is not measured")
        return
    yield Said(f"; {where}, ")
    yield (
        Said(f"{asked.wrong:,}", requests_url(page.domain, group=group, wrong=page.side))
        if asked.wrong
        else Said("none")
    )
    yield Said(" of ")
    yield Said(f"{asked.n:,}", requests_url(page.domain, group=group))
    yield Said(f" request{'' if asked.n == 1 else 's'}{still} {'goes' if asked.wrong == 1 else 'go'} wrong")


def causes(page: DomainPage) -> list[Said]:
    """How many wrong answers lack a rule, and how many have one that the model did not follow; none where none is
    wrong."""
    asked, side = page.asked[ALL], page.side
    if not asked.wrong:
        return []
    said = [
        Said("Of "),
        Said(f"{asked.wrong:,}", requests_url(page.domain, wrong=side)),
        Said(f" wrong answer{'' if asked.wrong == 1 else 's'} "),
        Said(f"{asked.gap:,}", requests_url(page.domain, wrong=side, at="uncovered")),
        Said(f" lack{'s' if asked.gap == 1 else ''} a rule"),
    ]
    if asked.unspoken:
        address = requests_url(page.domain, wrong=side, at=UNSPOKEN)
        said += [
            Said("; in "),
            Said(f"{asked.unspoken:,}", address),
            Said(" a rule exists, but its clause was not chosen"),
        ]
    return [*said, Said(".")]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def warnings(page: DomainPage) -> list[list[Said]]:
    """Plain sentences where the model is worse than what one has without it."""
    found = []
    for group, asked in page.asked.items():
        if page.answer(group) == WORSE:
            filters = {} if group == ALL else {"group": group}
            n = requests_url(page.domain, asked="both", **filters)
            wrong = {side: requests_url(page.domain, asked="both", wrong=side, **filters) for side in SIDES}
            found.append(
                [
                    Said(
                        f"{page.who.capitalize()} is worse than plain embedding search {GROUP_WORDS[group]}: it gets "
                    ),
                    Said(str(asked.ours), wrong[MODEL]),
                    Said(" of "),
                    Said(str(asked.both), n),
                    Said(" wrong, the embedding "),
                    Said(str(asked.theirs), wrong[EMBEDDING]),
                    Said("."),
                ]
            )
    return found


# Its figures.


def _dot(who: str, shape: str, wrong: int, n: int) -> Dot:
    right = share(n - wrong, n)
    assert right is not None and right.value is not None
    return Dot(who, shape, right.value, right.low, right.high)


def recall_figure(page: DomainPage) -> DotChart | None:
    """The share of requests whose first tool is right, in each group; with a model over the requests that both sides
    were asked. None: not measured."""
    both = page.side == MODEL and any(asked.both for asked in page.asked.values())
    rows, told = [], []
    for group, asked in page.asked.items():
        n, ours = (asked.both, asked.ours) if both else (asked.n, asked.wrong)
        if not n:
            continue
        dots = [_dot(page.who.removeprefix("the "), "circle" if page.side == MODEL else "diamond", ours, n)]
        dots += [_dot("plain embedding", "diamond", asked.theirs, n)] if both else []
        if group in ("covered", "uncovered"):
            told.append(f"{GROUP_WORDS[group]} {n - ours} of {n}")
        filters = {"asked": "both"} if both else {}
        filters |= {} if group == ALL else {"group": group}
        answer = page.answer(group)
        word = "" if not both else f"{answer}{'' if answer == 'cannot tell' else ' than embedding'}"
        tone = {"better": "good", "worse": "bad"}.get(answer, "wait") if both else ""
        rows.append(DotRow(GROUP_WORDS[group], n, dots, requests_url(page.domain, **filters), word, tone))
    if not rows:
        return None
    title = f"Does a rule help? {page.who.capitalize()} gets the first tool right {', '.join(told)}"
    return DotChart(title if told else f"How often is the first tool of {page.who} right?", rows)


# How it moved.

SHOWN_POINTS = 8
DRAWN_POINTS = 60


class Change(NamedTuple):
    text: str
    href: str
    route: str


@dataclass(frozen=True)
class Moved:
    """A point of the trend with what moved, `more`: rules beyond those named."""

    point: DomainPoint
    changes: list[Change]
    more: int
    right: Rate | None
    embedding: Rate | None


NAMED = 3  # rules of a point


@dataclass(frozen=True)
class Trend:
    """The newest first; `chart`: from two points on, `drawn` of them."""

    rows: list[Moved]
    drawn: int
    chart: LineChart | None

    @property
    def is_cut(self) -> bool:
        return self.drawn == DRAWN_POINTS


def domain_trend(figures: DomainPoint, size: int = SHOWN_POINTS) -> Trend:
    """At most two queries, at the first look at a count."""
    return _trend(figures.domain_id, figures.at, size)


@lru_cache(maxsize=64)
def _trend(domain: str, counted_at: datetime, size: int) -> Trend:
    """Points are stored with a count, so what they show is as long the same."""
    points = trend(domain, DRAWN_POINTS)
    shown = points[::-1][:size]
    ids = {pk for point in shown for of in point.why.get("rules", {}).values() for pk in of}
    versions = {
        version.pk: version
        for version in RuleVersion.objects.filter(pk__in=ids)
        .select_related("rule")
        .only("number", "rule__code")
    }
    return Trend([_moved(point, versions) for point in shown], len(points), _trend_chart(points))


def _moved(point: DomainPoint, versions: dict[int, RuleVersion]) -> Moved:
    why, changes = point.why, []
    if old_new := why.get("model"):
        if point.model_id:
            word = "is champion" if point.alias == "champion" else "is the newest model"
            address = reverse("training:model", args=[point.model_id])
            changes.append(Change(f"model {point.model_id} {word}", address, "training:model"))
        else:
            changes.append(Change(f"model {old_new[0]} is gone", "", ""))
    rules = why.get("rules", {})
    added = [versions[pk] for pk in rules.get("added", ()) if pk in versions]
    kept = {version.rule_id for version in added}
    gone = [
        versions[pk] for pk in rules.get("gone", ()) if pk in versions and versions[pk].rule_id not in kept
    ]
    told = [(one, f"{one.rule.code} v{one.number}") for one in added]
    told += [(one, f"{one.rule.code} withdrawn") for one in gone]
    for one, text in told[:NAMED]:
        changes.append(Change(text, reverse("rules:detail", args=[one.rule_id]), "rules:detail"))
    if why.get("clustering"):
        changes.append(Change(f"clusters v{point.clustering}", clusters_url(point.domain_id), "clusters"))
    if why.get("counted"):
        changes.append(Change("pairs read or dismissed otherwise", "", ""))
    return Moved(
        point,
        changes or [Change("first count", "", "")],
        max(0, len(told) - NAMED),
        right(point.groups[ALL]),
        right(point.groups[ALL], "_embedding"),
    )


def _trend_chart(points: Sequence[DomainPoint]) -> LineChart | None:
    """Shares in per cent over the changes, each as wide as the next; the dates stand below."""
    if len(points) < 2:
        return None
    apart = [(float(at), 100 * one.covered / one.pairs) for at, one in enumerate(points) if one.pairs]
    sides: dict[str, list[tuple[float, float]]] = {"first tool right": [], "plain embedding": []}
    for at, one in enumerate(points):
        for name, side in zip(sides, ("", "_embedding"), strict=True):
            if (rate := right(one.groups[ALL], side)) and rate.value is not None:
                sides[name].append((float(at), 100 * rate.value))
    drawn = [Series("pairs told apart", apart), *(Series(name, of) for name, of in sides.items())]
    first = points[0]
    title = "Is it getting better?"
    if len(apart) > 1:
        was, is_now = f"{apart[0][1]:.0f} %", f"{apart[-1][1]:.0f} %"
        moved = f"stayed at {was}" if was == is_now else f"went from {was} to {is_now}"
        title += f" Since {_day(first.at)} pairs told apart {moved}"
    ours = sides["first tool right"]
    if len(ours) > 1 and ours[0][1] != ours[-1][1]:
        title += f", right first tools from {ours[0][1]:.0f} % to {ours[-1][1]:.0f} %"
    chart = line_chart(
        title,
        [one for one in drawn if len(one.points) > 1],
        x_label="each step is a change of rules, clusters or model",
        y_label="per cent",
    )
    end = len(points) - 1
    days = [_day(points[round(end * quarter / 4)].at) for quarter in range(5)]
    return replace(chart, x_ticks=[day if day != before else "" for before, day in pairwise(["", *days])])


def _day(at: datetime) -> str:
    return f"{timezone.localtime(at):%-d %b}"


# Its map, small: one path for all circles of a state and size.


@dataclass(frozen=True)
class SmallMap:
    """`box`: of the picture; `paths`: (tone, diameter, points)."""

    box: str
    paths: list[tuple[str, int, str]]


class NotDrawn(Exception):
    """Nobody has looked at the map of these clusters yet."""


def small_map(figures: DomainPoint) -> SmallMap | None:
    """None before somebody looked at the map. One query, at the first look at a count."""
    try:
        return _small_map(figures.domain_id, figures.clustering, figures.at)
    except NotDrawn:  # which is not kept: the map may be drawn before the next count
        return None


@lru_cache(maxsize=64)
def _small_map(domain: str, clustering: int | None, counted_at: datetime) -> SmallMap:
    of = {"cluster__clustering__domain": domain, "cluster__clustering__version": clustering}
    rows = list(ClusterPlace.objects.filter(**of).values_list("x", "y", "radius", "cluster"))
    if not rows:
        raise NotDrawn
    states = {row.pk: row.state for row in counted().clusters.get(domain, ())}
    paths: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for x, y, radius, cluster in rows:
        tone = STATES[states[cluster]].tone if cluster in states else "idle"
        paths[tone, 2 * radius].append(f"M{x} {y}h0")
    left, right_ = min(x - r for x, _, r, _ in rows), max(x + r for x, _, r, _ in rows)
    top, bottom = min(y - r for _, y, r, _ in rows), max(y + r for _, y, r, _ in rows)
    box = f"{left} {top} {right_ - left} {bottom - top}"
    return SmallMap(box, [(tone, width, "".join(of)) for (tone, width), of in paths.items()])
