"""Forms of the samples pages and of the review queue."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from catalog.models import Domain
from synthesis.core.queries import AXES, WRITERS
from synthesis.models import ReviewItem, Sample, SynthesisRun
from synthesis.samples.counts import SAMPLE_FACETS
from synthesis.samples.rejections import REASONS

CHECKS = (  # of filter V
    *("grounding", "consistency", "attribution", "leakage"),
    *("target", "length", "near_duplicate", "clean_voice"),
)

OUTCOMES = {
    "filtered": "an attempt refused by filter V",
    "judged_out": "an attempt refused by judge J",
    "error": "an attempt with an error",
}
STALENESS = {
    "content": "stale: rule or tools changed",
    "outdated": "outdated: prompt or model changed",
    "current": "as it would be written now",
}
OF_ATTEMPTS = ("outcome", "check", "axis", "tries", "stale")
OF_RULE = ("version", "reason")  # filters that narrow a rule's samples, and nothing without one


def domain_choices() -> list[tuple[str, str]]:
    return [("", "every domain"), *Domain.objects.values_list("slug", "title")]


def _choice(every: str, choices: Iterable[tuple[str, Any]]) -> forms.ChoiceField:
    return forms.ChoiceField(choices=[("", every), *choices], required=False)


class SampleFilters(forms.Form):
    """The filters of the samples page; an unknown value is ignored rather than refused."""

    q = forms.CharField(required=False, max_length=200)
    branch = _choice("any branch", SynthesisRun.Branch.choices)
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    rule = forms.CharField(required=False, max_length=200)
    style = _choice("any style", Sample.Style.choices)
    tier = _choice("any tier", Sample.Tier.choices)
    machine = _choice("any machine status", Sample.Machine.choices)
    human = _choice("any human status", Sample.Human.choices)
    approved_how = _choice("approved anyhow", Sample.How.choices)
    writer = _choice("any writer", zip(WRITERS, WRITERS, strict=True))
    run = forms.IntegerField(required=False, min_value=1, max_value=2**62)
    version = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)  # of the rule
    reason = forms.ChoiceField(choices=list(REASONS.items()), required=False)  # of a rule's rejected samples
    outcome = _choice("any outcome", OUTCOMES.items())
    check = _choice("any check", zip(CHECKS, CHECKS, strict=True))
    axis = _choice("any axis", zip(AXES, AXES, strict=True))
    error = forms.CharField(required=False, max_length=60)
    tries = _choice("any number of tries", {"first": "tried", "again": "tried again"}.items())
    stale = _choice("stale or not", STALENESS.items())

    @property
    def always(self) -> list[forms.BoundField]:
        return [self[name] for name in SAMPLE_FACETS]

    @property
    def of_attempts(self) -> list[forms.BoundField]:
        return [self[name] for name in OF_ATTEMPTS]

    @property
    def opened(self) -> bool:
        """Whether a filter behind the disclosure narrows."""
        return bool({*OF_ATTEMPTS, "error"} & set(self.values()))

    def values(self) -> dict[str, Any]:
        self.is_valid()
        found = {name: value for name, value in self.cleaned_data.items() if value}
        return found if "rule" in found else {k: v for k, v in found.items() if k not in OF_RULE}

    @property
    def reason_words(self) -> str:
        return REASONS.get(self.values().get("reason", ""), "")

    def tell(self, counts: Mapping[str, Mapping[Any, int]]) -> None:
        """Write beside every value how many it would leave: {filter: {value: n}}."""
        for name, found in counts.items():
            field: Any = self.fields[name]
            field.choices = [
                (value, f"{label} ({found.get(value, 0):,})" if value else label)
                for value, label in field.choices
            ]


class QueueFilters(forms.Form):
    """The part of the review queue a person has chosen: it stands in the address and travels with every request. An
    unknown value is ignored rather than refused.
    """

    domain = forms.ChoiceField(choices=domain_choices, required=False)
    branch = _choice("any branch", SynthesisRun.Branch.choices)
    style = _choice("any style", Sample.Style.choices)
    tier = _choice("any tier", Sample.Tier.choices)
    round = forms.TypedChoiceField(
        choices=[("", "any round"), *ReviewItem.Round.choices], coerce=int, empty_value=None, required=False
    )
    rule = forms.CharField(max_length=120, required=False)
    batch = forms.IntegerField(min_value=1, max_value=2**62, required=False)

    def values(self) -> dict[str, Any]:
        """Only what narrows."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}

    @property
    def chosen(self) -> list[forms.BoundField]:
        return [self[name] for name in ("domain", "branch", "style", "tier", "round")]
