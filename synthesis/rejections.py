"""The author of a rule hears why its samples are rejected: one unread notice a rule, with the newest summary."""

from django.urls import reverse

from rules.models import RuleVersion
from synthesis.core.rejections import worth_telling
from synthesis.models import Decision, Sample
from synthesis.selectors_rejections import rejections_of
from trace_site.notices import tell


def tell_author(sample: Sample, decision: Decision) -> None:
    """In the transaction of a final rejection. Not for each one, see `worth_telling`; never about one's own."""
    version = sample.rule_version
    if version is None or version.author is None or version.author_id == decision.reviewer_id:
        return
    (found,) = rejections_of(RuleVersion.objects.filter(pk=version.pk))
    if worth_telling(found.rejected, found.decided, decision.reason):
        tell(
            [version.author],
            "rule_rejections",
            f"{found.code} v{found.number}: {found.sentence}",
            link=f"{reverse('rules:detail', args=[found.rule])}#rejections",
            key=f"rule_rejections:{found.rule}",
        )
