"""Reads of the prompts page: every prompt as its file says now, what it said before, and what was made with each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count

from catalog.models import LabelledQuery
from synthesis.llm.prompts import PromptSource, prompt_sources
from synthesis.models import PromptVersion, Sample
from trace_site.lib.files import content_hash

PURPOSE = {
    "query_rule": "Writes the queries of a rule, a batch a call.",
    "query_rrb": "Writes a query for a tool of the catalog.",
    "trace": "Writes the reasoning from a query to its tools.",
    "judge": "Scores a sample on four axes.",
}
STAGE = {"query_rule": "query", "query_rrb": "query", "trace": "trace", "judge": "judge"}
SHOWN_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's file today. `first_used` is None before a run used it; `versions` counts the texts before it."""

    now: PromptSource
    purpose: str
    first_used: datetime | None
    versions: int


def prompts() -> list[Prompt]:
    rows = PromptVersion.objects.values_list("name", "hash", "first_used")
    used = {digest: at for _, digest, at in rows}
    return [
        Prompt(
            one,
            PURPOSE[one.name],
            used.get(one.hash),
            sum(name == one.name and digest != one.hash for name, digest, _ in rows),
        )
        for one in prompt_sources()
    ]


def earlier_versions(prompt: PromptSource) -> list[PromptVersion]:
    """The texts this prompt had before, the newest first."""
    rows = PromptVersion.objects.filter(name=prompt.name).exclude(hash=prompt.hash)
    return list(rows.order_by("-first_used")[:SHOWN_VERSIONS])


def samples_by_prompt(name: str) -> dict[str, int]:
    """{hash of the prompt: samples written with it}."""
    path = f"made_from__stages__{STAGE[name]}"
    rows = Sample.objects.exclude(machine=Sample.Machine.PENDING).filter(**{f"{path}__prompt": name})
    counted = rows.order_by().values_list(f"{path}__prompt_hash").annotate(n=Count("pk"))
    return {str(digest): count for digest, count in counted}


SHOWN_TO = """
SELECT shot, count(*) FROM synthesis_sample, jsonb_array_elements_text(made_from #> '{stages,query,few_shot}') AS shot
WHERE machine <> 'pending' AND jsonb_typeof(made_from #> '{stages,query,few_shot}') = 'array' AND shot = ANY(%s)
GROUP BY shot"""


def few_shot_counts(pks: Sequence[int]) -> dict[int, int]:
    """{few-shot query: samples whose writer was shown it}."""
    rows = LabelledQuery.objects.filter(pk__in=pks, use=LabelledQuery.Use.FEW_SHOT)
    marks = {pk: content_hash(text)[:12] for pk, text in rows.values_list("pk", "text")}
    with connection.cursor() as cursor:
        cursor.execute(SHOWN_TO, [list(marks.values())])
        counts: dict[str, int] = dict(cursor.fetchall())
    return {pk: counts.get(mark, 0) for pk, mark in marks.items()}
