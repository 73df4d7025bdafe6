"""What a reason of staleness looks like to a reader: both texts of a prompt or a tool, the rule versions to compare."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.urls import reverse

from catalog.models import Tool, ToolRevision
from synthesis.core.keys import tool_mark
from synthesis.core.queries import ToolText
from synthesis.core.reasons import Reason
from synthesis.models import PromptVersion, Sample
from synthesis.writers.prompts import source

MOST_REVISIONS = 50  # of one tool that are looked through


@dataclass(frozen=True, slots=True)
class Shown:
    """A reason; both texts where they are known and differ, else a link to where they can be compared."""

    reason: Reason
    before: str = ""
    after: str = ""
    url: str = ""


def shown(sample: Sample, reasons: Sequence[Reason]) -> list[Shown]:
    """At most one query for prompts and two for tools."""
    prompts = _prompts(reasons)
    tools = _tools([reason for reason in reasons if reason.kind == "tool" and reason.was])
    found = []
    for reason in reasons:
        before, after = prompts.get(reason.was, ("", "")) if reason.kind == "prompt" else ("", "")
        if reason.kind == "tool":
            before, after = tools.get(reason.what, ("", ""))
        found.append(Shown(reason, before, after, _url(sample, reason)))
    return found


def _url(sample: Sample, reason: Reason) -> str:
    if reason.kind == "rule" and sample.rule_version and reason.was:
        numbers = int(reason.was.removeprefix("v")), int(reason.now.removeprefix("v"))
        return reverse("rules:compare", args=[sample.rule_version.rule_id, *numbers])
    return ""


def _prompts(reasons: Iterable[Reason]) -> dict[str, tuple[str, str]]:
    """{old hash: (its text, the text now)}"""
    wanted = {reason.was: reason.what for reason in reasons if reason.kind == "prompt"}
    rows = PromptVersion.objects.filter(hash__in=wanted) if wanted else PromptVersion.objects.none()
    return {row.hash: (row.source, source(wanted[row.hash].removesuffix(".jinja"))) for row in rows}


def _tools(reasons: Sequence[Reason]) -> dict[str, tuple[str, str]]:
    """{tool: (what it said by the mark kept, what it says now)}, from its revisions."""
    if not reasons:
        return {}
    marks = {reason.what: reason.was.partition("+")[0] for reason in reasons}
    now = dict(Tool.objects.filter(name__in=marks).values_list("name", "description"))
    found: dict[str, tuple[str, str]] = {}
    revisions = ToolRevision.objects.filter(tool__name__in=marks).order_by("-id")
    for data in revisions.values_list("data", flat=True)[: MOST_REVISIONS * len(marks)]:
        text = ToolText(data["name"], data["description"], tuple(data["permissions"]), data["deprecated"])
        if tool_mark(text) == marks.get(text.name):
            found.setdefault(text.name, (text.description, now.get(text.name, "")))
    return found
