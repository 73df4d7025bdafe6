"""The form of the snapshot builder: composition, and a budget per domain."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django import forms

from catalog.models import Domain
from synthesis.models import SynthesisRun
from synthesis.samples.forms import domain_choices

LIMITS = {"rule": 1_000_000, "rrb": 1_000_000, "share": 100}


class BudgetRow(NamedTuple):
    """A domain with the fields of its limits."""

    slug: str
    fields: list[forms.BoundField]


class SnapshotForm(forms.Form):
    strategy = forms.ChoiceField(choices=[("append", "append"), ("replace", "replace")], initial="append")
    per_rule = forms.IntegerField(initial=12, min_value=0, max_value=10_000)
    branches = forms.MultipleChoiceField(
        choices=SynthesisRun.Branch.choices,
        initial=["rrb", "rule"],
        widget=forms.CheckboxSelectMultiple,
    )
    rrb = forms.IntegerField(min_value=0, max_value=1_000_000, required=False)
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    seed = forms.IntegerField(initial=0, min_value=0, max_value=2**53)
    strict = forms.BooleanField(required=False)
    licence = forms.CharField(required=False, max_length=100)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._domains = list(Domain.objects.values_list("slug", flat=True))
        for slug in self._domains:
            for name, most in LIMITS.items():
                field = forms.IntegerField(
                    required=False, min_value=0, max_value=most, label=f"{name} of {slug}"
                )
                field.widget.attrs |= {"aria-label": field.label, "placeholder": "all"}
                self.fields[f"{name}_of_{slug}"] = field

    def budget_rows(self) -> Iterator[BudgetRow]:
        return (BudgetRow(slug, [self[f"{name}_of_{slug}"] for name in LIMITS]) for slug in self._domains)

    @property
    def limited(self) -> bool:
        """Whether a domain has a budget as the form stands."""
        return any(field.value() not in (None, "") for row in self.budget_rows() for field in row.fields)

    def options(self) -> dict[str, Any]:
        """What `snapshot_start` and `preview` take; of a valid form."""
        given = dict(self.cleaned_data)
        budgets: dict[str, dict[str, int]] = {}
        for slug in self._domains:
            for name in LIMITS:
                if (number := given.pop(f"{name}_of_{slug}")) is not None:
                    budgets.setdefault(slug, {})[name] = number
        return {**given, "budgets": budgets}
