"""How good the readings are: agreement of readers, the judge against people, each reviewer."""

from dataclasses import asdict
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from synthesis.core.acceptance import AQLS
from synthesis.core.agreement import DRAWS, FEWEST, FLOOR, RELIABLE, SEED, TARGET, TENTATIVE, Estimate, Rate
from synthesis.models import ReviewItem, Sample
from synthesis.quality.agreement import Figures, agreements, only_own, qualities
from synthesis.quality.calibration import MOST, calibration_draw, calibration_withdraw, calibrations
from synthesis.quality.second import Place, share_table, shares_set
from trace_site.lib.cells import csv_lines
from trace_site.lib.charts import Bar, BarChart, bar_chart
from trace_site.lib.errors import TraceError

TONES = {"reliable": "good", "tentative": "warn", "unreliable": "bad"}
METHOD = {"draws": DRAWS, "seed": SEED, "fewest": FEWEST, "reliable": RELIABLE, "tentative": TENTATIVE}


class JudgeForm(forms.Form):
    """What the proposal aims at; what cannot be is ignored."""

    target = forms.FloatField(min_value=0.1, max_value=50, required=False)
    floor = forms.FloatField(min_value=0, max_value=100, required=False)
    edits = forms.ChoiceField(choices=[("approve", "approve"), ("reject", "reject")], required=False)

    def chosen(self) -> dict[str, Any]:
        self.is_valid()
        given = self.cleaned_data
        target, floor = given.get("target"), given.get("floor")
        return {
            "target": TARGET if target is None else target / 100,
            "floor": FLOOR if floor is None else floor / 100,
            "strict": given.get("edits") == "reject",
        }


class DrawForm(forms.Form):
    count = forms.IntegerField(min_value=1, max_value=MOST, initial=30)
    seed = forms.IntegerField(min_value=0, max_value=2**31, required=False)
    judge = forms.CharField(max_length=250, required=False)
    domain = forms.CharField(max_length=60, required=False)
    kind = forms.CharField(max_length=14, required=False)


@require_GET
def quality(request: HttpRequest) -> HttpResponse:
    report = agreements(reviewer=only_own(request.user))
    context = {"report": report, "charts": agreement_charts(report), "method": METHOD, "part": "agreement"}
    return render(request, "synthesis/quality.html", context)


@require_GET
def quality_judge(request: HttpRequest) -> HttpResponse:
    chosen = JudgeForm(request.GET).chosen()
    judges = calibrations(**chosen)
    drawn = ReviewItem.objects.filter(calibration=True)
    waiting = drawn.filter(state__in=[ReviewItem.State.OPEN, ReviewItem.State.CLAIMED]).count()
    for judge in judges:
        judge["chart"] = false_accept_chart(judge, chosen["target"])
    cells = [cell for judge in judges for cell in judge["cells"]]
    refused = sum(judge["overall"]["refused"]["samples"] for judge in judges)
    context = {
        "judges": judges,
        "waiting": waiting,
        "unread": refused - drawn.exclude(state=ReviewItem.State.WITHDRAWN).count(),
        "domains": sorted({cell["domain"] for cell in cells}),
        "kinds": sorted({cell["kind"] for cell in cells}),
        "chosen": chosen,
        "target": f"{100 * chosen['target']:g}",
        "floor": f"{100 * chosen['floor']:g}",
        "aql": max((aql for aql in AQLS if aql <= 100 * chosen["target"]), default=AQLS[0]),
        "most": MOST,
        "part": "judge",
    }
    return render(request, "synthesis/quality_judge.html", context)


@require_GET
def quality_reviewers(request: HttpRequest) -> HttpResponse:
    own = only_own(request.user)
    context = {"rows": qualities(own), "own": own is not None, "part": "reviewers"}
    return render(request, "synthesis/quality_reviewers.html", context)


@require_POST
def draw(request: HttpRequest) -> HttpResponse:
    form = DrawForm(request.POST)
    if not form.is_valid():
        name, problems = next(iter(form.errors.items()))
        messages.error(request, f"{name}: {problems[0]}")
        return redirect("synthesis:quality_judge")
    try:
        found = calibration_draw(actor=request.user, **form.cleaned_data)
    except TraceError as error:
        messages.error(request, str(error))
    else:
        said = "{drawn} of {of} refused samples are in the queue now, drawn with seed {seed}.".format(**found)
        messages.success(request, f"{said} Nobody is shown which they are.")
    return redirect("synthesis:quality_judge")


@require_POST
def withdraw(request: HttpRequest) -> HttpResponse:
    count = calibration_withdraw(actor=request.user)
    messages.success(request, f"{count} items that nobody had opened were taken out of the queue.")
    return redirect("synthesis:quality_judge")


