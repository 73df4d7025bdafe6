"""Pages of the rule editor: a new rule, a rule's next version, a change inside a request; saving and submitting."""

import json
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from rules import editing, selectors
from rules.core.draft import draft_of
from rules.editing import Clash
from rules.forms import RuleForm, in_form_words
from rules.models import Rule, RuleChange
from rules.selectors_conflicts import request_conflicts
from rules.selectors_editor import drafts_beside, my_draft, my_requests, tool_names, tool_set
from rules.selectors_permits import OPEN, State, words_on
from trace_site.lib.errors import TraceError, status_of

REMEMBERED = 20  # first saves of a session whose answer may have been lost


@require_http_methods(["GET", "POST"])
def rule_create(request: HttpRequest) -> HttpResponse:
    """The empty editor, or one filled with ?tools=1,2. Nothing is written before the first change."""
    if request.method == "POST":
        return _act(request, None)
    ids = [
        int(part) for part in request.GET.get("tools", "").split(",") if part.isdecimal() and len(part) < 19
    ]
    names = tool_names(ids)
    content = {"target": next(iter(names), ""), "confusables": names[1:]}
    form = RuleForm.of(content, domain=request.GET.get("domain", ""))
    return _editor(request, form, None, place=f"new?{request.GET.urlencode()}")


@require_http_methods(["GET", "POST"])
def rule_update(request: HttpRequest, pk: int) -> HttpResponse:
    """My draft of the rule, else its newest version; a draft is made at the first change."""
    rule = selectors.rule(pk)
    if request.method == "POST":
        return _act(request, rule)
    if draft := my_draft(rule, request.user):
        return redirect("rules:change", draft.pk)
    newest = selectors.newest_version(rule)
    if newest is None:
        raise Http404
    form = RuleForm.of(draft_of(selectors.content(newest)), domain=rule.domain_id, began=newest.number)
    return _editor(request, form, rule, place=f"rule-{pk}")


@require_http_methods(["GET", "POST"])
def change_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """One change of a request. What is applied or ended is read on the request's page."""
    change = editing.open_change(pk)
    if request.method == "POST":
        return _act(request, change.rule)
    if change.request.state not in OPEN or change.action == RuleChange.Action.WITHDRAW:
        messages.info(request, "This change cannot be edited any more; here is what became of it.")
        return redirect("rules:request", change.request_id)
    return _editor(request, _form_of(change), change.rule, change=change)


@require_POST
def change_save(request: HttpRequest) -> JsonResponse:
    """Autosave: {change, revision, base, at, place, url}; 409 with the page's words when somebody saved meanwhile."""
    form = RuleForm.read(request.POST)
    rule = _rule_of(request)
    try:
        change = _save(request, form, rule)
    except Clash as clash:
        words = render_to_string("rules/_clash.html", {"clash": clash}, request)
        return JsonResponse({"code": "edited_meanwhile", "html": words}, status=409)
    except TraceError as error:
        told = in_form_words(error)
        return JsonResponse({"code": error.code, "message": str(told)}, status=status_of(error.code))
    return JsonResponse(
        {
            "change": change.pk,
            "revision": change.revision,
            "base": json.dumps(change.content),
            "at": change.edited_at.isoformat(),
            "place": f"change-{change.pk}",
            "url": reverse("rules:change", args=[change.pk]),
        }
    )


def _act(request: HttpRequest, rule: Rule | None) -> HttpResponse:
    """A pressed button; whatever is refused comes back with everything that was typed."""
    form = RuleForm.read(request.POST)
    verbs = {"keep": _keep, "rebase": _rebase, "submit": _submit, "move": _move, "discard": _discard}
    verb = verbs.get(request.POST.get("do", ""), _plain_save)
    try:
        return verb(request, form, rule)
    except Clash as clash:
        return _editor(request, form, rule, clash=clash, status=409)
    except TraceError as error:
        return _editor(request, form, rule, problem=_told(error, form), status=status_of(error.code))


def _told(error: TraceError, form: RuleForm) -> TraceError:
    """The refusal in the words of the form, unless it speaks of another change of the request."""
    return error if error.extra.get("change", form.change) != form.change else in_form_words(error)


