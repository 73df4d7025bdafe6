"""Forms of the samples pages and of the review queue."""

from collections.abc import Mapping
from typing import Any

from django import forms

from catalog.models import Domain
from synthesis.core.queries import AXES, WRITERS
from synthesis.llm.ledger import MOST_SPENT
from synthesis.models import ReviewItem, Sample, SynthesisRun
from synthesis.samples.rejections import REASONS
from trace_site.lib.errors import TraceError

CHECKS = (
    "grounding",
    "consistency",
    "attribution",
    "leakage",
    "target",
    "length",
    "near_duplicate",
    "clean_voice",
)  # of filter V

OF_RULE = ("version", "reason")  # filters that narrow a rule's samples, and nothing without one


def domain_choices() -> list[tuple[str, str]]:
    return [("", "every domain"), *Domain.objects.values_list("slug", "title")]


class SampleFilters(forms.Form):
    """The filters of the samples page; an unknown value is ignored rather than refused."""

    q = forms.CharField(required=False, max_length=200)
    branch = forms.ChoiceField(choices=[("", "any branch"), *SynthesisRun.Branch.choices], required=False)
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    rule = forms.CharField(required=False, max_length=200)
    style = forms.ChoiceField(choices=[("", "any style"), *Sample.Style.choices], required=False)
    tier = forms.ChoiceField(choices=[("", "any tier"), *Sample.Tier.choices], required=False)
    machine = forms.ChoiceField(choices=[("", "any machine status"), *Sample.Machine.choices], required=False)
    human = forms.ChoiceField(choices=[("", "any human status"), *Sample.Human.choices], required=False)
    approved_how = forms.ChoiceField(choices=[("", "approved anyhow"), *Sample.How.choices], required=False)
    writer = forms.ChoiceField(
        choices=[("", "any writer"), *((name, name) for name in WRITERS)], required=False
    )
    run = forms.IntegerField(required=False, min_value=1, max_value=2**62)
    version = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)  # of the rule
    reason = forms.ChoiceField(choices=list(REASONS.items()), required=False)  # of a rule's rejected samples
    outcome = forms.ChoiceField(
        choices=[
            ("", "any outcome"),
            ("filtered", "an attempt refused by filter V"),
            ("judged_out", "an attempt refused by judge J"),
            ("error", "an attempt with an error"),
        ],
        required=False,
    )
    check = forms.ChoiceField(choices=[("", "any check"), *((name, name) for name in CHECKS)], required=False)
    axis = forms.ChoiceField(choices=[("", "any axis"), *((name, name) for name in AXES)], required=False)
    error = forms.CharField(required=False, max_length=60)
    tries = forms.ChoiceField(
        choices=[("", "any number of tries"), ("first", "tried"), ("again", "tried again")], required=False
    )
    stale = forms.ChoiceField(
        choices=[
            ("", "stale or not"),
            ("content", "stale: rule or tools changed"),
            ("outdated", "outdated: prompt or model changed"),
            ("current", "as it would be written now"),
        ],
        required=False,
    )

    def chosen(self, names: str) -> list[forms.BoundField]:
        return [self[name] for name in names.split()]

    @property
    def always(self) -> list[forms.BoundField]:
        return self.chosen("branch domain style tier machine human approved_how writer")

    @property
    def of_attempts(self) -> list[forms.BoundField]:
        return self.chosen("outcome check axis tries stale")

    @property
    def opened(self) -> bool:
        """Whether a filter behind the disclosure narrows."""
        return bool({"outcome", "check", "axis", "tries", "stale", "error"} & set(self.values()))

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
    branch = forms.ChoiceField(choices=[("", "any branch"), *SynthesisRun.Branch.choices], required=False)
    style = forms.ChoiceField(choices=[("", "any style"), *Sample.Style.choices], required=False)
    tier = forms.ChoiceField(choices=[("", "any tier"), *Sample.Tier.choices], required=False)
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


class BudgetForm(forms.Form):
    """New limits of a run that goes on; what is left empty stays as it is."""

    calls = forms.IntegerField(required=False, min_value=1, max_value=MOST_SPENT)
    tokens = forms.IntegerField(required=False, min_value=1, max_value=MOST_SPENT)
    money = forms.FloatField(required=False, min_value=0, max_value=MOST_SPENT)

    def limits(self) -> dict[str, Any]:
        """Raises TraceError for what is no number; the service judges the numbers."""
        if not self.is_valid():
            name = next(iter(self.errors))
            raise TraceError(
                "is no number a budget can have.",
                code="bad_option",
                where=f"budget.{name}",
                hint=f"Use digits, at most {MOST_SPENT:,}, or leave it empty.",
            )
        return {name: value for name, value in self.cleaned_data.items() if value is not None}
