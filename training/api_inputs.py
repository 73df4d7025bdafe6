"""What the API reads about runs: what to start, and the filters of the list."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from synthesis.models import Snapshot
from trace_site.api_input import InputSerializer, few_values
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from training.core.recipe_fields import CELL
from training.models import Run
from training.selectors_curves import BUCKETS
from training.services import configured_bases, require_configured

NUMBER: dict[str, Any] = {"min_value": 1, "max_value": 2**31 - 1}


class RunIn(InputSerializer):
    """A cell on a snapshot. `recipe`: fields that differ from the base's default, as in recipes/*.yaml."""

    snapshot = serializers.IntegerField(**NUMBER, help_text="id of a frozen snapshot")
    base = serializers.CharField(
        default=lambda: configured_bases()[0],
        max_length=300,
        help_text="one of GET training/bases; without it the default one",
    )
    format = serializers.ChoiceField(Run.Format.choices)
    memo = serializers.ChoiceField(Run.Memo.choices, help_text="Stage 1")
    retrieval = serializers.ChoiceField(Run.Retrieval.choices, help_text="Stage 2")
    seed = serializers.IntegerField(default=0, min_value=0, max_value=2**53)
    recipe = serializers.JSONField(
        required=False, validators=[few_values], help_text="fields that differ from the default"
    )
    cloned_from = serializers.IntegerField(
        required=False, allow_null=True, **NUMBER, help_text="id of a run whose settings these are"
    )

    def validate_snapshot(self, value: int) -> Snapshot:
        if (found := Snapshot.objects.filter(pk=value).first()) is None:
            raise serializers.ValidationError(f"There is no snapshot {value}.")
        return found

    def validate_base(self, value: str) -> str:
        try:
            require_configured(value)
        except TraceError as error:
            raise serializers.ValidationError(f"{error.message} {error.hint}") from error
        return value

    def validate_cloned_from(self, value: int | None) -> Run | None:
        if value is not None and not Run.objects.filter(pk=value).exists():
            raise serializers.ValidationError(f"There is no run {value}.")
        return None if value is None else Run.objects.get(pk=value)

    def validate_recipe(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise serializers.ValidationError("Send an object.")
        if named := [name for name in CELL if name in value]:
            raise serializers.ValidationError(f"{named[0]} is a field of its own beside the recipe.")
        return value


class RunListIn(InputSerializer):
    """The filters of the runs page."""

    snapshot = serializers.IntegerField(required=False, **NUMBER)
    format = serializers.ChoiceField(Run.Format.choices, required=False)
    memo = serializers.ChoiceField(Run.Memo.choices, required=False)
    retrieval = serializers.ChoiceField(Run.Retrieval.choices, required=False)
    base = serializers.CharField(required=False, max_length=300)
    state = serializers.ChoiceField(Job.State.choices, required=False)
    why = serializers.ChoiceField(Run.Why.choices, required=False)
    by = serializers.CharField(required=False, max_length=150, help_text="username")


class MetricsIn(InputSerializer):
    points = serializers.IntegerField(
        default=BUCKETS, min_value=10, max_value=1000, help_text="the most points of a curve"
    )
