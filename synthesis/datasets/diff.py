"""What differs between two snapshots: samples, rules, tools, counts and options.

A sample of b in whose place a has another one is changed; without a place in common it is added or removed. Read page
by page: nothing is held but one page and the parts of files that the two do not share.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from synthesis.datasets.files import joined
from synthesis.models import Sample, Snapshot, SnapshotSample
from trace_site.paging import SIZE, Page, keyset

SHOWS = ("changed", "added", "removed", "rules", "tools")
OPTIONS = ("strategy", "per_rule", "seed", "branches", "rrb", "domain", "budgets", "strict", "licence")
SAID = ("id", "query", "trace", "answer", "permissions", "branch", "domain", "style", "tier", "writer")


@dataclass(frozen=True, slots=True)
class Change:
    """`before` is None for what was added, `after` for what was removed."""

    kind: str
    name: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class SnapshotPair:
    """Two snapshots, the older knowledge first."""

    a: Snapshot
    b: Snapshot

    def counts(self) -> dict[str, int]:
        """{what `page` shows: how many}"""
        samples = {show: self._samples(show).count() for show in SHOWS[:3]}
        return samples | {show: sum(1 for _ in self._lines(show)) for show in SHOWS[3:]}

    def options(self) -> list[dict[str, Any]]:
        """Those that differ: [{option, before, after}]."""
        pairs = ((name, self.a.params.get(name), self.b.params.get(name)) for name in OPTIONS)
        return [{"option": name, "before": was, "after": now} for name, was, now in pairs if was != now]

    def totals(self) -> list[dict[str, Any]]:
        """Samples by branch, domain and style in both: [{branch, domain, style, before, after}]."""
        found: dict[tuple[str, str, str], list[int]] = {}
        for side, snapshot in enumerate((self.a, self.b)):
            for row in snapshot.manifest["groups"]:
                key = row["branch"], row["domain"], row["style"]
                found.setdefault(key, [0, 0])[side] += row["samples"]
        names = ("branch", "domain", "style")
        return [
            {**dict(zip(names, key, strict=True)), "before": was, "after": now}
            for key, (was, now) in sorted(found.items())
        ]

    def page(self, show: str, after: str = "", size: int = SIZE) -> Page:
        """Some changes of one kind; `after`: the key the page before ended with."""
        if show in SHOWS[3:]:
            found = list(islice((one for one in self._lines(show) if one.name > after), size + 1))
            return Page(found[:size], after, found[size - 1].name if len(found) > size else None)
        page = keyset(self._samples(show).only("pk"), after, size=size)
        texts = _texts({pk for row in page.rows for pk in (row.pk, row.other) if pk})
        changes = []
        for row in page.rows:
            own, other = texts[row.pk], texts.get(row.other or 0)
            was, now = (own, None) if show == "removed" else (other, own)
            changes.append(Change(show, f"sample {own['id']}", was, now))
        return Page(changes, after, page.next_key)

    def _samples(self, show: str) -> QuerySet[Any, Any]:
        """Each with `other`, the sample that only the other snapshot holds in the same place."""
        found = _only(self.a, self.b) if show == "removed" else _only(self.b, self.a)
        return found.filter(other__isnull=show != "changed")

    def _lines(self, show: str) -> Iterator[Change]:
        """Of rules or tools, from the parts of the file that the other snapshot does not have."""
        a, b = (snapshot.parts.get(f"{show}.jsonl", []) for snapshot in (self.a, self.b))
        left, right = joined([one for one in a if one not in b]), joined([one for one in b if one not in a])
        if show == "rules":
            return _changes(left, right, lambda row: f"{row['domain']}/{row['code']}")
        return _changes(left, right, lambda row: str(row["name"]))


def _only(of: Snapshot, other: Snapshot) -> QuerySet[Any, Any]:
    """The samples that only `of` holds, each with the sample that only `other` holds in the same place."""
    held = SnapshotSample.objects.filter(sample=OuterRef("pk"))
    partner = Sample.objects.filter(branch=OuterRef("branch"), slot=OuterRef("slot")).exclude(slot="")
    partner = partner.filter(Exists(held.filter(snapshot=other)), ~Exists(held.filter(snapshot=of))).order_by(
        "pk"
    )
    found = Sample.objects.filter(memberships__snapshot=of).filter(~Q(Exists(held.filter(snapshot=other))))
    return found.annotate(other=Subquery(partner.values("pk")[:1]))


def _texts(ids: set[int]) -> dict[int, dict[str, Any]]:
    rows = Sample.objects.filter(pk__in=ids)
    return {row["id"]: row for row in rows.values(*SAID, rule=F("rule_version__rule__code"))}


def _changes(
    left: Iterable[bytes], right: Iterable[bytes], named: Callable[[dict[str, Any]], str]
) -> Iterator[Change]:
    """By name; lines that say the same on both sides are no change. Statements are read from the text, and a snapshot
    that was frozen before clauses had tokens has none."""
    before = dict.fromkeys(left)
    after: dict[str, bytes] = {}
    for line in right:
        if line in before:
            del before[line]
        else:
            after[named(json.loads(line))] = line
    was = {named(json.loads(line)): line for line in before}
    for name in sorted(was.keys() | after.keys()):
        old, new = (json.loads(side[name]) if name in side else None for side in (was, after))
        if old and new and {**old, "statements": None} == {**new, "statements": None}:
            continue
        yield Change("added" if old is None else "removed" if new is None else "changed", name, old, new)
