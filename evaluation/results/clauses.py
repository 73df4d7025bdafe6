"""What the clauses of a rule decided: in benchmarks, as the shown model was measured, and in what programs asked.

A clause that never speaks, or that speaks where another is right, is the author's to reword; so the requests stand
beside the numbers. Answers to programs are right or wrong where somebody reported it.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.fields.json import KT
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from evaluation.core.confusion import MODEL
from evaluation.coverage.outcomes import measured_by
from evaluation.coverage.selectors import shown_model
from evaluation.models import Answer, Evaluation, RetrievalRequest
from rules.models import Rule, RuleClause
from rules.selectors import clauses_leading
from training.models import Model
from training.registry.registry import current_aliases, untaught_clauses

STATES = {None: "", False: "untrained", True: "waits"}
SHOWN = 5  # requests of a clause, of each kind


class Decided(NamedTuple):
    """A request of a benchmark that got a wrong tool. `by`: the clause that decided; `rule`: the code of the one that
    decides it; both empty for none."""

    text: str
    url: str
    chosen: str
    right: list[str]
    by: str
    rule: str


@dataclass
class ClauseRow:
    """`wrong`: that it decided; `missed`: requests for its tools that another clause, or none, decided wrongly."""

    clause: RuleClause
    state: str  # untrained: in force before the model learned it; waits: until it does; else empty
    was_asked: bool = False  # of an evaluation that began when it was there
    right: int = 0
    wrong: list[Decided] = field(default_factory=list)
    missed: list[Decided] = field(default_factory=list)
    reported: Counter[str] = field(default_factory=Counter)  # answers to programs by verdict, empty for none

    @property
    def decided(self) -> int:
        return self.right + len(self.wrong)

    @property
    def asked(self) -> int:
        return self.reported.total()

    @property
    def name(self) -> str:
        """As people call a token."""
        return short(self.clause.token.string)

    @property
    def query(self) -> str:
        return urlencode({"clause": self.clause.token.string})


def short(token: str) -> str:
    return token.strip("<>")


class ClausesTold(NamedTuple):
    """`evaluations`: whose answers the counts are of; none where the model does not decide by clauses."""

    model: Model | None
    alias: str
    evaluations: list[Evaluation]
    rows: list[ClauseRow]


def clauses_told(rule: Rule) -> ClausesTold:
    """Ten queries at most, however many clauses and requests there are."""
    untaught = untaught_clauses(current_aliases().get("champion"))
    rows = {}
    for clause in clauses_leading().filter(rule=rule).select_related("token"):
        token = clause.token.string
        rows[token] = ClauseRow(clause, STATES[untaught.get(token)])
    model, alias = shown_model()
    measured = [sides[MODEL] for sides in measured_by(model).values() if MODEL in sides] if model else []
    decisive = Answer.objects.filter(evaluation=OuterRef("pk"), output__has_key="clause")
    evaluations = list(
        Evaluation.objects.filter(Exists(decisive), pk__in=measured)
        .select_related("benchmark")
        .defer("metrics")
    )
    begun = {one.pk: one.created_at for one in evaluations}
    for row in rows.values():
        row.was_asked = any(row.clause.created_at < at for at in begun.values())
    own = Q(item__data__rule=rule.code, item__domain=rule.domain_id) | Q(output__clause__in=list(rows))
    found = Answer.objects.filter(own, evaluation__in=begun).order_by("item")
    columns = ("evaluation", "item__benchmark", "item_id", "item__data", KT("output__clause"))
    for evaluation, benchmark, item, data, by, chosen in found.values_list(*columns, KT("output__tools__0")):
        if chosen in data["tools"]:
            if by in rows:
                rows[by].right += 1
            continue
        url = f"{reverse('evaluation:benchmark', args=[benchmark])}?after={item - 1}"
        one = Decided(data["query"], url, chosen or "", data["tools"], short(by or ""), data.get("rule", ""))
        if by in rows:
            rows[by].wrong.append(one)
        for token, row in rows.items():
            was_there = row.clause.created_at < begun[evaluation]
            if was_there and one.rule == rule.code and token != by and {*one.right} & {*row.clause.tools}:
                row.missed.append(one)
    logged = RetrievalRequest.objects.filter(clause__in=list(rows)).order_by()
    for token, verdict, many in logged.values_list("clause", "verdict").annotate(Count("pk")):
        rows[token].reported[verdict] += many
    return ClausesTold(model, alias, evaluations, list(rows.values()))


@require_GET
def clauses_of_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page."""
    rule = get_object_or_404(Rule.objects.only("code", "domain"), pk=rule_id)
    context: dict[str, Any] = {"rule": rule, "told": clauses_told(rule), "shown": SHOWN, "most": f":{SHOWN}"}
    return render(request, "evaluation/_clauses_of_rule.html", context)
