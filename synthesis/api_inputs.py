"""What the API reads about synthesis: options of a run, limits, and filters of lists."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from synthesis.budgets import MOST
from synthesis.core.queries import AXES
from synthesis.core.recipe import read_recipe
from synthesis.forms import CHECKS
from synthesis.models import Sample, SynthesisRun
from synthesis.options import ANCHORS, PER_RULE, WRITERS
from synthesis.staleness import LEVELS
from trace_site.api_input import InputSerializer, few_values, finite
from trace_site.jobs import Job

TEXT: dict[str, Any] = {"default": "", "allow_blank": True, "max_length": 200}
SPENT: dict[str, Any] = {"min_value": 0, "max_value": MOST}


class BudgetIn(InputSerializer):
    calls = serializers.IntegerField(required=False, allow_null=True, **SPENT)
    tokens = serializers.IntegerField(
        required=False, allow_null=True, **SPENT, help_text="prompts and answers together"
    )
    money = serializers.FloatField(
        required=False,
        allow_null=True,
        **SPENT,
        validators=[finite],
        help_text="in the currency of the endpoint's prices",
    )


class RunOptions(InputSerializer):
    """What a run may choose; what is left out takes its default."""

    branch = serializers.ChoiceField(choices=SynthesisRun.Branch.choices)
    writer = serializers.ChoiceField(choices=WRITERS, default="offline")
    domain = serializers.CharField(**TEXT, help_text="slug; empty means every domain")
    rule = serializers.CharField(
        **TEXT, help_text="code of one published rule; empty means all of the domain"
    )
    per_rule = serializers.IntegerField(
        default=12, min_value=1, max_value=PER_RULE, help_text="samples per rule, over the styles it supports"
    )
    anchors = serializers.IntegerField(
        default=100, min_value=1, max_value=ANCHORS, help_text="RRB samples, one anchor tool each"
    )
    seed = serializers.IntegerField(default=0, min_value=0, max_value=2**53)
    underspecified = serializers.BooleanField(default=False, help_text="also the fourth style")
    outdated = serializers.ChoiceField(
        choices=["rewrite", "keep"],
        default="rewrite",
        help_text="what to do with samples that are right but were written with other prompts or models",
    )
    budget = BudgetIn(required=False)
    recipe = serializers.JSONField(
        required=False,
        validators=[few_values],
        help_text="fields of the recipe that differ from the default, as in recipes/default.yaml",
    )

    def validate_recipe(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise serializers.ValidationError("Send an object.")
        return read_recipe(value)


class ResumeIn(InputSerializer):
    budget = BudgetIn(required=False, help_text="new limits in place of those named")


class RunListIn(InputSerializer):
    branch = serializers.ChoiceField(choices=SynthesisRun.Branch.choices, required=False)
    state = serializers.ChoiceField(choices=Job.State.choices, required=False)


class SliceIn(InputSerializer):
    domain = serializers.CharField(**TEXT)
    rule = serializers.CharField(**TEXT, help_text="code")
    style = serializers.ChoiceField(choices=Sample.Style.choices, default="")  # type: ignore[assignment]
    tier = serializers.ChoiceField(choices=Sample.Tier.choices, default="")
    by = serializers.ChoiceField(
        choices=["domain", "rule", "style"], default="", help_text="`groups` by this"
    )


class CallListIn(InputSerializer):
    error = serializers.CharField(required=False, max_length=60, help_text="an error code")
    purpose = serializers.CharField(required=False, max_length=20)


class SampleListIn(InputSerializer):
    """The filters of the samples page."""

    q = serializers.CharField(required=False, max_length=200, help_text="words of the query")
    run = serializers.IntegerField(required=False, min_value=1, max_value=2**62)
    branch = serializers.ChoiceField(choices=SynthesisRun.Branch.choices, required=False)
    domain = serializers.CharField(required=False, max_length=60)
    rule = serializers.CharField(required=False, max_length=200, help_text="code")
    style = serializers.ChoiceField(choices=Sample.Style.choices, required=False)  # type: ignore[assignment]
    tier = serializers.ChoiceField(choices=Sample.Tier.choices, required=False)
    machine = serializers.ChoiceField(choices=Sample.Machine.choices, required=False)
    human = serializers.ChoiceField(choices=Sample.Human.choices, required=False)
    approved_how = serializers.ChoiceField(choices=Sample.How.choices, required=False)
    writer = serializers.ChoiceField(choices=WRITERS, required=False)
    outcome = serializers.ChoiceField(
        choices=["filtered", "judged_out", "error"], required=False, help_text="of one of its attempts"
    )
    check = serializers.ChoiceField(choices=list(CHECKS), required=False, help_text="that refused an attempt")
    axis = serializers.ChoiceField(choices=list(AXES), required=False, help_text="that refused an attempt")
    error = serializers.CharField(required=False, max_length=60, help_text="error code of an attempt")
    tries = serializers.ChoiceField(choices=["first", "again"], required=False)
    stale = serializers.ChoiceField(choices=list(LEVELS), required=False)


class YieldIn(InputSerializer):
    domain = serializers.CharField(**TEXT)
    target = serializers.IntegerField(default=12, min_value=1, max_value=1000)
    show = serializers.ChoiceField(choices=["all", "below", "unsupported"], default="all")
