"""Which samples say what their rule and tools said once and say no more: content staleness over many rows at once.

A sample is stale when its `content` is not what its rule version or anchor stands on today. Samples share few pairs of
those, and a process keeps what each stands on until the catalog, the look-alikes or a published rule move.
"""

from collections.abc import Mapping
from threading import RLock

from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from catalog.models import Tool
from rules.models import RuleVersion
from synthesis.core.keys import contents
from synthesis.inputs import pool_marks
from synthesis.models import Sample
from synthesis.selectors_standing import OVERTAKEN
from synthesis.sources import catalog_around, rule_texts
from trace_site.generation import generation_key

MOST_AROUND = 500  # rules and anchors whose pools are read one by one; for more the whole catalog is
NOTHING: frozenset[str] = frozenset()


Base = tuple[int | None, int | None]  # what a sample stands on: (rule version, anchor), one of them None


class _Kept:
    """What bases stand on, as far as this process was asked; nothing for a retired or replaced one."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.moved: Mapping[str, object] = {"catalog": "unread"}
        self.contents: dict[Base, frozenset[str]] = {}


_kept = _Kept()


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
    with _kept.lock:
        moved = generation_key("catalog", "neighbours", "rules")
        if moved != _kept.moved:
            _kept.moved, _kept.contents = moved, {}
        if unread := bases - _kept.contents.keys():
            _kept.contents = {**_kept.contents, **dict.fromkeys(unread, NOTHING), **_read(unread)}
        return _kept.contents


def _read(bases: set[Base]) -> dict[Base, frozenset[str]]:
    published = RuleVersion.objects.filter(pk__in={version for version, _ in bases if version})
    versions = list(published.filter(rule__published_id=F("pk")).select_related("rule"))
    rules = dict(zip((version.pk for version in versions), rule_texts(versions), strict=True))
    live = Tool.objects.filter(pk__in={anchor for _, anchor in bases if anchor}, status=Tool.Status.ACTIVE)
    anchors = dict(live.values_list("pk", "name"))
    names = {*anchors.values(), *(name for rule in rules.values() for name in rule.tools)}
    catalog = catalog_around(names if len(rules) + len(anchors) <= MOST_AROUND else None)
    found: dict[Base, frozenset[str]] = {}
    for pk, rule in rules.items():
        own = [name for name in rule.tools if name in catalog.tools]
        found[pk, None] = frozenset(contents(rule, rule.code, *pool_marks(catalog, own)))
    for pk, name in anchors.items():
        found[None, pk] = frozenset(contents(None, name, *pool_marks(catalog, [name])))
    return found


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
