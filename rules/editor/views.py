"""Pages of the rule editor: a new rule, a rule's next version, a change inside a request; saving and submitting."""

import json
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.search import ToolFilter, find_tools
from rules import selectors
from rules.book import rule_key, version_contents
from rules.changes.drafts import open_draft
from rules.changes.permits import words_on
from rules.changes.proposals import proposals_of, request_conflicts
from rules.changes.services import request_submit
from rules.core.check import has_errors
from rules.core.draft import draft_of, draft_problems, form_words, in_form_words
from rules.core.rule import PLAIN, pointed_row
from rules.core.sentences import compare, follow, said, say
from rules.editor import services
from rules.editor.selectors import (
    check_draft,
    drafts_beside,
    found_tools,
    my_requests,
    tool_names,
    tool_set,
)
from rules.editor.services import EditConflict, RuleForm
from rules.models import OPEN, Rule, RuleChange, State
from rules.suggestions.selectors import suggestion
from trace_site.impact import impact_of
from trace_site.lib.errors import TraceError, status_of
from trace_site.paging import number_of, numbers_of

FOUND = 12  # tools offered while one types
REMEMBERED = 20  # first saves of a session whose answer may have been lost


@require_http_methods(["GET", "POST"])
def rule_create(request: HttpRequest) -> HttpResponse:
    """The empty editor, or one filled with ?tools=1,2 or ?suggestion=1. Nothing is written before the first change."""
    if request.method == "POST":
        return _act(request, None)
    if suggested := number_of(request.GET.get("suggestion", "")):
        row = suggestion(suggested)
        form = RuleForm.of(row.content, domain=row.domain_id)
        return _editor(request, form, None, place=f"suggestion-{row.pk}")
    names = tool_names(numbers_of(request.GET.get("tools", "").split(",")))
    content = {"target": next(iter(names), ""), "confusables": names[1:]}
    form = RuleForm.of(content, domain=request.GET.get("domain", ""))
    return _editor(request, form, None, place=f"new?{request.GET.urlencode()}")


@require_http_methods(["GET", "POST"])
def rule_update(request: HttpRequest, pk: int) -> HttpResponse:
    """My draft of the rule, else its newest version; a draft is made at the first change."""
    rule = selectors.rule(pk)
    if request.method == "POST":
        return _act(request, rule)
    if draft := open_draft(rule, request.user):
        return redirect("rules:change", draft.pk)
    newest = selectors.newest_version(rule)
    if newest is None:
        raise Http404
    form = RuleForm.of(
        draft_of(version_contents([newest])[newest.pk]), domain=rule.domain_id, began=newest.number
    )
    return _editor(request, form, rule, place=f"rule-{pk}")


@require_http_methods(["GET", "POST"])
def change_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """One change of a request. What is applied or ended is read on the request's page."""
    change = services.open_change(pk)
    if request.method == "POST":
        return _act(request, change.rule)
    if change.request.state not in OPEN or change.action == RuleChange.Action.WITHDRAW:
        messages.info(request, "This change cannot be edited any more; here is what became of it.")
        return redirect("rules:request", change.request_id)
    domain = change.rule.domain_id if change.rule else change.domain
    saved = {"code": change.code, "note": change.note, "change": change.pk, "revision": change.revision}
    form = RuleForm.of(change.content, domain=domain, **saved)
    return _editor(request, form, change.rule, change=change)


@require_POST
def change_save(request: HttpRequest) -> JsonResponse:
    """Autosave: {change, revision, base, at, place, url}; 409 with the page's words when somebody saved meanwhile."""
    form = RuleForm.read(request.POST)
    rule = _rule(request)
    try:
        change = _save(request, form, rule)
    except EditConflict as clash:
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
    except EditConflict as clash:
        return _editor(request, form, rule, clash=clash, status=409)
    except TraceError as error:
        if (
            error.extra.get("change", form.change) == form.change
        ):  # else it speaks of another change of the request
            error = in_form_words(error)
        return _editor(request, form, rule, problem=error, status=status_of(error.code))


