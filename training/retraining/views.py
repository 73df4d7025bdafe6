"""Retraining: each policy, what it would train now and why, what keeps it from starting, and what it started."""

from typing import Any

import yaml
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.models import Tool
from synthesis.datasets.build import preview
from synthesis.datasets.files import catalog_now
from synthesis.models import SynthesisRun
from synthesis.samples.forms import domain_choices
from trace_site.lib.errors import TraceError
from trace_site.lib.small_yaml import LONGEST, read_small_yaml
from training.core import stages
from training.core.recipe import STAGES, Recipe, from_dict
from training.models import Retraining, RetrainPolicy, Run
from training.retraining import services
from training.retraining.selectors import last_of, new_samples, standing
from training.retraining.services import policy_recipe
from training.runs.estimates import Estimator, made_stages
from training.runs.forms import BaseField
from training.runs.services import plain_hash_of

# The form of a retraining policy: the cell, what starts it, and how its snapshot is built.

MOST = 1_000_000
LONGEST_QUIET = 7 * 24 * 60  # a week
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
            typed = read_small_yaml(self.cleaned_data["recipe"], "recipe")
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


# Reads behind the page of retraining: what a policy would freeze and train, and what policies started before.

SHOWN = 20
NEW = "not frozen yet"  # stands for the hash of a snapshot that is not there: no stage has been trained on it


def would_train(policy: RetrainPolicy) -> dict[str, Any]:
    """{"preview", "estimate"}: counted live, nothing is written. Raises TraceError."""
    counts, recipe = preview(**policy.snapshot), policy_recipe(policy)
    made = reused_stages(recipe, counts["plain"])
    tools = {"tools": Tool.objects.filter(status=Tool.Status.ACTIVE).count()}
    return {"preview": counts, "estimate": Estimator([recipe.base]).of(recipe, counts | tools, made)}


def reused_stages(recipe: Recipe, plain: list[int]) -> dict[str, int]:
    """{stage: the run whose stage is taken as it is}. plain: ids of the samples that are not of rules, in the order of
    the snapshot."""
    catalog = catalog_now()
    return made_stages(stages.steps(recipe, NEW, catalog, plain_hash_of(catalog, plain)))


@require_GET
def policy_list(request: HttpRequest) -> HttpResponse:
    """Every policy as it stands; the snapshot each would build is counted by a fragment."""
    rows = [standing(policy) for policy in RetrainPolicy.objects.select_related("changed_by")]
    started = Retraining.objects.select_related("policy", "run__job", "run__model", "actor")
    history = started.defer("run__log_tail", "run__model__card", "run__recipe")[:30]
    return render(request, "training/policy_list.html", {"rows": rows, "history": history})


@require_GET
def policy_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: the snapshot the policy would build now, and which stages it would reuse."""
    policy = get_object_or_404(RetrainPolicy, pk=pk)
    try:
        context: dict[str, Any] = {**would_train(policy), "names": STAGES}
    except TraceError as error:
        context = {"error": error}
    return render(request, "training/_policy_preview.html", context)


@require_GET
def policy_samples(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: the newest of the samples that count as new."""
    policy = get_object_or_404(RetrainPolicy, pk=pk)
    last, _ = last_of(policy)
    found = new_samples(policy, last)
    rows = found.select_related("rule_version__rule").only(
        "query", "branch", "domain", "approved_by", "rule_version__number", "rule_version__rule__code"
    )
    context = {"policy": policy, "samples": rows.order_by("-pk")[:SHOWN], "total": found.count()}
    return render(request, "training/_policy_samples.html", context)


@require_http_methods(["GET", "POST"])
def policy_edit(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Make a policy, or change one."""
    policy = get_object_or_404(RetrainPolicy, pk=pk) if pk else None
    form = PolicyForm(request.POST or None, initial=initial_of(policy) if policy else None)
    if request.method == "POST" and form.is_valid():
        try:
            saved = services.policy_save(policy=policy, actor=request.user, **form.options())
        except TraceError as error:
            form.add_error(
                error.where if error.where in form.fields else None, error.message + " " + error.hint
            )
        else:
            messages.success(request, f"{saved.name} is kept. It is {'on' if saved.active else 'off'}.")
            return redirect("training:policies")
    context = {"form": form, "policy": policy}
    return render(request, "training/policy_form.html", context, status=422 if form.errors else 200)


@require_POST
def policy_switch(request: HttpRequest, pk: int) -> HttpResponse:
    policy = get_object_or_404(RetrainPolicy, pk=pk)
    active = request.POST.get("active") == "on"
    services.policy_switch(policy=policy, active=active, actor=request.user)
    said = "on: it starts by itself when it is due" if active else "off: only a person starts it"
    messages.success(request, f"{policy.name} is {said}.")
    return redirect("training:policies")


@require_POST
def policy_start(request: HttpRequest, pk: int) -> HttpResponse:
    policy = get_object_or_404(RetrainPolicy, pk=pk)
    try:
        job = services.start(policy=policy, actor=request.user)
    except TraceError as error:
        messages.error(request, str(error))
        return redirect("training:policies")
    messages.success(request, "Started: the snapshot is built, then the run is queued.")
    return redirect("jobs:detail", job.pk)
