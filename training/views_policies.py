"""Retraining: each policy, what it would train now and why, what keeps it from starting, and what it started."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from synthesis.core.snapshot_words import REASONS
from trace_site.lib.errors import TraceError
from training import policy as services
from training import prospects as reads
from training.forms_policies import PolicyForm, initial_of
from training.models import RetrainPolicy
from training.selectors_retraining import standing


@require_GET
def policy_list(request: HttpRequest) -> HttpResponse:
    """Every policy as it stands; the snapshot each would build is counted by a fragment."""
    rows = [standing(policy) for policy in RetrainPolicy.objects.select_related("changed_by")]
    history = reads.history()
    return render(request, "training/policy_list.html", {"rows": rows, "history": history})


@require_GET
def policy_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: the snapshot the policy would build now, and which stages it would reuse."""
    policy = get_object_or_404(RetrainPolicy, pk=pk)
    context: dict[str, Any] = {"policy": policy, "why": REASONS}
    try:
        context |= reads.would_train(policy)
    except TraceError as error:
        context["error"] = error
    return render(request, "training/_policy_preview.html", context)


@require_GET
def policy_samples(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: the newest of the samples that count as new."""
    policy = get_object_or_404(RetrainPolicy, pk=pk)
    return render(
        request, "training/_policy_samples.html", {"policy": policy, **reads.newest_samples(policy)}
    )


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
