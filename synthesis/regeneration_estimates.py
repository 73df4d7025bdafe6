"""What writing rejected samples again would ask of models."""

from collections.abc import Iterable

from synthesis.estimates import RETRIES, Figure
from synthesis.models import SynthesisRun


def calls_to_write_again(waiting: Iterable[tuple[SynthesisRun, int, int]]) -> Figure:
    """waiting: (a run, how many of its samples, of how many the trace alone)."""
    asking = [(count, traces) for run, count, traces in waiting if run.writer.startswith("llm")]
    if not asking:
        return Figure(0, "the offline writers ask no model")
    kept = sum(traces for _, traces in asking)
    calls = RETRIES * sum(3 * count - traces for count, traces in asking)
    basis = "a query, a trace and a judge call each, a quarter more for retries"
    return Figure(round(calls), f"{basis}; {kept} keep their query" if kept else basis)
