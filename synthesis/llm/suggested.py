"""Suggested rules as a language model words them: one call each, under a strict schema, checked before it counts.

An answer may name only the tools that it was shown; every quote must stand in a description; the checks of the rule
editor must find no error. Whatever fails that keeps the words it had. Calls stand in the ledger of the run's job and
count against its budget, as those of every run do.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catalog.core.mentions import NameFinder
from catalog.selectors import tools_by_name
from rules.book import CatalogNames, cached_book, content_problems
from rules.core.check import check_rule
from rules.core.draft import content_of, fill_draft
from rules.models import RuleSuggestion
from rules.suggestions.services import Worded
from synthesis.core.queries import ToolText
from synthesis.llm.ledger import DatabaseLedger, read_budget, spent
from synthesis.llm.prompts import prompt_hash, render, source
from synthesis.llm.writers import TEXT, Call, closed_object, endpoints
from synthesis.models import PromptVersion
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import FATAL, Endpoint
from trace_site.lib.llm.limiter import Budget

PROMPT = "suggest_rule"
MAX_TOKENS = 1500
MOST_FAILURES = 10  # failing requests that are shown
AT_ONCE = 32  # questions asked together; progress is told between
LONGEST_QUOTE = 400


def worded(
    job: Job | None,
    rows: Sequence[RuleSuggestion],
    limits: Mapping[str, Any],
    progress: Callable[[int], None],
) -> list[Worded]:
    """One for each row, in order. Raises TraceError for what would fail alike for all: no endpoint, no budget at all.

    What is beyond the budget is refused one by one: what was paid for is kept.
    """
    endpoint, most = endpoints()["generator"], read_budget(limits)
    if not rows:
        asyncio.run(_asked(endpoint, None, Budget(), []))  # says what is not configured
        return []
    texts = _texts(rows)
    known = PromptVersion(hash=prompt_hash(PROMPT), name=PROMPT, source=source(PROMPT))
    PromptVersion.objects.bulk_create([known], ignore_conflicts=True)
    writer, found = f"llm:{endpoint.model}"[:120], list[Worded]()
    for start in range(0, len(rows), AT_ONCE):
        progress(start)
        some = rows[start : start + AT_ONCE]
        budget = Budget(**most, spent=spent(job) if job else None)  # type: ignore[arg-type]
        questions = [suggestion_call(row, texts).arguments() for row in some]
        answers = asyncio.run(_asked(endpoint, job, budget, questions))
        found += [_checked(row, answer, texts, writer) for row, answer in zip(some, answers, strict=True)]
    progress(len(rows))
    return found


async def _asked(
    endpoint: Endpoint, job: Job | None, budget: Budget, questions: Sequence[dict[str, Any]]
) -> list[dict[str, Any] | TraceError]:
    """The answers, or why there is none. What fails alike for all is raised, but for a budget that is used up."""
    ledger = DatabaseLedger(job)
    client = Client(endpoint, ledger=ledger, budget=budget)

    async def ask(question: dict[str, Any]) -> dict[str, Any] | TraceError:
        try:
            return (await client.ask(**question)).data
        except TraceError as error:
            if error.code in FATAL and error.code != "llm_budget":
                raise
            return error

    try:
        return await asyncio.gather(*map(ask, questions))
    finally:
        await client.close()
        ledger.close()


def _named(row: RuleSuggestion) -> list[str]:
    return [row.content["target"], *row.content["confusables"]]


def suggestion_call(row: RuleSuggestion, texts: Mapping[str, ToolText] | None = None) -> Call:
    """What is asked about a suggestion."""
    known = texts if texts is not None else _texts([row])
    names = [name for name in _named(row) if name in known]
    text = render(
        PROMPT,
        id=_shown(row),
        tools=[known[name] for name in names],
        target=row.content["target"],
        confusables=row.content["confusables"],
        why=row.why,
        draft=row.content["text"],
        failures=[one for one in row.failures if one["query"]][:MOST_FAILURES],
    )
    return Call(PROMPT, text, schema(names), 0.0, MAX_TOKENS)


def _texts(rows: Sequence[RuleSuggestion]) -> dict[str, ToolText]:
    tools = tools_by_name(sorted({name for row in rows for name in _named(row)}))
    return {
        name: ToolText(name, tool.description, tuple(tool.permissions), tool.deprecated)
        for name, tool in tools.items()
    }


def _shown(row: RuleSuggestion) -> str:
    """The id that the answer repeats: of what is asked, so that the same question is never paid for twice."""
    return content_hash([row.content, row.why, row.failures])[:12]


def schema(names: Sequence[str]) -> dict[str, Any]:
    """Of the answer: no tool but these can be named in its fields."""
    tool = {"type": "string", "enum": list(names)}
    clause = closed_object(when=TEXT, route_to=tool, exception={"type": "boolean"})
    return closed_object(
        id=TEXT,
        needed={"type": "boolean"},
        reason=TEXT,
        target=tool,
        confusables={"type": "array", "items": tool, "minItems": 1},
        text=TEXT,
        clauses={"type": "array", "items": clause},
        quotes={"type": "array", "items": closed_object(tool=tool, words=TEXT)},
    )


def _checked(
    row: RuleSuggestion, answer: dict[str, Any] | TraceError, texts: Mapping[str, ToolText], writer: str
) -> Worded:
    """`refused` is a code: of the endpoint's error, or of the check that the answer fails."""
    if isinstance(answer, TraceError):
        return Worded(writer, refused=answer.code)
    if answer["id"] != _shown(row):
        return Worded(writer, refused="other_id")
    if not answer["needed"]:
        reason = " ".join(answer["reason"].split())[:500]
        return Worded(writer, doubt=reason) if reason else Worded(writer, refused="no_reason")
    content = fill_draft(
        {
            "target": answer["target"],
            "confusables": [
                name for name in dict.fromkeys(answer["confusables"]) if name != answer["target"]
            ],
            "text": answer["text"].strip(),
            "clauses": answer["clauses"],
        }
    )
    mistake = _mistake(row, answer, content, texts)
    return Worded(writer, refused=mistake) if mistake else Worded(writer, content)


def _mistake(
    row: RuleSuggestion, answer: dict[str, Any], content: dict[str, Any], texts: Mapping[str, ToolText]
) -> str:
    """Why the answer must not be used; empty where it may."""
    said = content_of(content)
    held = {said.target, *said.confusables}
    named = {name for _, _, name in NameFinder(cached_book().tools.states).find(said.text)}
    if said.target != row.content["target"]:
        return "other_tools"
    if not named <= held:
        return "outside_set"
    if not answer["quotes"] or not all(_stands(quote, texts) for quote in answer["quotes"]):
        return "false_quote"
    if content_problems(said, CatalogNames(name for _, name in said.names()), domain=row.domain_id):
        return "bad_rule"
    found = check_rule(said, cached_book())
    wrong = [finding.code for finding in found if finding.level == "error"]
    wrong += [finding.code for finding in found if finding.code == "unknown_name"]
    return wrong[0] if wrong else ""


def _stands(quote: Mapping[str, str], texts: Mapping[str, ToolText]) -> bool:
    """Whether the tool's description holds the words, but for blanks, case and the quotation marks around them."""
    words = " ".join(quote["words"].split()).strip("\"“”'").casefold()
    description = " ".join(texts[quote["tool"]].description.split()).casefold()
    return 0 < len(words) <= LONGEST_QUOTE and words in description
