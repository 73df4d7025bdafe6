"""The form of a retraining policy: the cell, what starts it, and how its snapshot is built."""

from typing import Any

import yaml
from django import forms

from synthesis.forms import domain_choices
from synthesis.models import SynthesisRun
from trace_site.lib.errors import TraceError
from trace_site.lib.small_yaml import LONGEST
from training.core.recipe import from_dict
from training.forms import BaseField
from training.models import RetrainPolicy, Run
from training.policy import LONGEST_QUIET
from training.services import read_yaml

MOST = 1_000_000
SNAPSHOT = ("strategy", "per_rule", "branches", "rrb", "domain", "strict", "snapshot_seed")


class PolicyForm(forms.Form):
    name = forms.CharField(max_length=100)
    base = BaseField()
    format = forms.ChoiceField(choices=Run.Format.choices, initial=Run.Format.FLAT)
    memo = forms.ChoiceField(
        choices=[(value, value) for value in Run.Memo.values], initial=Run.Memo.MEMO, label="Stage 1"
    )
    retrieval = forms.ChoiceField(
        choices=[(value, value) for value in Run.Retrieval.values if value != Run.Retrieval.NONE],
        initial=Run.Retrieval.RULES,
        label="Stage 2",
        help_text="only r+R learns what rules say: for the others changed rules start nothing",
    )
    seed = forms.IntegerField(initial=0, min_value=0, max_value=2**53)
    recipe = forms.CharField(
        required=False,
        max_length=LONGEST,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        label="Recipe fields",
        help_text="YAML, only what differs from the base's default: stage2: {epochs: 4}",
    )
    approved_samples = forms.IntegerField(
        initial=50, min_value=0, max_value=MOST, label="Approved samples", help_text="0: never by this"
    )
    changed_rules = forms.IntegerField(
        initial=1, min_value=0, max_value=MOST, label="Changed rules", help_text="0: never by this"
    )
    quiet_minutes = forms.IntegerField(
        initial=30,
        min_value=0,
        max_value=LONGEST_QUIET,
        label="Quiet minutes",
        help_text="without a change of rules, catalog or review before it starts",
    )
    strategy = forms.ChoiceField(choices=[("append", "append"), ("replace", "replace")], initial="append")
    per_rule = forms.IntegerField(initial=12, min_value=0, max_value=10_000, label="Samples per rule, k")
    branches = forms.MultipleChoiceField(
        choices=SynthesisRun.Branch.choices, initial=["rrb", "rule"], widget=forms.CheckboxSelectMultiple
    )
    rrb = forms.IntegerField(
        required=False, min_value=0, max_value=MOST, label="RRB samples", help_text="empty: all approved"
    )
    domain = forms.ChoiceField(choices=domain_choices, required=False)
    snapshot_seed = forms.IntegerField(initial=0, min_value=0, max_value=2**53, label="Seed of the draw")
    strict = forms.BooleanField(
        required=False, label="Strict: refuse to build when a sample repeats a benchmark query"
    )

    def clean_recipe(self) -> dict[str, Any]:
        """Only the fields that were typed, checked as a recipe."""
        try:
            typed = read_yaml(self.cleaned_data["recipe"], "recipe")
            from_dict(typed)
        except TraceError as error:
            raise forms.ValidationError(str(error)) from error
        return dict(typed)

    def options(self) -> dict[str, Any]:
        """What `policy_save` takes; of a valid form."""
        data = dict(self.cleaned_data)
        snapshot = {name: data.pop(name) for name in SNAPSHOT}
        snapshot["seed"] = snapshot.pop("snapshot_seed")
        return {**data, "snapshot": snapshot}


def initial_of(policy: RetrainPolicy) -> dict[str, Any]:
    """The form's values for a policy that is there."""
    own = {name: getattr(policy, name) for name in PolicyForm.base_fields if hasattr(policy, name)}
    held = dict(policy.snapshot)
    held["snapshot_seed"] = held.pop("seed", 0)
    text = yaml.safe_dump(policy.recipe, sort_keys=False) if policy.recipe else ""
    return own | {name: held[name] for name in SNAPSHOT if name in held} | {"recipe": text}
