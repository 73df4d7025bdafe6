"""Which samples say what their rule and tools said once and say no more: content staleness over many rows at once."""

from django.db.models import F, QuerySet

from rules.models import RuleVersion
from synthesis.inputs import content_inputs
from synthesis.models import Sample
from synthesis.sources import catalog_around, rule_texts

MOST_AROUND = 500  # rules and anchors whose pools are read one by one; for more the whole catalog is


def stale_contents(samples: QuerySet[Sample]) -> set[str]:
    """The values of `made_from.content` among these samples that are not today's. At most six queries.

    Samples from before contents were kept have none; they are not told here.
    """
    known = samples.order_by().filter(made_from__has_key="content")
    groups = set(known.values_list("rule_version_id", "anchor__name", "made_from__content").distinct())
    if not groups:
        return set()
    versions = {version for version, _, _ in groups if version}
    published = RuleVersion.objects.filter(pk__in=versions, rule__published_id=F("pk"))
    rows = list(published.select_related("rule"))
    rules = {version.pk: text for version, text in zip(rows, rule_texts(rows), strict=True)}
    names = {anchor for _, anchor, _ in groups if anchor}
    many = len(rules) + len(names) > MOST_AROUND
    names |= {name for rule in rules.values() for name in rule.tools}
    today = content_inputs(catalog_around(None if many else names), rules)
    return {
        content
        for version, anchor, content in groups
        if (made := today.of(version, anchor)) is None
        or content not in (made.plain.content, made.granted.content)
    }


def without_stale(samples: QuerySet[Sample]) -> QuerySet[Sample]:
    """Those whose content is today's, or not known."""
    stale = stale_contents(samples)
    return samples.exclude(made_from__content__in=sorted(stale)) if stale else samples
