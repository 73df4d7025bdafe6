"""Runs through generator, teacher and judge over servers of every dialect: what is planned is written, in few calls."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest
from django.template.loader import render_to_string

from synthesis.generate import services
from synthesis.generate.services import synthesis_resume, synthesis_start
from synthesis.llm.ledger import job_books
from synthesis.management.commands.synthesis_run import funnel_lines
from synthesis.models import Attempt, ModelCall, Sample
from tests.llm_dialects import DIALECTS, WRAPS, DialectServer
from tests.llm_server import _send
from tests.synthesis.model import answers
from tests.synthesis.rows import make_book, run_job
from tests.synthesis.test_runs import NO_PERMISSIONS
from trace_site import jobs
from trace_site.lib.llm import client, limiter

pytestmark = pytest.mark.django_db(transaction=True)
NUMBER = 16
FILTERED = (400, {"error": {"message": "A filter refused this prompt; change it.", "code": "content_filter"}})


@pytest.fixture
def serve(settings, monkeypatch):
    for module in (client, limiter):  # pauses as long as their law says are tested there
        monkeypatch.setattr(module, "backed_off", partial(limiter.backed_off, base=0.02))
    servers = []

    def made(made=DialectServer, **options):
        servers.append(made(**{"answers": answers, **options}))
        settings.LLM_BASE_URL, settings.LLM_API_KEY = servers[-1].url, "sk-canary-0123456789"
        settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
        return servers[-1]

    make_book()
    yield made
    for server in servers:
        server.close()


def start(**options):
    chosen = {"branch": "rule", "per_rule": NUMBER, "writer": "llm", "recipe": NO_PERMISSIONS, "wake": False}
    return synthesis_start(**{**chosen, **options})


@pytest.fixture
def clean_calls():
    return 3 * 2 + 2 * NUMBER + 1  # two batches a style, a trace and a verdict a sample, a probe


MANNERS = {
    **DIALECTS,
    "fence": (lambda body: None, WRAPS["fence"]),
    "parts": (lambda body: None, WRAPS["part"]),
}


CASES = Path(__file__).parents[3] / "shared" / "data" / "cases"
WHEN = {
    "the body has max_tokens": lambda body, number: "max_tokens" in body,
    "the body has a temperature other than 1": lambda body, number: body.get("temperature", 1) != 1,
    "the body has seed": lambda body, number: "seed" in body,
    "max_tokens is under 4000": lambda body, number: body.get("max_tokens", 4000) < 4000,
    "every fourth call": lambda body, number: number % 4 == 0,
    "every fifth call": lambda body, number: number % 5 == 0,
    "the judge": lambda body, number: "Sample id: " in json.dumps(body["messages"]),
    "first manner": lambda body, number: number % 2,
    "second manner": lambda body, number: True,
    "always": lambda body, number: True,
    "otherwise": lambda body, number: True,
}


class Exchanges(DialectServer):
    """Answers as a case says, with what is right where that holds `{"ok": true}`."""

    def __init__(self, name, answers):
        super().__init__(answers)
        self.rows = json.loads((CASES / name / "exchange.json").read_text())

    def reply(self, handler, body, fault):
        row = next((row for row in self.rows if WHEN[row["when"]](body, len(self.requests))), None)
        right = json.dumps(self.answers(body))
        told = row and json.loads(
            json.dumps(row["body"]).replace(json.dumps('{"ok": true}')[1:-1], json.dumps(right)[1:-1])
        )
        if row and row["when"] == "the judge":
            sample = json.loads(right)["id"]
            told = json.loads(json.dumps(told).replace("s1", sample))
        if told is None:
            return super().reply(handler, body, fault)
        _send(handler, row["status"], json.dumps({**told, "model": body["model"]}).encode())


@pytest.mark.skipif(not CASES.exists(), reason="the shared data are not here")
@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize(
    "name",
    ["max-tokens", "no-seed", "prompt-filter", "fence", "parts", "budget", "choice-error", "string-scores"],
)
def test_every_case_gives_what_is_right_there(serve, monkeypatch, clean_calls, name, probed):
    server = serve(made=partial(Exchanges, f"llm-{name}"))
    if not probed:
        monkeypatch.setattr(services, "_probe", lambda found: asyncio.sleep(0, {}))
    counts = run_job(start().job)
    if name == "prompt-filter":
        assert counts["ready"] + counts["dropped"] == NUMBER and counts["ready"] >= 5
        assert set(counts["error_codes"]) == {"llm_prompt_refused"}
        return
    assert (counts["ready"], counts["errors"]) == (NUMBER, 0)
    assert len(server.requests) <= (1.4 if name == "choice-error" else 1.15) * clean_calls


@pytest.mark.parametrize("name", MANNERS)
def test_every_dialect_without_a_probe_costs_as_few_calls(serve, monkeypatch, clean_calls, name):
    monkeypatch.setattr(services, "_probe", lambda found: asyncio.sleep(0, {}))
    refuse, wrap = MANNERS[name]
    server = serve(refuse=refuse, wrap=wrap)
    assert run_job(start().job)["ready"] == NUMBER
    assert len(server.requests) <= 1.15 * clean_calls


@pytest.mark.parametrize("name", MANNERS)
def test_every_dialect_writes_all_samples_without_a_setting(serve, clean_calls, name):
    refuse, wrap = MANNERS[name]
    server = serve(refuse=refuse, wrap=wrap)
    run = start()
    counts = run_job(run.job)
    assert (counts["planned"], counts["ready"], counts["errors"]) == (NUMBER, NUMBER, 0)
    assert len(server.requests) <= 1.15 * clean_calls
    assert counts["unwrapped"] == (counts["calls"] if wrap else 0)
    assert bool(counts["adapted"]) == bool(server.refused)
    run.refresh_from_db()
    page = render_to_string("synthesis/_books.html", {"run": run, "books": job_books(run.job)})
    for changes in counts["adapted"].values():
        assert all(name.replace("_", " ") in page for name in changes)
    assert ("unwrapped" in page) == bool(wrap)


def test_one_filtered_prompt_drops_one_sample_and_is_asked_alone_again(serve):
    server = serve()
    marked = []

    def refuse(body):
        prompt = body["messages"][0]["content"]
        if "BEGIN SELECTED TOOLS" in prompt and not marked:
            marked.append(prompt)
        return FILTERED if prompt in marked else None

    server.refuse = refuse
    run = start()
    counts = run_job(run.job)
    assert (counts["ready"], counts["dropped"]) == (NUMBER - 1, 1)
    assert counts["error_codes"] == {"llm_prompt_refused": 1}
    assert "A filter refused this prompt; change it." in "\n".join(funnel_lines(counts))
    assert "A filter refused" in Attempt.objects.get(outcome="error").error
    assert ModelCall.objects.get(state="failed").error_text == FILTERED[1]["error"]["message"]
    page = render_to_string("synthesis/_books.html", {"run": run, "books": job_books(run.job)})
    assert "A filter refused this prompt; change it." in page
    asked = len(server.requests)
    again = run_job(start().job)
    assert (again["planned"], again["ready"]) == (1, 1)
    assert len(server.requests) - asked <= 1 + 3  # a probe; query, trace and verdict of that one


def test_a_filtered_batch_is_asked_one_by_one(serve):
    server = serve()
    server.refuse = lambda body: (
        FILTERED if "numbered 1, 2, 3, 4 " in body["messages"][0]["content"] else None
    )
    counts = run_job(start().job)
    assert (counts["ready"], counts["dropped"]) == (NUMBER, 0)


def test_every_fifth_call_filtered_lets_the_others_through(serve):
    server = serve()
    server.refuse = lambda body: None if len(server.requests) % 5 else FILTERED
    counts = run_job(start().job)
    assert counts["ready"] + counts["dropped"] == NUMBER and counts["ready"] >= 5
    assert set(counts["error_codes"]) == {"llm_prompt_refused"}


def test_scores_written_as_texts_count(serve):
    def told(body):
        answer = answers(body)
        scored = "naturalness" in answer
        return {name: str(value) for name, value in answer.items()} if scored else answer

    counts = run_job((serve(answers=told) and start()).job)
    assert (counts["ready"], counts["unwrapped"]) == (NUMBER, NUMBER)


def test_errors_in_every_fourth_choice_cost_no_sample(serve):
    server = serve()

    def wrap(choice):
        if len(server.requests) % 4 == 0:
            choice |= {"finish_reason": "error", "error": {"code": 502, "message": "lost the server behind"}}
            choice["message"]["content"] = ""

    server.wrap = wrap
    run = start()
    counts = run_job(run.job)
    assert (counts["ready"], counts["errors"]) == (NUMBER, 0)
    assert job_books(run.job)["error_texts"] == {"llm_server_error": "lost the server behind"}


def test_a_server_whose_thinking_needs_room_gets_it(serve, clean_calls):
    server = serve()

    def wrap(choice):
        if server.requests[-1]["max_tokens"] < 4000:
            choice["finish_reason"] = "length"
            choice["message"] |= {"content": "", "reasoning_content": "hm hm hm"}

    server.wrap = wrap
    assert run_job(start().job)["ready"] == NUMBER
    assert len(server.requests) <= 1.15 * clean_calls


def test_a_role_whose_first_answers_all_fail_alike_ends_the_run_and_is_named(serve):
    server = serve(answers=lambda body: {"no": 1} if "Sample id: " in json.dumps(body) else answers(body))
    run = start(per_rule=60)
    job = jobs.run(run.job.pk)
    assert (job.state, job.error_code) == ("failed", "llm_all_alike")
    assert "judge" in job.error and "llm_bad_schema" in job.error
    assert ModelCall.objects.filter(error_code="llm_bad_schema").count() < 100  # of 360
    server.answers = answers
    synthesis_resume(run)
    assert run_job(run.job)["missing"] == 0


def test_a_refusal_of_everything_ends_the_run_with_the_servers_sentence(serve):
    server = serve()
    run = start()
    server.refuse = lambda body: (404, {"error": {"message": "no model is called tester"}})
    job = jobs.run(run.job.pk)
    assert (job.state, job.error_code) == ("failed", "llm_bad_request")
    assert "no model is called tester" in job.error
    assert Sample.objects.filter(machine="pending").count() == NUMBER
    assert job_books(run.job)["error_texts"]["llm_bad_request"] == "no model is called tester"
