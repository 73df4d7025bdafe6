"""The offline query writer: a grammar over a rule's cases and the tools' descriptions, deterministic by seed.

`explicit` says the condition or purpose as the rule has it; `implicit` says what it means in everyday life (signals of
an expert's clause, hints, the tool's own purpose) and not the rule's words; `exception` follows a case that leads to a
confusable; `underspecified` leaves the deciding fact out. RRB queries ask for what the tools do.
"""

import random
from typing import Any

from synthesis.core.clauses import cases
from synthesis.core.queries import Clause, QueryDraft, QueryRequest, RuleText, ToolText, by_name
from synthesis.core.words import content_stems, words
from synthesis.writers import prose, signals
from synthesis.writers.offline_anchors import anchor_query
from synthesis.writers.typed import decisive, finished, sound
from trace_site.lib.errors import TraceError

DRAWS = 30
WORDS = (4, 30)


class OfflineQueryWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-queries-3"}

    async def write(self, request: QueryRequest) -> QueryDraft:
        """One query; draws again until it gives no name away and has a natural length."""
        rng = random.Random(f"{request.seed}|{request.attempt}")
        spare: QueryDraft | None = None
        for _ in range(DRAWS):
            draft = _rule_query(request, rng) if request.rule else anchor_query(request, rng)
            text = finished(draft.query, rng)
            draft = QueryDraft(text, draft.answer, draft.explanation)
            if WORDS[0] <= len(words(text)) <= WORDS[1] and sound(draft, request):
                return draft
            if spare is None and decisive(draft, request):
                spare = draft  # not sound in style or length, but true to its case
        return spare or draft


def _rule_query(request: QueryRequest, rng: random.Random) -> QueryDraft:
    """Follow one case of the rule, each in its turn."""
    rule, pool = _rule(request), by_name(request.pool)
    found = cases(rule, pool)
    leading = [one for one in found if (one.clause.route_to != rule.target) == (request.style == "exception")]
    if not leading:
        message = f"the rule {rule.code} supports no {request.style} query."
        raise TraceError(message, code="style_unsupported", where=rule.code, permanent=True)
    case = leading[request.index % len(leading)]
    rivals = [other.clause for other in found if other.clause.route_to != case.clause.route_to]
    scene = prose.Scene(
        request,
        case,
        tuple(rivals),
        pool[case.clause.route_to],
        _kept(case.clause, rivals, pool),
        request.index // len(leading) + request.attempt - 1,
    )
    if rule.clauses:
        text = signals.query(scene.clause, rivals, request, pool, scene.turn, rng)
    else:
        text = prose.query(scene, rng)
    return QueryDraft(text, (case.clause.route_to,), _explanation(case.clause))


def _rule(request: QueryRequest) -> RuleText:
    assert request.rule is not None
    return request.rule


def _kept(clause: Clause, rivals: list[Clause], pool: dict[str, ToolText]) -> frozenset[str]:
    """Content words of the other cases that this one does not have."""
    theirs = " ".join(f"{other.when} {' '.join(other.signals)}" for other in rivals)
    owned = " ".join(pool[other.route_to].endpoint for other in rivals)
    return content_stems(f"{theirs} {owned}") - content_stems(clause.when)


def _explanation(clause: Clause) -> str:
    when = clause.when
    if when.startswith("to "):
        return f"The request is {when}, which by the rule is for {clause.route_to}."
    return f"{when[:1].upper()}{when[1:]}, so by the rule it goes to {clause.route_to}."
