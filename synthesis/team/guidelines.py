"""How to review: a text and examples for all samples, a domain, a style, or a style of a domain. Every save is a new
version; old ones stay as they were.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import messages
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.models import Domain
from synthesis.models import Decision, Guideline, Sample
from synthesis.samples.forms import domain_choices
from synthesis.samples.rejections import REASONS
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError, status_of
from trace_site.paging import number_of


def current() -> QuerySet[Guideline]:
    """The version that counts of every guideline, the general one first."""
    newest = Guideline.objects.order_by(F("domain").asc(nulls_first=True), "style", "-number")
    return newest.distinct("domain", "style").select_related("domain", "author")


def versions_of(domain: str | None, style: str) -> QuerySet[Guideline]:
    """Newest first."""
    return Guideline.objects.filter(domain=domain or None, style=style).select_related("author", "domain")


def newest_of(domain: str | None, style: str) -> Guideline | None:
    """The version that counts."""
    return versions_of(domain, style).first()


def applying_to(domain: str, style: str) -> list[Guideline]:
    """What a reviewer of such a sample should know, the most specific first: at most four, one query."""
    rows = current().filter(Q(domain=None) | Q(domain=domain), style__in={style, ""})
    return sorted(rows, key=lambda row: (row.domain_id is None, row.style == ""))


LONGEST_TEXT = 20_000
MOST_EXAMPLES = 30
LONGEST = {"query": 2_000, "trace": 10_000, "why": 500}
VERDICTS = ("approve", "reject")


@transaction.atomic
def guideline_save(
    *, domain: str, style: str, text: str, examples: Iterable[Mapping[str, Any]] = (), author: Any, base: int
) -> Guideline:
    """A new version. domain, style: empty for all; base: the number of the version it was written from, 0 for none.
    Raises TraceError `bad_input`, `edited_meanwhile`; nothing is written when nothing changed.
    """
    if style and style not in Sample.Style.values:
        raise TraceError(f"there is no style {style!r}.", code="bad_input", where="style")
    if domain and not Domain.objects.filter(pk=domain).exists():
        raise TraceError(f"there is no domain {domain!r}.", code="bad_input", where="domain")
    text = text.replace("\r\n", "\n").strip()
    if len(text) > LONGEST_TEXT:
        message = f"it has {len(text):,} characters."
        raise TraceError(message, code="bad_input", where="text", hint="At most 20,000.")
    kept = [_example(number, example) for number, example in enumerate(examples, start=1)]
    if not text and not kept:
        raise TraceError("a guideline needs a text or an example.", code="bad_input", where="text")
    if len(kept) > MOST_EXAMPLES:
        raise TraceError(f"{len(kept)} are too many.", code="bad_input", where="examples", hint="At most 30.")
    last = newest_of(domain, style)
    if (last.number if last else 0) != base:
        raise _meanwhile(last)
    if last and (last.text, last.examples) == (text, kept):
        return last
    given = {"style": style, "number": base + 1, "text": text, "examples": kept, "author": author}
    try:
        with transaction.atomic():
            row = Guideline.objects.create(domain_id=domain or None, **given)
    except IntegrityError as error:  # somebody saved in the same moment
        raise _meanwhile(newest_of(domain, style)) from error
    audit_models.record(actor=author, action="guideline.saved", obj=row, detail={"number": row.number})
    return row


@transaction.atomic
def example_copy(*, sample: Sample, actor: Any) -> Guideline:
    """Add a decided sample to the guideline of its domain and style, as a new version; the first if there is none.
    Raises TraceError `bad_state` for a sample that is not decided.
    """
    human = Sample.Human
    verdict = {human.APPROVED: "approve", human.REJECTED: "reject"}.get(human(sample.human))
    if verdict is None:
        raise TraceError("it is not decided yet.", code="bad_state", where=f"sample {sample.pk}")
    last = newest_of(sample.domain_id, sample.style)
    examples: list[dict[str, Any]] = list(last.examples) if last else []
    if last and any(example.get("sample") == sample.pk for example in examples):
        return last
    decisions = Decision.objects.filter(sample=sample).exclude(verdict=Decision.Verdict.UNDO)
    said = decisions.order_by("-pk").first()
    why = ": ".join(filter(None, (REASONS.get(said.reason, said.reason), said.note))) if said else ""
    texts = {"query": sample.query, "trace": sample.trace, "why": why}
    example = {name: text[: LONGEST[name]] for name, text in texts.items()}
    examples.append({**example, "verdict": verdict, "answer": sample.answer, "sample": sample.pk})
    given = {"domain": sample.domain_id, "style": sample.style, "text": last.text if last else ""}
    base = last.number if last else 0
    return guideline_save(**given, examples=examples, author=actor, base=base)


def _meanwhile(last: Guideline | None) -> TraceError:
    who = f"{last.author} saved version {last.number}" if last else "it was taken away"
    return TraceError(
        f"{who} meanwhile.",
        code="edited_meanwhile",
        where="guideline",
        hint="What you typed is still here: compare, then save again.",
        extra={"current": last.number if last else 0},
    )


def _example(number: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """One example as it is stored: {verdict, query, trace, answer, why, sample?}."""
    where = f"example {number}"
    if given.get("verdict") not in VERDICTS:
        raise TraceError("say whether it is approved or rejected.", code="bad_input", where=where)
    kept: dict[str, Any] = {"verdict": given["verdict"]}
    for name, longest in LONGEST.items():
        kept[name] = str(given.get(name) or "").replace("\r\n", "\n").strip()
        if len(kept[name]) > longest:
            hint = f"At most {longest:,} characters."
            raise TraceError(f"its {name} is too long.", code="bad_input", where=where, hint=hint)
    if not kept["query"]:
        raise TraceError("an example needs a query.", code="bad_input", where=where)
    kept["answer"] = [str(name).strip()[:300] for name in given.get("answer") or [] if str(name).strip()][:20]
    if isinstance(given.get("sample"), int):
        kept["sample"] = given["sample"]
    return kept


EXAMPLE_FIELD = re.compile(r"example-(\d{1,4})-verdict")


@require_GET
def guideline_list(request: HttpRequest) -> HttpResponse:
    context = {"guidelines": current(), "domains": domain_choices(), "styles": Sample.Style.choices}
    return render(request, "synthesis/guidelines.html", context)


@require_GET
def guideline_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One version, and what it changed."""
    row = get_object_or_404(Guideline.objects.select_related("domain", "author"), pk=pk)
    versions = list(versions_of(row.domain_id, row.style))
    before = next((other for other in versions if other.number < row.number), None)
    context = {"guideline": row, "versions": versions, "before": before}
    context["is_current"] = versions[0].pk == row.pk
    return render(request, "synthesis/guideline.html", context)