def _plain_save(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    return redirect("rules:change", _save(request, form, rule).pk)


def _keep(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    onto = request.POST.get("onto", "")
    change = editing.form_keep(
        form=form, rule=rule, actor=request.user, onto=int(onto) if onto.isdecimal() else 0
    )
    messages.success(request, "Your changes stand on top of what was saved meanwhile.")
    return redirect("rules:change", change.pk)


def _rebase(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    change, overlaps = editing.form_rebase(form=form, actor=request.user)
    both = f" Both changed {overlaps} of the same places; there yours was kept." if overlaps else ""
    messages.success(request, f"Your changes stand on top of {change.base or 'nothing'}.{both}")
    return redirect("rules:change", change.pk)


def _submit(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    """Save, then submit: what is refused is kept as the draft it was."""
    change = _save(request, form, rule)
    form.change, form.revision, form.base = change.pk, change.revision, change.content
    asked = editing.form_submit(change=change, actor=request.user)
    messages.success(request, f"Submitted: {asked.title} waits for somebody else's approval.")
    return redirect("rules:request", asked.pk)


def _move(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    into = request.POST.get("into", "")
    change = _save(request, form, rule)
    form.change, form.revision, form.base = change.pk, change.revision, change.content
    moved = editing.draft_move(change=change, into=int(into) if into.isdecimal() else 0, actor=request.user)
    messages.success(request, f"The change is now part of request {moved.request_id}.")
    return redirect("rules:change", moved.pk)


def _discard(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    if form.change:
        editing.draft_discard(form=form, actor=request.user)
    messages.success(request, "The draft is discarded.")
    return redirect("rules:detail", rule.pk) if rule else redirect("rules:list")


def _save(request: HttpRequest, form: RuleForm, rule: Rule | None) -> RuleChange:
    """Save; a page that saves for the first time again, having missed the answer, gets the draft it made."""
    token = request.POST.get("token", "")[:40]
    made: dict[str, int] = request.session.get("drafts_made", {})
    change = editing.form_save(form=form, rule=rule, actor=request.user, made=made.get(token, 0))
    if token and not form.change and token not in made:
        request.session["drafts_made"] = dict([*made.items(), (token, change.pk)][-REMEMBERED:])
    return change


def _rule_of(request: HttpRequest) -> Rule | None:
    known = request.POST.get("rule", "")
    return Rule.objects.filter(pk=int(known)).first() if known.isdecimal() and len(known) < 19 else None


def _form_of(change: RuleChange) -> RuleForm:
    domain = change.rule.domain_id if change.rule else change.domain
    return RuleForm.of(
        change.content,
        domain=domain,
        code=change.code,
        note=change.note,
        change=change.pk,
        revision=change.revision,
    )


def _editor(
    request: HttpRequest, form: RuleForm, rule: Rule | None, *, status: int = 200, **extra: Any
) -> HttpResponse:
    change = extra.get("change") or (editing.open_change(form.change) if form.change else None)
    context = {
        "rule": rule,
        "change": change,
        "place": f"change-{form.change}",
        **fields_context(form),
        "requests": my_requests(request.user, change),
        **(_around(change) if change else {"others": drafts_beside(rule, request.user)}),
        **extra,
    }
    return render(request, "rules/rule_form.html", context, status=status)


def _around(change: RuleChange) -> dict[str, Any]:
    """What the request around a change means for editing it."""
    submitted = change.request.state != State.DRAFT
    return {
        "behind": editing.is_behind(change),
        "conflicts": request_conflicts(change.request, [change]),
        "submitted": submitted,
        "approvals": sum(word.counts for word in words_on(change.request)) if submitted else 0,
        "many": change.request.changes.count(),
    }


def fields_context(form: RuleForm) -> dict[str, Any]:
    """What _fields.html shows; also used to put a copy from the browser back into the page."""
    return {
        "form": form,
        "base_json": json.dumps(form.base),
        "set": tool_set(form.target, form.confusables),
        "next_clause": max(form.clause_rows, default=-1) + 1,
        "next_test": max(form.test_rows, default=-1) + 1,
    }
