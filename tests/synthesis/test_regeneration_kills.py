"""kill -9 of the process that writes rejected samples again: each is written once, none is lost."""

import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection

from synthesis.generate import regeneration
from synthesis.generate.services import synthesis_start
from synthesis.models import Regeneration, Sample, SynthesisRun
from synthesis.review import services as review_services
from tests.llm_load import LoadServer
from tests.synthesis.killing import queue_again, worker_of
from tests.synthesis.rows import make_book, run_job
from tests.synthesis.test_runs import NO_PERMISSIONS

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(settings):
    with LoadServer(seed=1, median=0.1, faults={}, answers="tests.synthesis.model:answers") as server:
        settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
        settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
        settings.LLM_CONCURRENCY = 8
        yield server


@pytest.mark.long
@pytest.mark.parametrize("kills", [2, 5])
def test_a_killed_run_writes_each_rejected_sample_again_once(server, kills):
    make_book()
    asked = {"branch": "rule", "per_rule": 24, "writer": "llm", "recipe": NO_PERMISSIONS, "wake": False}
    run_job(synthesis_start(**asked).job)
    rita = User.objects.create(username="rita")
    old = list(Sample.objects.filter(machine="ready"))
    for number, sample in enumerate(old):
        reason = ("unclear", "bad_trace")[number % 2]
        review_services.reject(sample=sample.pk, reviewer=rita, reason=reason, follow_up="regenerate")
    (made,) = regeneration.start(wake=False)
    server.control(reset=True)
    calls = 3 * len(old) // 2 + 2 * len(old) // 2
    for moment in sorted(random.Random(3).sample(range(2, calls - 8), kills)):
        process = worker_of(made.job_id)
        while len(server.exchanges()) < moment and process.poll() is None:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        queue_again(made.job_id)
    assert worker_of(made.job_id).wait(timeout=120) == 0
    new = list(Sample.objects.filter(run=made))
    assert sorted(row.made_from["again"]["of"] for row in new) == [row.pk for row in old]
    assert set(Counter(Sample.objects.values_list("slot", flat=True)).values()) == {2}
    ended = Regeneration.objects.filter(run=made, replacement__isnull=False)
    assert ended.filter(state__in=["written", "ended"]).count() == len(old)
    assert all(row.attempts.filter(number=1).count() == 1 for row in new)
    assert not Sample.objects.filter(machine="pending").exists()


def test_two_at_once_start_one_run_and_lose_nothing():
    make_book()
    run_job(synthesis_start(branch="rule", per_rule=6, wake=False).job)
    rita = User.objects.create(username="rita")
    for sample in Sample.objects.filter(machine="ready"):
        review_services.reject(sample=sample.pk, reviewer=rita, reason="unclear", follow_up="regenerate")
    waiting = Regeneration.objects.filter(state="waiting").count()

    def begin() -> int:
        try:
            return len(regeneration.start(wake=False))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        begun = [one.result() for one in [pool.submit(begin) for _ in range(8)]]
    assert sum(begun) == 1 and waiting > 0
    (run,) = SynthesisRun.objects.filter(params__has_key="regenerate")
    assert Regeneration.objects.filter(state="writing", run=run).count() == waiting
