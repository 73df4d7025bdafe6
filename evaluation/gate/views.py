"""The gate: one report slice by slice, and asking for one."""

from collections.abc import Iterable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from evaluation.core import gate
from evaluation.core.gate import FAIL, Gate, GateRow
from evaluation.core.metrics import ALL
from evaluation.core.paired import CANNOT_TELL
from evaluation.gate.selectors import answers, groups_moved, headline, outdated, reports
from evaluation.gate.services import gate_request
from trace_site.lib.errors import TraceError
from training.models import Model
from training.registry.selectors import standing

SHOWN = {
    "": "in short",
    "every": "every slice",
    **{verdict: verdict for verdict in (gate.FAIL, CANNOT_TELL, gate.PASS)},
}


@require_GET
def gate_report(request: HttpRequest, pk: int) -> HttpResponse:
    """?show: SHOWN; in short: all domains together, and whatever failed."""
    report = get_object_or_404(reports(), pk=pk)
    found, show = Gate.of(report.report), request.GET.get("show", "")
    show = show if show in SHOWN else ""
    stands = standing()
    champion = stands.move.model_id if stands.move else None
    context = {
        "report": report,
        "gate": found,
        "said": headline(report),
        "answers": answers(found, report.candidate_id, report.champion_id),
        "show": show,
        "shown": list(SHOWN.items()),
        "parts": [
            (title, parts)
            for title, opponent in (
                ("Against the champion", gate.CHAMPION),
                ("Against the plain embedding", gate.EMBEDDING),
            )
            if (parts := _shown(found.slices, opponent, show))
        ],
        "rules": sorted(
            found.rules, key=lambda rule: (rule.word != "worse", rule.word != "better", rule.code)
        ),
        "moves": list(report.moves),
        "standing": stands,
        "champion_now": champion,
        "is_champion": report.candidate_id == champion,
        "other_champion": champion not in (report.champion_id, report.candidate_id),
        "outdated": outdated(report),
        "moved": groups_moved(report),
        "level": round(100 * (1 - 2 * found.alpha)),
        "once": round(1 / found.alpha),
    }
    return render(request, "evaluation/gate_report.html", context)


def _shown(rows: Iterable[GateRow], opponent: str, show: str) -> list[GateRow]:
    return [
        row
        for row in rows
        if row.opponent == opponent
        and (
            row.verdict == show if show in gate.VERDICTS else show or row.domain == ALL or row.verdict == FAIL
        )
    ]


@require_POST
def gate_start(request: HttpRequest, pk: int) -> HttpResponse:
    """Queue the gate of a model, and back to its page, which follows the job."""
    model = get_object_or_404(Model.objects.select_related("run"), pk=pk)
    try:
        job = gate_request(candidate=model, actor=request.user)
        messages.success(request, f"Job {job.pk} measures what is missing and makes the report.")
    except TraceError as error:
        messages.error(request, str(error))
    return redirect("training:model", pk)
