"""Under clients who never stop asking: a killed engine costs 503 with Retry-After, a model swap costs nothing."""

import json
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from django.db import connection

from tests.evaluation.chaos import Storm, pauses
from tests.evaluation.endpoint_home import ask, program
from tests.factories import crown, make_model, make_tool
from trace_site.artefacts import store
from trace_site.dev.services import first_free_port

pytestmark = pytest.mark.django_db(transaction=True)
LOAD = 0.4  # seconds that a model takes to load


class Process:
    """The stub as a process of its own, started again when it is killed, as the supervisor does."""

    def __init__(self, store):
        self.store, self.port = store, first_free_port(0)
        self.start()

    def start(self):
        command = [sys.executable, "-m", "tests.engine_stub", "--store", self.store]
        command += ["--port", str(self.port), "--load", str(LOAD)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        json.loads(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def kill_and_start(self):
        self.kill()
        self.start()


@pytest.fixture
def engine(settings, tmp_path):
    settings.STORE_URL, settings.TRACE_HOME = (tmp_path / "store").as_uri(), tmp_path
    settings.RETRIEVE_RATE = settings.RETRIEVE_ADDRESS_RATE = 10_000_000
    process = Process(settings.STORE_URL)
    settings.ENGINE_URL = f"http://127.0.0.1:{process.port}"
    yield process
    with suppress(OSError):
        process.kill()


@pytest.fixture
def models(engine, tmp_path):
    """[(model, the tool it alone ranks first)]"""
    made = []
    for number in range(3):
        tool = make_tool(f"Only{number}/Tool")
        folder = tmp_path / f"export-{number}"
        folder.mkdir()
        listed = {"tools": [{"name": tool.name}, {"name": "Every/Tool"}]}
        (folder / "trace.json").write_text(json.dumps(listed))
        digest = store().put_dir(folder, f"models/{number}")
        made.append((make_model(store_key=f"models/{number}", store_digest=digest), tool.name))
    crown(made[0][0])
    return made


@pytest.fixture
def storm(user_with, models):
    user = user_with("expert")
    client = program(user)

    def told():
        try:
            response = ask(client, k=2)
        finally:
            connection.close()
        body = response.json()
        model = body["model"]["id"] if response.status_code == 200 else None
        tools = [row["name"] for row in body.get("tools", ())]
        return response.status_code, response.headers.get("Retry-After"), model, tools

    while told()[0] != 200:  # the first model has loaded
        time.sleep(0.05)
    return Storm(told, {model.pk: tool for model, tool in models})


def test_a_database_connection_that_has_gone_costs_no_answer(user_with, models):
    client = program(user_with("expert"))
    while ask(client).status_code != 200:
        time.sleep(0.05)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    other.close()
    assert ask(client).status_code == 200


def swapping(models, count, least):
    def swap():
        try:
            for number, pause in enumerate(pauses(7, count, least, 2 * least), start=1):
                crown(models[number % len(models)][0])
                time.sleep(pause)
        finally:
            connection.close()

    return swap


SIZES = [
    pytest.param(4, 4, 3, id="small"),
    pytest.param(32, 20, 30, id="whole", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("clients", "swaps", "kills"), SIZES)
def test_swaps_alone_refuse_nobody_and_every_answer_is_of_one_model(models, storm, clients, swaps, kills):
    storm.run(clients, swapping(models, swaps, LOAD / 2))
    assert (set(storm.statuses), storm.wrong) == ({200}, [])
    assert len(storm.models) > 1


@pytest.mark.parametrize(("clients", "swaps", "kills"), SIZES)
def test_kills_and_swaps_cost_503_with_retry_after_and_the_answers_come_back(
    engine, models, storm, clients, swaps, kills
):
    took = []

    def killing():
        for pause in pauses(11, kills, LOAD, 2 * LOAD):
            took.append(storm.recovery(engine.kill_and_start, 30))
            time.sleep(pause)

    storm.run(clients, swapping(models, swaps, LOAD), killing)
    assert storm.wrong[:3] == [] and set(storm.statuses) <= {200, 503} and storm.statuses[200] > kills
    assert max(took) < 20  # on a busy machine; the bench tells how long it takes
