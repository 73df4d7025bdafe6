"""Pages: one rule on its way to the model, all rules under way with what goes on by itself; fragments for others."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from evaluation.loop.selectors import courses, under_way
from rules.models import ChangeRequest, Rule, RuleVersion
from synthesis.generate.automatic import HIGHEST_LOAD, Writing, loop_save, standing
from synthesis.generate.services import PER_RULE
from synthesis.llm.ledger import LIMITS, MOST_SPENT
from synthesis.llm.writers import configured
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset
from trace_site.worker import load
from training.models import Model, RetrainPolicy
from training.retraining.selectors import QUEUE
from training.runs.job import evaluation_request

SIZE = 25


class LoopForm(forms.Form):
    """What goes on by itself. An empty limit is no limit of its kind; without any, no language model is asked."""

    write = forms.BooleanField(required=False, label="Write samples", help_text="that published rules lack")
    per_rule = forms.IntegerField(min_value=1, max_value=PER_RULE, label="Samples per rule")
    calls = forms.IntegerField(required=False, min_value=1, max_value=MOST_SPENT, label="Calls")
    tokens = forms.IntegerField(required=False, min_value=1, max_value=MOST_SPENT, label="Tokens")
    money = forms.FloatField(required=False, min_value=0.01, max_value=MOST_SPENT, label="Money")
    train = forms.BooleanField(required=False, label="Train", help_text="by the policies that are on")
    most_load = forms.FloatField(
        min_value=0,
        max_value=HIGHEST_LOAD,
        label="Load per core",
        help_text="no training starts by itself from this on; 0: not asked",
    )
    answer = forms.BooleanField(
        required=False,
        label="Answer by new clauses",
        help_text="as soon as a rule is published, before a model has learned it",
    )
    evaluate = forms.BooleanField(
        required=False,
        label="Evaluate and gate",
        help_text="each new model; and ask the champion the tests of new rules",
    )

    def options(self) -> dict[str, Any]:
        """What `loop_save` takes; of a valid form."""
        data = dict(self.cleaned_data)
        budget = {name: data.pop(name) for name in LIMITS}
        return {**data, "budget": {name: value for name, value in budget.items() if value is not None}}


def list_context(request: HttpRequest, form: LoopForm | None = None) -> dict[str, Any]:
    page = keyset(under_way(), request.GET.get("after", ""), newest=True, size=SIZE)
    found: Writing = standing()
    stored = found.settings
    own = {name: getattr(stored, name) for name in LoopForm.base_fields if hasattr(stored, name)}
    return {
        "page": page,
        "courses": courses(page.rows),
        "total": under_way().count(),
        "published": bool(page.rows) or Rule.objects.filter(published__isnull=False).exists(),
        "writing": found,
        "form": form or LoopForm(initial=own | {name: stored.budget.get(name) for name in LIMITS}),
        "llm": configured(),
        "load": load(QUEUE),
        "policies": RetrainPolicy.objects.order_by("-active", "pk"),
        "limits": [(name, found.settings.budget.get(name), found.left.get(name)) for name in LIMITS],
    }


@require_GET
def loop_list(request: HttpRequest) -> HttpResponse:
    """All published rules that the champion has not learned, and what goes on by itself."""
    return render(request, "loop/loop_list.html", list_context(request))


@require_POST
def loop_settings(request: HttpRequest) -> HttpResponse:
    form = LoopForm(request.POST)
    if form.is_valid():
        try:
            loop_save(actor=request.user, **form.options())
        except TraceError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "Saved. What is under way goes on.")
            return redirect("evaluation:loop")
    return render(request, "loop/loop_list.html", list_context(request, form), status=422)


@require_GET
def loop_version(request: HttpRequest, pk: int) -> HttpResponse:
    """One version of a rule: from your rule to the model."""
    return render(request, "loop/loop_version.html", version_context(pk))


@require_GET
def loop_version_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: its steps; asks again while something goes on by itself."""
    return render(request, "loop/_steps.html", version_context(pk))


def version_context(pk: int) -> dict[str, Any]:
    version = get_object_or_404(RuleVersion.objects.select_related("rule__domain", "author"), pk=pk)
    (course,) = courses([version])
    return {"course": course}


@require_GET
def loop_of_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page: how far its published version is."""
    rule = get_object_or_404(Rule.objects.only("published"), pk=rule_id)
    rows = RuleVersion.objects.filter(pk=rule.published_id or 0).select_related("rule", "author")
    return render(request, "loop/_of_versions.html", {"courses": courses(list(rows))})


@require_GET
def loop_of_request(request: HttpRequest, request_id: int) -> HttpResponse:
    """Fragment for a change request that was applied: how far each version is that it published."""
    change_request = get_object_or_404(ChangeRequest, pk=request_id)
    changes = change_request.changes.filter(version__isnull=False)
    rows = RuleVersion.objects.filter(pk__in=changes.values("version")).select_related("rule", "author")
    shown = list(rows.order_by("pk")[: SIZE + 1])
    context = {"courses": courses(shown[:SIZE]), "more": len(shown) > SIZE}
    return render(request, "loop/_of_versions.html", context)


@require_POST
def loop_evaluate(request: HttpRequest, model_id: int) -> HttpResponse:
    """Evaluate a model that nothing evaluated by itself."""
    model = get_object_or_404(Model.objects.select_related("run"), pk=model_id)
    job = evaluation_request(model=model, actor=request.user)
    messages.success(request, "The evaluation is queued; the gate speaks after it.")
    return redirect("jobs:detail", job.pk)
