"""Forms of the team page."""

from typing import Any

from django import forms
from django.contrib.auth.models import User

from synthesis.assignments import MOST
from synthesis.selectors_team import reviewers


class AssignForm(forms.Form):
    """To whom, how many and why; which items is said by QueueFilters."""

    assignee = forms.ModelChoiceField(User.objects.none(), required=False, label="To", empty_label=None)
    count = forms.IntegerField(
        min_value=1,
        max_value=MOST,
        required=False,
        label="How many",
        widget=forms.NumberInput(attrs={"placeholder": "all"}),
    )
    note = forms.CharField(max_length=300, required=False, label="Note")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["assignee"].queryset = reviewers()  # type: ignore[attr-defined]

    @property
    def first_mistake(self) -> str:
        name, errors = next(iter(self.errors.items()))
        return f"{self.fields[name].label}: {errors[0]}"