def _plain_save(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    return redirect("rules:change", _save(request, form, rule).pk)


def _keep(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    onto = number_of(request.POST.get("onto", ""))
    change = services.form_save(form=form, rule=rule, actor=request.user, onto=onto)
    messages.success(request, "Your changes were merged into the newer version.")
    return redirect("rules:change", change.pk)


def _rebase(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    change, overlaps = services.form_rebase(form=form, actor=request.user)
    both = f" Both changed {overlaps} of the same places; there yours was kept." if overlaps else ""
    messages.success(request, f"Your changes stand on top of {change.base or 'nothing'}.{both}")
    return redirect("rules:change", change.pk)


def _submit(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    """Save, then submit: what is refused is kept as the draft it was."""
    change = _save(request, form, rule)
    form.change, form.revision, form.base = change.pk, change.revision, change.content
    asked = request_submit(request=change.request, actor=request.user, revision=change.request.revision)
    messages.success(request, f"Submitted: {asked.title} waits for somebody else's approval.")
    return redirect("rules:request", asked.pk)


def _move(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    into = number_of(request.POST.get("into", ""))
    change = _save(request, form, rule)
    form.change, form.revision, form.base = change.pk, change.revision, change.content
    moved = services.draft_move(change=change, into=into, actor=request.user)
    messages.success(request, f"The change is now part of request {moved.request_id}.")
    return redirect("rules:change", moved.pk)


def _discard(request: HttpRequest, form: RuleForm, rule: Rule | None) -> HttpResponse:
    if form.change:
        services.draft_discard(form=form, actor=request.user)
    messages.success(request, "The draft is discarded.")
    return redirect("rules:detail", rule.pk) if rule else redirect("rules:list")


def _save(request: HttpRequest, form: RuleForm, rule: Rule | None) -> RuleChange:
    """Save; a page that saves for the first time again, having missed the answer, gets the draft it made."""
    token = request.POST.get("token", "")[:40]
    made: dict[str, int] = request.session.get("drafts_made", {})
    change = services.form_save(form=form, rule=rule, actor=request.user, made=made.get(token, 0))
    if token and not form.change and token not in made:
        request.session["drafts_made"] = dict([*made.items(), (token, change.pk)][-REMEMBERED:])
    return change


def _editor(
    request: HttpRequest, form: RuleForm, rule: Rule | None, *, status: int = 200, **extra: Any
) -> HttpResponse:
    change = extra.get("change") or (services.open_change(form.change) if form.change else None)
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
    conflicts = request_conflicts(change.request, [change], proposals_of([change]))
    return {
        "behind": any(conflict.since for conflict in conflicts),
        "conflicts": conflicts,
        "submitted": submitted,
        "approvals": sum(word.counts for word in words_on(change.request)) if submitted else 0,
        "many": change.request.changes.count(),
    }


def fields_context(form: RuleForm) -> dict[str, Any]:
    """What _fields.html shows; also used to put a copy from the browser back into the page."""
    return {
        "form": form,
        "base_json": json.dumps(form.base),
        "plain": [(name, one, form.draft.get(name, "")) for name, one in PLAIN.items()],
        "set": tool_set(form.draft["target"], form.draft["confusables"]),
        "clauses": zip(form.clause_rows, form.draft["clauses"], strict=True),
        "tests": zip(form.test_rows, form.draft["tests"], strict=True),
        "next_clause": max(form.clause_rows, default=-1) + 1,
        "next_test": max(form.test_rows, default=-1) + 1,
    }


# Fragments of the rule editor, fetched while one types. None of them writes.


@require_POST
def rule_check(request: HttpRequest) -> HttpResponse:
    """Findings and problems, each with the field or row it belongs to, and what is out of step."""
    form = RuleForm.read(request.POST)
    rule = _rule(request)
    draft = form.content()
    problems, findings = check_draft(
        draft, code="" if rule else form.code, own=rule_key(rule) if rule else None
    )
    context = {
        "form": form,
        "findings": [(finding, _field(finding.place.pointer, form)) for finding in findings],
        "problems": [
            (form_words({"pointer": pointer, "message": sentence}), _field(pointer, form))
            for pointer, sentence in problems
        ],
        "blocked": has_errors(findings),
        "sentences": {} if draft_problems(draft) else _sentences(form),
        "untouched": not any(form.draft[name] for name in ("text", "clauses", "tests")),
    }
    return render(request, "rules/_findings.html", context)


@require_POST
def confusables(request: HttpRequest) -> HttpResponse:
    """The set: chosen look-alikes, what could join them, and all descriptions side by side."""
    form = RuleForm.read(request.POST)
    return render(
        request,
        "rules/_set.html",
        {"form": form, "set": tool_set(form.draft["target"], form.draft["confusables"]), "swap": True},
    )


@require_POST
def fields(request: HttpRequest) -> HttpResponse:
    """The fields filled with what is posted: a copy that the browser kept comes back."""
    form = RuleForm.read(request.POST)
    return render(request, "rules/_fields.html", {**fields_context(form), "rule": _rule(request)})


@require_POST
def sentence_fix(request: HttpRequest) -> JsonResponse:
    """`say`: a clause's row; answers {edit: [start, end, words]} or {why}. Else {clauses: [row or null, ...]}."""
    form = RuleForm.read(request.POST)
    if draft_problems(form.content()):
        return JsonResponse({"edit": None, "clauses": []})
    rows_said = {str(row): number for number, row in enumerate(form.clause_rows)}
    text, clauses = form.draft["text"], form.draft["clauses"]
    if (number := rows_said.get(request.POST.get("say", ""))) is not None:
        edit = say(text, clauses, number, form.names)
        return JsonResponse({"edit": [edit.start, edit.end, edit.words] if edit else None})
    told = follow(text, clauses, form.names, form.draft["target"])
    missing = [None] * (len(told) - len(clauses))
    rows = zip([*form.clause_rows, *missing], [*clauses, *missing], told, strict=True)
    return JsonResponse({"clauses": [{"row": row, **new} for row, old, new in rows if new != old]})


@require_GET
def tool_search(request: HttpRequest) -> HttpResponse:
    """Options for what is being typed, with their cosine to the target."""
    typed = request.GET.get("q", "").strip()
    target = request.GET.get("target", "")
    rows = find_tools(ToolFilter(search=typed), size=FOUND).page.rows if typed else []
    return render(request, "rules/_options.html", {"found": found_tools(rows, typed, target)})


@require_GET
def rule_impact(request: HttpRequest, pk: int) -> HttpResponse:
    """What publishing another version makes stale."""
    lines = [line for line in impact_of("rules", [selectors.rule(pk).pk]) if line.count]
    return render(request, "rules/_impact.html", {"lines": lines})


def _rule(request: HttpRequest) -> Rule | None:
    return Rule.objects.filter(pk=number_of(request.POST.get("rule", ""))).first()


def _field(pointer: str, form: RuleForm) -> str:
    """The field or row that a JSON pointer of the exchange format means in this form; "" for the rule as a whole."""
    name, number = pointed_row(pointer)
    rows = {"clauses": form.clause_rows, "tests": form.test_rows}.get(name)
    if rows is not None and number is not None and number < len(rows):
        return f"{name.removesuffix('s')}-{rows[number]}"
    fields = {"tool_name": "target", "code": "code", "confusables": "set", "rule_text": "text"}
    plain = {one.key: f"plain-{name}" for name, one in PLAIN.items()}
    return (fields | plain).get(name, "")


def _sentences(form: RuleForm) -> dict[str, Any]:
    clauses, rows = form.draft["clauses"], form.clause_rows
    found = compare(form.draft["text"], clauses, form.names)
    return {
        "offered": found.offered,
        "differing": [(rows[number], sentence) for number, sentence in found.differing.items()],
        "unsaid": [(rows[number], bool(said(clauses[number], form.names))) for number in found.unsaid],
        "free": [
            rows[number]
            for number in range(len(rows))
            if number not in {*found.agreed, *found.differing, *found.unsaid}
            and said(clauses[number], form.names)
        ],
    }