@require_GET
def guideline_pane(request: HttpRequest) -> HttpResponse:
    """Fragment: what holds for a ?domain= and ?style=, the most specific first."""
    found = applying_to(request.GET.get("domain", ""), request.GET.get("style", ""))
    return render(request, "synthesis/_guideline_pane.html", {"guidelines": found})


@require_http_methods(["GET", "POST"])
def guideline_edit(request: HttpRequest) -> HttpResponse:
    """The editor of ?domain= and ?style=; every save is a new version."""
    domain, style = request.GET.get("domain", ""), request.GET.get("style", "")
    last = newest_of(domain, style)
    error: TraceError | None = None
    typed: dict[str, Any] = {"text": "", "examples": [], "base": 0}
    if request.method == "POST":
        base = number_of(request.POST.get("base", ""), digits=9)
        typed = {"text": request.POST.get("text", ""), "examples": _examples(request), "base": base}
        try:
            row = guideline_save(domain=domain, style=style, author=request.user, **typed)
        except TraceError as refused:
            error = refused
            # the next save is made knowing what the other one said
            typed["base"] = error.extra.get("current", base)
        else:
            messages.success(request, f"Saved as version {row.number}.")
            return redirect("synthesis:guideline", row.pk)
    elif last:
        typed = {"text": last.text, "examples": last.examples, "base": last.number}
    other = last if error and error.code == "edited_meanwhile" else None
    title = dict(domain_choices()).get(domain, domain) if domain else ""
    context = {"domain": title, "style": style, **typed, "error": error, "other": other}
    status = status_of(error.code) if error else 200
    return render(request, "synthesis/guideline_form.html", context, status=status)


def _examples(request: HttpRequest) -> list[dict[str, Any]]:
    """The rows of the form in their order; a row of which nothing was filled in is none."""
    numbers = sorted(int(found[1]) for name in request.POST if (found := EXAMPLE_FIELD.fullmatch(name)))
    rows = []
    for number in numbers:
        names = ("verdict", "query", "trace", "why", "answer", "sample")
        row: dict[str, Any] = {name: request.POST.get(f"example-{number}-{name}", "") for name in names}
        row |= {"answer": row["answer"].split(";"), "sample": number_of(row["sample"]) or None}
        if any(row[name].strip() for name in ("query", "trace", "why")):
            rows.append(row)
    return rows


@require_POST
def guideline_example(request: HttpRequest, pk: int) -> HttpResponse:
    """Copy a decided sample into the guideline of its domain and style."""
    sample = get_object_or_404(Sample, pk=pk)
    row = example_copy(sample=sample, actor=request.user)
    messages.success(request, f"Sample {pk} is an example in version {row.number} of this guideline.")
    return redirect("synthesis:guideline", row.pk)
