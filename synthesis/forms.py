"""Forms of synthesis, of a review decision, and of the snapshot builder."""

from typing import Any

from django import forms
from django.conf import settings

from catalog.models import Domain
from synthesis.models import Sample, SynthesisRun


def domain_choices() -> list[tuple[str, str]]:
    return [("", "every domain"), *Domain.objects.values_list("slug", "title")]


class SynthesisForm(forms.Form):
    branch = forms.ChoiceField(choices=SynthesisRun.Branch.choices, initial="rule")
    writer = forms.ChoiceField(choices=[("offline", "offline"), ("llm", "llm")], initial="offline")
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    per_rule = forms.IntegerField(initial=12, min_value=1, max_value=1000, required=False)
    anchors = forms.IntegerField(initial=100, min_value=1, max_value=100_000, required=False)
    seed = forms.IntegerField(initial=0, min_value=0)

    def clean_writer(self) -> str:
        writer: str = self.cleaned_data["writer"]
        if writer == "llm" and not settings.LLM_BASE_URL:
            raise forms.ValidationError(
                "No endpoint is configured: set LLM_BASE_URL, or choose the offline writers."
            )
        return writer


class SampleFilters(forms.Form):
    """The filters of the samples page; an unknown value is ignored rather than refused."""

    q = forms.CharField(required=False)
    branch = forms.ChoiceField(choices=[("", "any branch"), *SynthesisRun.Branch.choices], required=False)
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    rule = forms.CharField(required=False)
    style = forms.ChoiceField(choices=[("", "any style"), *Sample.Style.choices], required=False)
    tier = forms.ChoiceField(choices=[("", "any tier"), *Sample.Tier.choices], required=False)
    machine = forms.ChoiceField(choices=[("", "any machine status"), *Sample.Machine.choices], required=False)
    human = forms.ChoiceField(choices=[("", "any human status"), *Sample.Human.choices], required=False)
    writer = forms.ChoiceField(
        choices=[("", "any writer"), ("offline", "offline"), ("llm", "llm")], required=False
    )
    run = forms.IntegerField(required=False)

    def values(self) -> dict[str, Any]:
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}


class SnapshotForm(forms.Form):
    strategy = forms.ChoiceField(choices=[("append", "append"), ("replace", "replace")], initial="append")
    per_rule = forms.IntegerField(initial=12, min_value=0, max_value=10_000)
    branches = forms.MultipleChoiceField(
        choices=SynthesisRun.Branch.choices,
        initial=["rrb", "rule"],
        widget=forms.CheckboxSelectMultiple,
    )
    rrb = forms.IntegerField(min_value=0, required=False)
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    seed = forms.IntegerField(initial=0, min_value=0)
    strict = forms.BooleanField(required=False)
