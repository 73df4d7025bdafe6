"""What the API answers about runs: progress, funnel, estimates and books."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from synthesis.core.queries import WRITERS
from synthesis.core.recipe import read_recipe
from synthesis.generate.selectors import tell_counts
from synthesis.generate.services import ANCHORS, PER_RULE
from synthesis.llm.ledger import MOST_SPENT
from synthesis.models import Sample, SynthesisRun
from trace_site.jobs import Job
from trace_site.rest.schema import InputSerializer, Out, TextList, few_values, finite


class Counted(Out):
    name = serializers.CharField()
    count = serializers.IntegerField()


class Progress(Out):
    """Of a run's job. `rate`: samples a second; `seconds_left`: null when unknown."""

    state = serializers.CharField()
    done = serializers.IntegerField()
    total = serializers.IntegerField()
    rate = serializers.FloatField()
    seconds_left = serializers.IntegerField(allow_null=True)
    error = serializers.CharField()
    error_code = serializers.CharField()


# an example of it
JOB = {
    "state": "running",
    "done": 9,
    "total": 12,
    "rate": 1.5,
    "seconds_left": 2,
    "error": "",
    "error_code": "",
}


class RunRows(serializers.ListSerializer[Any]):
    """Counts once for all rows."""

    def to_representation(self, data: Any) -> Any:
        rows = list(data)
        tell_counts(rows)
        return super().to_representation(rows)


class RunRow(Out):
    class Meta:
        list_serializer_class = RunRows

    id = serializers.IntegerField(source="pk")
    branch = serializers.ChoiceField(SynthesisRun.Branch.choices)
    writer = serializers.CharField(help_text="offline, or llm:model")
    domain = serializers.CharField(source="params.domain", default="")
    rule = serializers.CharField(source="params.rule", default="")
    seed = serializers.IntegerField()
    job = Progress(allow_null=True)
    planned = serializers.IntegerField()
    ready = serializers.IntegerField()
    dropped = serializers.IntegerField()
    approved = serializers.IntegerField()
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()


class FunnelCounts(Out):
    """`filtered`, `judged_out`, `errors` and `retries` count attempts, the rest samples.

    A run that is done has `planned` = `ready` + `dropped` + those given up.
    """

    planned = serializers.IntegerField()
    written = serializers.IntegerField()
    attempts = serializers.IntegerField()
    filtered = serializers.IntegerField()
    judged_out = serializers.IntegerField()
    errors = serializers.IntegerField()  # type: ignore[assignment]
    retries = serializers.IntegerField()
    ready = serializers.IntegerField()
    dropped = serializers.IntegerField()
    approved = serializers.IntegerField()
    rejected = serializers.IntegerField()


class FunnelGroup(FunnelCounts):
    domain = serializers.CharField(source="slice.domain")
    rule = serializers.CharField(source="slice.rule")
    style = serializers.CharField(source="slice.style")  # type: ignore[assignment]
    tier = serializers.CharField(source="slice.tier")


class FunnelOut(Out):
    total = FunnelCounts()
    checks = Counted(many=True, help_text="attempts that each check of filter V refused")
    axes = Counted(many=True, help_text="attempts that scored too low on each axis of judge J")
    errors = Counted(many=True, help_text="attempts by error code")  # type: ignore[assignment]
    given_up = Counted(
        many=True, help_text="planned samples of the whole run that are not written any more, by reason"
    )
    groups = FunnelGroup(many=True, help_text="by what `by` names; empty without it")


class Skipped(Out):
    rule = serializers.CharField(default="")
    style = serializers.CharField()  # type: ignore[assignment]
    reason = serializers.CharField()


class Spent(Out):
    calls = serializers.IntegerField()
    tokens = serializers.IntegerField()
    money = serializers.FloatField()


class RunDetail(Out):
    run = RunRow()
    next_step = serializers.CharField(help_text="what to do about a run that stopped")
    started_with = serializers.JSONField(help_text="recipe, budget, models and other options")
    spent = Spent()
    skipped = Skipped(many=True, help_text="styles that rules cannot support")
    funnel = FunnelOut()


class FigureOut(Out):
    value = serializers.FloatField(allow_null=True, help_text="null: unknown")
    basis = serializers.CharField(help_text="what it rests on")


class PlanRow(Out):
    domain = serializers.CharField()
    rule = serializers.CharField()
    style = serializers.CharField(help_text="or tier")  # type: ignore[assignment]
    new = serializers.IntegerField()
    content_stale = serializers.IntegerField()
    outdated = serializers.IntegerField()
    kept = serializers.IntegerField()
    skipped = serializers.CharField(help_text="why the style is not written, if so")


class PlanOut(Out):
    """`content_stale`: rule or tools changed. `outdated`: only prompt, model or recipe did. `samples`: to write."""

    new = serializers.IntegerField()
    content_stale = serializers.IntegerField(default=0)
    outdated = serializers.IntegerField(default=0)
    kept = serializers.IntegerField(default=0)
    skipped = serializers.IntegerField(help_text="styles that rules cannot support")
    samples = serializers.IntegerField()
    rows = PlanRow(many=True)


class EstimateOut(Out):
    samples = FigureOut()
    calls = FigureOut()
    tokens = FigureOut()
    money = FigureOut()
    seconds = FigureOut()
    plan = PlanOut()
    over = TextList(help_text="what the budget does not cover")


class BookLine(Out):
    """`p50` and `p95`: seconds of answered calls."""

    purpose = serializers.CharField()
    model = serializers.CharField()
    calls = serializers.IntegerField()
    answered = serializers.IntegerField()
    failed = serializers.IntegerField()
    under_way = serializers.IntegerField()
    lost = serializers.IntegerField(help_text="sent by a process that died")
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    cost = serializers.FloatField()
    p50 = serializers.FloatField()
    p95 = serializers.FloatField()


class BooksOut(Out):
    total = BookLine()
    lines = BookLine(many=True, help_text="one per purpose and model")
    errors = Counted(many=True)  # type: ignore[assignment]
    error_texts = serializers.DictField(
        child=serializers.CharField(), help_text="what the server said of one of them, by error code"
    )


class Call(Out):
    """One exchange of the ledger. `uid` went out as X-Client-Request-Id."""

    uid = serializers.UUIDField()
    purpose = serializers.CharField()
    endpoint = serializers.CharField()
    model = serializers.CharField()
    prompt_hash = serializers.CharField()
    state = serializers.CharField()
    error_code = serializers.CharField()
    error_text = serializers.CharField(help_text="the server's own sentence; empty where it answered")
    unwrapped = serializers.BooleanField(help_text="the answer stood in a wrapping, which was taken off")
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    cost = serializers.FloatField()
    seconds = serializers.FloatField()
    sent_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


# What the API reads about synthesis: options of a run, limits, and filters of lists.


TEXT: dict[str, Any] = {"default": "", "allow_blank": True, "max_length": 200}
SPENT: dict[str, Any] = {"min_value": 0, "max_value": MOST_SPENT}


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


class YieldIn(InputSerializer):
    domain = serializers.CharField(**TEXT)
    target = serializers.IntegerField(default=12, min_value=1, max_value=1000)
    show = serializers.ChoiceField(choices=["all", "below", "unsupported"], default="all")
