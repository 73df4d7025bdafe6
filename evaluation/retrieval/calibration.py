"""How far a model's answers can be trusted: fitted on its answers to the development benchmarks, asked for with each
answer that is served, and counted on the benchmarks of requests that no tool answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from evaluation.benchmarks.selectors import newest_benchmarks
from evaluation.core import confidence, report
from evaluation.core.confidence import AnswerVerdict, Fit
from evaluation.models import Answer, Benchmark, Calibration, Evaluation
from trace_site.jobs import JobContext
from training.models import Model

Decode = Evaluation.Decode
REQUESTS = (Benchmark.Kind.PRB, Benchmark.Kind.OUTSIDE)
DECODES = (Decode.FAST, Decode.TRACE)  # the two that are served
HOW = "import requests with benchmark_import --part development and --kind outside, then evaluate the model."
NOT_CALIBRATED = f"This model is not calibrated: {HOW}"
NOTHING_REFUSED = (
    "Nothing is refused yet: import requests that no tool answers with benchmark_import --kind outside "
    "--part development, then evaluate the model."
)
NO_TOOL_FITS = "No tool fits this request; a tool that is named is only the nearest."
WITHHELD_FIRST = "The tool that fits this request best needs a permission that this call does not have."
NEWER_FIRST = "How sure to be of a tool that is newer than the model is not known."
UNLEARNED_FIRST = "How sure to be of a clause that the model has not learned is not known."
UNREAD = "How sure to be of a request that the model cannot read whole is not known."
NO_MODEL = "Plain search does not say how sure it is."
UNKNOWN = AnswerVerdict()


def judged(known: Mapping[str, Fit], decode: str, features: Mapping[str, Any]) -> tuple[AnswerVerdict, str]:
    """What is said beside an answer, and why a part of it is not known, or "". `known`: {decode: fit} of the model. A
    way of answering that was never calibrated is judged by the ranking, while its list begins with the same tool.
    Where no tool fits there is no first tool to be sure of."""
    found = known.get(decode) or known.get(Decode.FAST)
    verdict = found.verdict(features) if found else UNKNOWN
    if decode not in known and not features.get("agrees"):
        verdict = replace(verdict, confidence=None)
    if verdict.confidence is None and verdict.fits is None:
        return UNKNOWN, NOT_CALIBRATED
    if verdict.fits is False:
        verdict = replace(verdict, confidence=None)
    return verdict, NOTHING_REFUSED if verdict.fits is None else ""


def calibrate(ctx: JobContext, model: Model) -> None:
    """Fit anew what was fitted on other answers than the newest development benchmarks have now."""
    for decode in DECODES:
        made = development(model, decode)
        keys = sorted(row.key for row in made)
        old = Calibration.objects.filter(model=model, decode=decode).first()
        if keys == (old.development if old else []):
            continue
        fresh = fitted(model, decode, made)
        with ctx.guard(), transaction.atomic():
            Calibration.objects.filter(model=model, decode=decode).delete()
            if fresh is not None:
                fresh.development = keys
                fresh.save()
    count_refusals(ctx, model)


def development(model: Model, decode: str) -> list[Evaluation]:
    """The model's finished evaluations on the newest development benchmarks of requests."""
    chosen = [row for row in newest_benchmarks() if row.is_development and row.kind in REQUESTS]
    found = Evaluation.objects.filter(model=model, decode=decode, benchmark__in=chosen, metrics__isnull=False)
    return list({row.benchmark_id: row for row in found.order_by("pk")}.values())


def fitted(model: Model, decode: str, made: Sequence[Evaluation]) -> Calibration | None:
    """None with too few answers to learn from."""
    stored = Answer.objects.filter(evaluation__in=made).order_by("item")
    rows = [
        (output["features"], bool(gold), first_is_right(output["tools"], gold))
        for output, gold in stored.values_list("output", "item__data__tools")
        if output.get("features")
    ]
    inside = [has_tool for _, has_tool, _ in rows]
    found = confidence.fit([features for features, _, _ in rows], inside, [right for *_, right in rows])
    if found is None:
        return None
    return Calibration(
        model=model,
        decode=decode,
        features=found.names,
        fit=found.as_dict(),
        threshold=found.threshold,
        n=len(rows),
        n_outside=len(rows) - sum(inside),
    )


def first_is_right(found: Sequence[str], gold: Sequence[str]) -> bool:
    return bool(found) and found[0] in gold


def count_refusals(ctx: JobContext, model: Model) -> None:
    """Write into every evaluation on outside requests which of them are refused now, where that is known. The
    development half gets no figure: the threshold was chosen on it."""
    fits = {
        row.decode: Fit.of(row.fit)
        for row in Calibration.objects.filter(model=model, threshold__isnull=False)
    }
    outside = Evaluation.objects.filter(
        model=model, benchmark__kind=Benchmark.Kind.OUTSIDE, metrics__isnull=False
    )
    for evaluation in outside.select_related("benchmark"):
        answers = list(Answer.objects.filter(evaluation=evaluation).select_related("item"))
        fit = fits.get(evaluation.decode)
        for row in answers:
            verdict = fit.verdict(row.output.get("features") or {}) if fit else UNKNOWN
            row.scores = {} if verdict.fits is None else {"refused": float(not verdict.fits)}
        rows = [{**row.output, "id": str(row.item_id)} for row in answers]
        items = [{"id": str(row.item_id), "domain": row.item.domain} for row in answers]
        shown = not evaluation.benchmark.is_development
        said = [row.scores.get("refused") if shown else None for row in answers]
        metrics = report.outside_report(rows, items, said)
        with ctx.guard(), transaction.atomic():
            Answer.objects.bulk_update(answers, ["scores"], batch_size=1000)
            Evaluation.objects.filter(pk=evaluation.pk).update(metrics=metrics)
