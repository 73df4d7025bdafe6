"""Fragments of the rule editor, fetched while one types. None of them writes."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from catalog.selectors_search import ToolFilter, find_tools
from rules import selectors
from rules.book import rule_key
from rules.core.findings import has_errors
from rules.core.sentences import compare, follow, said, say
from rules.forms import RuleForm, form_words
from rules.live import check_draft
from rules.models import Rule
from rules.selectors_editor import found_tools, named_first, tool_set
from rules.views_editor import fields_context
from trace_site.impact import impact_of

FOUND = 12


@require_POST
def rule_check(request: HttpRequest) -> HttpResponse:
    """Findings and problems, each with the field or row it belongs to, and what is out of step."""
    form = RuleForm.read(request.POST)
    rule = _rule(request.POST.get("rule", ""))
    draft = form.content()
    checked = check_draft(draft, code="" if rule else form.code, own=rule_key(rule) if rule else None)
    context = {
        "form": form,
        "findings": [(finding, _field(finding.place.pointer, form)) for finding in checked.findings],
        "problems": [
            (form_words({"pointer": pointer, "message": sentence}), _field(pointer, form))
            for pointer, sentence in checked.problems
        ],
        "blocked": has_errors(checked.findings),
        "sentences": {} if form.is_too_long else _sentences(form),
        "untouched": not any((form.text, form.clauses, form.tests)),
    }
    return render(request, "rules/_findings.html", context)


@require_POST
def confusables(request: HttpRequest) -> HttpResponse:
    """The set: chosen look-alikes, what could join them, and all descriptions side by side."""
    form = RuleForm.read(request.POST)
    return render(
        request,
        "rules/_set.html",
        {"form": form, "set": tool_set(form.target, form.confusables), "swap": True},
    )


@require_POST
def fields(request: HttpRequest) -> HttpResponse:
    """The fields filled with what is posted: a copy that the browser kept comes back."""
    form = RuleForm.read(request.POST)
    return render(
        request, "rules/_fields.html", {**fields_context(form), "rule": _rule(request.POST.get("rule", ""))}
    )


@require_POST
def sentence_fix(request: HttpRequest) -> JsonResponse:
    """`say`: a clause's row; answers {edit: [start, end, words]} or {why}. Else {clauses: [row or null, ...]}."""
    form = RuleForm.read(request.POST)
    if form.is_too_long:
        return JsonResponse({"edit": None, "clauses": []})
    row = request.POST.get("say", "")
    if row.isdecimal() and int(row) in form.clause_rows:
        edit = say(form.text, form.clauses, form.clause_rows.index(int(row)), form.names)
        return JsonResponse({"edit": [edit.start, edit.end, edit.words] if edit else None})
    told = follow(form.text, form.clauses, form.names, form.target)
    rows: list[int | None] = [*form.clause_rows, *[None] * (len(told) - len(form.clauses))]
    before = [*form.clauses, *[None] * (len(told) - len(form.clauses))]
    changed = [
        {"row": row, **clause} for row, clause, old in zip(rows, told, before, strict=True) if clause != old
    ]
    return JsonResponse({"clauses": changed})


@require_GET
def tool_search(request: HttpRequest) -> HttpResponse:
    """Options for what is being typed, with their cosine to the target."""
    typed = request.GET.get("q", "").strip()
    target = request.GET.get("target", "")
    rows = find_tools(ToolFilter(search=typed), size=FOUND).page.rows if typed else []
    found = found_tools(named_first(rows, typed), target)
    return render(request, "rules/_options.html", {"found": found})


@require_GET
def rule_impact(request: HttpRequest, pk: int) -> HttpResponse:
    """What publishing another version makes stale."""
    lines = [line for line in impact_of("rules", [selectors.rule(pk).pk]) if line.count]
    return render(request, "rules/_impact.html", {"lines": lines})


def _rule(given: str) -> Rule | None:
    return Rule.objects.filter(pk=int(given)).first() if given.isdecimal() and len(given) < 19 else None


def _field(pointer: str, form: RuleForm) -> str:
    """The field or row that a JSON pointer of the exchange format means in this form; "" for the rule as a whole."""
    name, _, rest = pointer.lstrip("/").partition("/")
    number = rest.split("/")[0]
    rows = {"clauses": form.clause_rows, "tests": form.test_rows}.get(name)
    if rows is not None and number.isdecimal() and int(number) < len(rows):
        return f"{name.removesuffix('s')}-{rows[int(number)]}"
    fields = {"tool_name": "target", "code": "code", "confusables": "set", "rule_text": "text"}
    return fields.get(name, "")


def _sentences(form: RuleForm) -> dict[str, Any]:
    found = compare(form.text, form.clauses, form.names)
    rows = form.clause_rows
    return {
        "offered": found.offered,
        "differing": [(rows[number], sentence) for number, sentence in found.differing.items()],
        "unsaid": [(rows[number], bool(said(form.clauses[number], form.names))) for number in found.unsaid],
        "free": [
            rows[number]
            for number in range(len(rows))
            if number not in {*found.agreed, *found.differing, *found.unsaid}
            and said(form.clauses[number], form.names)
        ],
    }
