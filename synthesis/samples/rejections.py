"""Why readers rejected the samples of a rule version: how many of how many, by reason in their words, by style.

Only what is final counts: a reading that waits for a second one is nobody's business yet. Samples that nobody read (a
policy, an accepted batch, an import) are no part of the denominator. The author of the rule hears of it: one unread
notice a rule, with the newest summary.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.urls import reverse

from rules.models import RuleVersion
from synthesis.models import Decision, Sample
from trace_site.notices.services import tell

REASONS = {
    "wrong_tool": "wrong tool",
    "wrong_rule": "rule misread",
    "rule_unclear": "rule text ambiguous",
    "unclear": "several tools fit",
    "unnatural": "nobody would type this",
    "leak": "gives the answer away",
    "bad_trace": "reasoning does not lead to the answer",
    "personal_data": "personal data",
    "other": "other (see note)",
}
# what is wrong with the trace alone: its query is kept when it is written again
OF_TRACE = frozenset({"bad_trace"})
ABOUT_RULE = "rule_unclear"
TOLD_COUNT = 3  # rejections of a rule before its author is told
TOLD_SHARE = 0.25  # of what was read
LONGEST_QUOTE = 80  # characters
LONGEST_CRITIQUE = 2000


def critique(readings: Iterable[tuple[str, str]]) -> str:
    """What the writer is told: reason and note of every reader who refused, each once."""
    told = []
    for reason, note in readings:
        said, label = " ".join(note.split()).rstrip("."), REASONS.get(reason, reason)
        told.append(f"{label[:1].upper()}{label[1:]}{f': {said}' if said else ''}.")
    return " ".join(dict.fromkeys(told))[:LONGEST_CRITIQUE]


def worth_telling(rejected: int, decided: int, reason: str) -> bool:
    """Whether a rule's author hears of one more rejection: their text is named as the cause, or it is one of many."""
    return reason == ABOUT_RULE or (rejected >= TOLD_COUNT and rejected >= TOLD_SHARE * decided)


def sentence(rejected: int, decided: int, reasons: Mapping[str, int], notes: Mapping[str, str]) -> str:
    """ "7 of 12 rejected: rule text ambiguous (5), wrong tool (2)"; `notes`: {reason: the newest words of a reader}."""
    parts = []
    for reason, count in Counter(reasons).most_common():
        said = " ".join(notes.get(reason, "").split())
        quote = f" “{said[:LONGEST_QUOTE]}{'…' if len(said) > LONGEST_QUOTE else ''}”" if said else ""
        parts.append(f"{REASONS.get(reason, reason)} ({count}){quote}")
    told = f"{rejected} of {decided} rejected"
    return f"{told}: {', '.join(parts)}" if parts else told


Human, How = Sample.Human, Sample.How
UNREAD = Q(human=Human.APPROVED, approved_how__in=[How.POLICY, How.BATCH, How.IMPORT])
REFUSAL = Q(verdict=Decision.Verdict.REJECT, item__calibration=False)
DECIDED = Q(human__in=[Human.APPROVED, Human.REJECTED]) & ~UNREAD


@dataclass(frozen=True, slots=True)
class Said:
    """What a reader said of one sample."""

    sample: int
    style: str
    note: str


@dataclass(slots=True)
class RejectionReason:
    code: str
    label: str
    said: list[Said] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.said)

    @property
    def notes(self) -> list[Said]:
        """Those who said more than the reason, the newest first."""
        return [one for one in self.said if one.note.strip()]


@dataclass(slots=True)
class Rejections:
    """Of one rule version. `styles`: {style: (rejected, decided)}; `reasons` the most frequent first."""

    version: int
    number: int
    rule: int
    code: str
    domain: str
    styles: dict[str, tuple[int, int]] = field(default_factory=dict)
    reasons: list[RejectionReason] = field(default_factory=list)

    @property
    def decided(self) -> Annotated[int, "samples that somebody read to the end"]:
        return sum(decided for _, decided in self.styles.values())

    @property
    def rejected(self) -> int:
        return sum(rejected for rejected, _ in self.styles.values())

    @property
    def short(self) -> str:
        """With the most frequent reason alone, for a line of a table."""
        return sentence(self.rejected, self.decided, {one.code: one.count for one in self.reasons[:1]}, {})

    @property
    def sentence(self) -> str:
        counts = {reason.code: reason.count for reason in self.reasons}
        notes = {reason.code: reason.notes[0].note for reason in self.reasons if reason.notes}
        return sentence(self.rejected, self.decided, counts, notes)


def rejections_of(versions: QuerySet[RuleVersion]) -> list[Rejections]:
    """Of every version with a decision; two queries whatever their number."""
    rows = Sample.objects.filter(DECIDED, rule_version__in=versions).order_by("rule_version", "style")
    counts = rows.values_list(
        "rule_version",
        "rule_version__number",
        "rule_version__rule",
        "rule_version__rule__code",
        "rule_version__rule__domain",
        "style",
    ).annotate(rejected=Count("pk", filter=Q(human=Human.REJECTED)), decided=Count("pk"))
    found: dict[int, Rejections] = {}
    for version, number, rule, code, domain, style, rejected, decided in counts:
        one = found.setdefault(version, Rejections(version, number, rule, code, domain))
        one.styles[style] = rejected, decided
    refused = [one.version for one in found.values() if one.rejected]
    for version, reasons in _reasons(refused).items():
        found[version].reasons = reasons
    return list(found.values())


def rejections_of_published(rules: Iterable[int]) -> dict[int, Rejections]:
    """{rule: of its published version}, for a page of rules."""
    versions = RuleVersion.objects.filter(rule__in=list(rules), rule__published=F("pk"))
    return {one.rule: one for one in rejections_of(versions)}


def rejected_for(rows: QuerySet[Sample], reason: str) -> QuerySet[Sample]:
    """Rejected samples whose newest rejection gives this reason; narrow `rows` first, it is looked up for each."""
    said = Decision.objects.filter(REFUSAL, sample=OuterRef("pk")).order_by("-pk").values("reason")
    return rows.filter(human=Human.REJECTED).alias(said=Subquery(said[:1])).filter(said=reason)


def _reasons(versions: list[int]) -> dict[int, list[RejectionReason]]:
    """By the decision that ended each sample: its newest rejection."""
    final = Decision.objects.filter(REFUSAL, sample__human=Human.REJECTED, sample__rule_version__in=versions)
    last = final.order_by("sample", "-pk").distinct("sample")
    rows = last.values_list("pk", "sample", "sample__rule_version", "sample__style", "reason", "note")
    found: defaultdict[int, dict[str, RejectionReason]] = defaultdict(dict)
    for _, sample, version, style, code, note in sorted(rows, reverse=True):
        reason = found[version].setdefault(code, RejectionReason(code, REASONS.get(code, code)))
        reason.said.append(Said(sample, style, note))
    return {
        version: sorted(reasons.values(), key=lambda reason: -reason.count)
        for version, reasons in found.items()
    }


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
