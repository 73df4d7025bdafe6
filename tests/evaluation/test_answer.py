"""Is a model better than another, and than plain search? Every place that tells gives one answer.

Ten planted pairs: of so many requests so many that one side alone gets right, from clear to what nobody can tell.
"""

import json
import random
import re

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from evaluation.core.gate import Gate
from evaluation.gate.selectors import answers
from evaluation.models import GateReport
from evaluation.results import rollups, tasks
from tests.factories import (
    crown,
    make_cluster,
    make_evaluation,
    make_model,
    make_run,
    make_snapshot,
    make_tool,
)

pytestmark = pytest.mark.django_db
# requests; right of both, of the model alone, of its opponent alone
PAIRS = [
    (40, 20, 15, 0),
    (40, 20, 0, 15),
    (40, 20, 6, 6),
    (40, 30, 0, 0),
    (40, 10, 8, 1),
    (40, 10, 1, 8),
    (40, 20, 6, 1),
    (40, 20, 1, 6),
    (60, 30, 12, 4),
    (12, 4, 7, 0),
]


@pytest.fixture
def tools():
    found = [make_tool(name) for name in ("Pay/Get", "Pay/Set", "Leave/Book")]
    make_cluster(*found[:2])
    return found


def word_of(text: str, opponent: str) -> str:
    """The answer in a text that says it of this opponent in one sentence."""
    unsure, sure = (
        set(re.findall(rf"{words} {re.escape(opponent)}: first tool", text))
        for words in (
            r"Nobody can tell whether model \d+ is better than",
            r"Model \d+ is (better|worse) than",
        )
    )
    (word,) = {"cannot tell" for _ in unsure} | sure
    return word


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_start_page_compare_gate_card_api_and_command_give_one_answer(
    tools, pair, client_as, capsys, monkeypatch, settings, tmp_path
):
    n, both, ours, theirs = pair
    settings.TRACE_HOME = tmp_path
    snapshot = make_snapshot()
    old, new = (make_model(run=make_run(snapshot=snapshot)) for _ in range(2))
    order = random.Random(7).sample(range(n), n)
    right = {
        new: {*order[: both + ours]},
        old: {*order[:both], *order[both + ours : both + ours + theirs]},
        None: {*order[:both], *order[both + ours : both + ours + theirs]},
    }
    made, of = {}, None
    for model, decode in ((None, "embedding"), (old, "fast"), (new, "fast")):
        given = [(tools[at % 2], [tools[at % 2 if at in right[model] else 2].name]) for at in range(n)]
        made[model] = make_evaluation(*given, model=model, decode=decode, **({"benchmark": of} if of else {}))
        of = made[model].benchmark
    crown(old)
    client, told = client_as("admin"), {}

    measured = {old.pk: [made[old].pk, made[None].pk], new.pk: [made[new].pk, made[None].pk]}
    monkeypatch.setattr(tasks, "measure", lambda ctx, model: {"evaluations": measured[model.pk]})
    call_command("gate", candidate=str(new.pk), json=True)
    printed = capsys.readouterr().out
    command = json.loads(printed.splitlines()[-1])["answers"]
    report = GateReport.objects.get(candidate=new)
    api = APIClient()
    api.force_authenticate(client.get("/").wsgi_request.user)
    answered = api.get(f"/api/v1/evaluation/models/{new.pk}/gate").json()["answers"]
    gate_page = client.get(f"/evaluation/gate/{report.pk}/").content.decode()
    compare = "/evaluation/compare/"
    for opponent, side, name in (("champion", old, f"model {old.pk}"), ("embedding", None, "plain search")):
        page = client.get(compare, {"a": made[new].pk, "b": made[side].pk}).content.decode()
        told[opponent] = {
            "command": word_of(command[opponent], name),
            "API": word_of(answered[opponent], name),
            "gate": word_of(gate_page, name),
            "compare": word_of(page, name),
            "report": word_of(answers(Gate.of(report.report), new.pk, old.pk)[opponent], name),
        }
    models = client.get(compare, {"a": f"model-{new.pk}", "b": f"model-{old.pk}"}).content.decode()
    card = client.get(f"/evaluation/of-model/{new.pk}/beside/").content.decode()
    told["champion"] |= {
        "compare models": word_of(models, f"model {old.pk}"),
        "card": word_of(card, f"model {old.pk}"),
    }
    crown(new)
    rollups.refresh()
    start = client.get("/").context
    told["embedding"] |= {
        "start page": start["page"].answer("all"),
        "coverage API": api.get("/api/v1/coverage/hr").json()["groups"]["all"]["answer"],
    }
    assert bool(start["warnings"]) == (told["embedding"]["start page"] == "worse")
    assert {opponent: set(of.values()) for opponent, of in told.items()} == {
        opponent: {of["command"]} for opponent, of in told.items()
    }
    assert told["champion"]["command"] == told["embedding"]["command"]  # the two opponents are right alike
