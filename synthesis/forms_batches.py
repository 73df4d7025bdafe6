"""The form of a new batch: which samples, and how sure one wants to be."""

from typing import Any

from django import forms

from synthesis.core.acceptance import AQLS, LEVELS
from synthesis.models import Sample


class BatchForm(forms.Form):
    rule = forms.CharField(max_length=200)
    style = forms.ChoiceField(choices=[("", "every style"), *Sample.Style.choices], required=False)
    level = forms.ChoiceField(choices=[(level, level) for level in LEVELS], initial="II")
    aql = forms.TypedChoiceField(
        choices=[(str(aql), f"{aql:g} %") for aql in AQLS], coerce=float, initial="1.0"
    )
    seed = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)

    def options(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("rule", "style", "level", "aql", "seed")}
