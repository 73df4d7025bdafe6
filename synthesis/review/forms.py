"""The part of the review queue a person has chosen: it stands in the address and travels with every request."""

from typing import Any

from django import forms

from synthesis.models import ReviewItem, Sample, SynthesisRun
from synthesis.samples.forms import domain_choices

BIGGEST = 2**62


class QueueFilters(forms.Form):
    """An unknown value is ignored rather than refused."""

    domain = forms.ChoiceField(choices=domain_choices, required=False)
    branch = forms.ChoiceField(choices=[("", "any branch"), *SynthesisRun.Branch.choices], required=False)
    style = forms.ChoiceField(choices=[("", "any style"), *Sample.Style.choices], required=False)
    tier = forms.ChoiceField(choices=[("", "any tier"), *Sample.Tier.choices], required=False)
    round = forms.TypedChoiceField(
        choices=[("", "any round"), *ReviewItem.Round.choices], coerce=int, empty_value=None, required=False
    )
    rule = forms.CharField(max_length=120, required=False)
    batch = forms.IntegerField(min_value=1, max_value=BIGGEST, required=False)

    def values(self) -> dict[str, Any]:
        """Only what narrows."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}

    @property
    def chosen(self) -> list[forms.BoundField]:
        return [self[name] for name in ("domain", "branch", "style", "tier", "round")]