def agreement_charts(report: Figures) -> list[BarChart]:
    charts = []
    for what, rows in (("style or tier", report["styles"]), ("domain", report["domains"])):
        bars = []
        for row in rows:
            alpha, n = row["alpha"], row["n"]
            tone = TONES.get(alpha.verdict, "wait")
            bars.append(Bar(row["name"], alpha.value, alpha.low, alpha.high, n, tone, note=alpha.verdict))
        title = f"How far two blind readings agree beyond chance, by {what} (alpha)"
        charts += [bar_chart(title, bars)] if bars else []
    return charts


def false_accept_chart(judge: Figures, target: float) -> BarChart | None:
    """Every domain and kind of which something was read."""
    bars = []
    for row in judge["cells"]:
        if read := row["accepted"]["read"]:
            rate = row["false_accept"]
            tone = "warn" if rate.high > target else "good"
            value, low, high = (100 * part for part in (rate.value, rate.low, rate.high))
            bars.append(Bar(f"{row['domain']} {row['kind']}", value, low, high, read, tone))
    title = f"Per cent of what the judge accepts that people reject; the target is {100 * target:g}"
    return bar_chart(title, bars, top=None) if bars else None


@require_GET
def quality_csv(request: HttpRequest, table: str) -> HttpResponse:
    """The rows of one part for a spreadsheet; a cell that could be a formula begins with an apostrophe."""
    if table == "agreement":
        report = agreements(reviewer=only_own(request.user))
        groups = {"all": [report["overall"]], "domain": report["domains"], "style": report["styles"]}
        rows = [{"of": of, **row} for of, found in groups.items() for row in found]
    elif table == "pairs":
        rows = agreements(reviewer=only_own(request.user))["pairs"]
    elif table == "reviewers":
        rows = qualities(only_own(request.user))
    elif table == "judge":
        rows = [
            {"judge": judge["judge"], **row}
            for judge in calibrations(**JudgeForm(request.GET).chosen())
            for row in (judge["overall"], *judge["domains"], *judge["kinds"], *judge["cells"])
        ]
    else:
        raise Http404
    flat = [_flat(row) for row in rows]
    return HttpResponse(
        csv_lines(flat[0], (row.values() for row in flat)) if flat else "",
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="quality-{table}.csv"'},
    )


def _flat(row: Figures, before: str = "") -> dict[str, Any]:
    """{"alpha": {"low": 0.5}} -> {"alpha_low": 0.5}."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Estimate | Rate):
            value = asdict(value)
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{name}_")
        else:
            found[f"{before}{name}"] = value
    return found


# The settings page of second readings: a share per domain and style.


@require_http_methods(["GET", "POST"])
def second_shares(request: HttpRequest) -> HttpResponse:
    """What was typed stays when it is refused."""
    changed, wrong = typed(request)
    if request.method == "POST" and not wrong:
        try:
            count = shares_set(shares=changed, actor=request.user)
        except TraceError as error:
            wrong = error.extra["places"]
        else:
            said = f"{count} share{'' if count == 1 else 's'} changed; readings from now on follow."
            messages.success(request, said if count else "Nothing was changed.")
            return redirect("synthesis:second_shares")
    rows = share_table()
    for row in rows:
        for cell in row["cells"]:
            name = f"{row['slug']}|{cell['style']}"
            own = "" if cell["own"] is None else f"{100 * cell['own']:g}"
            value = request.POST.get(f"share|{name}", own)
            cell |= {"name": name, "was": own, "value": value, "inherited": f"{100 * cell['share']:g}"}
            cell["problem"] = wrong.get((row["slug"], cell["style"]), "")
    context = {"rows": rows, "all": rows[0]["cells"][0], "styles": Sample.Style.labels, "wrong": wrong}
    return render(request, "synthesis/quality_shares.html", context, status=422 if wrong else 200)


def typed(request: HttpRequest) -> tuple[dict[Place, float | None], dict[Place, str]]:
    """({place: the share}, {place: what is wrong}) of the cells the person changed: not what another has meanwhile."""
    changed: dict[Place, float | None] = {}
    wrong: dict[Place, str] = {}
    for name, text in request.POST.items():
        kind, _, place = name.partition("|")
        domain, _, style = place.partition("|")
        given = str(text).strip().removesuffix("%").strip().replace(",", ".")
        if kind != "share" or given == request.POST.get(f"was|{place}", ""):
            continue
        try:
            changed[domain, style] = float(given) / 100 if given else None
        except ValueError:
            wrong[domain, style] = f"'{given[:20]}' is no number."
    return changed, wrong
