"""Twenty small runs, each killed with SIGKILL at a random moment around half, each resumed to its end.

    TRACE_HOME=/some/folder python -m tests.bench.kill_synthesis [--runs 20] [--seed 1]

Runs on a database of its own, against a model server in another process. Prints one line a run and the sums; the exit
code is 1 when anything was lost, doubled or paid twice.
"""

import argparse
import os
import random
import sys

SETTINGS = {
    "LLM_API_KEY": "key",
    "LLM_GENERATOR_MODEL": "tester",
    "LLM_TEACHER_MODEL": "tester",
    "LLM_JUDGE_MODEL": "tester",
    "LLM_CONCURRENCY": 16,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    import django

    from trace_site.dev.services import ensure_services

    ensure_services()
    django.setup()
    from django.conf import settings
    from django.db import connection

    from tests.llm_load import LoadServer
    from trace_site.database import become_owner

    name = settings.DATABASES["default"]["NAME"]
    become_owner()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        with LoadServer(
            seed=asked.seed, median=0.15, faults={}, answers="tests.synthesis.model:answers"
        ) as server:
            for setting, value in {**SETTINGS, "LLM_BASE_URL": server.url}.items():
                setattr(settings, setting, value)
            return kill_runs(server, asked.runs, random.Random(asked.seed))
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


def kill_runs(server: object, runs: int, draw: random.Random) -> int:
    from django.core.management import call_command

    import tests.conftest  # noqa: F401 - emptying a database with frozen tables
    from tests.synthesis.killing import kill_and_resume, moment_around_half
    from tests.synthesis.rows import make_book

    in_flight = resent = bad = 0
    for number in range(1, runs + 1):
        make_book()
        moment = moment_around_half(draw)
        found = kill_and_resume(server, [moment], seed=number)
        in_flight, resent, bad = (
            in_flight + found.in_flight,
            resent + found.resent,
            bad + bool(found.problems),
        )
        print(f"{number:>3}  killed at request {moment:>3}  {found}", flush=True)
        call_command("flush", verbosity=0, interactive=False)
    print(f"{runs} kills: {in_flight} calls in flight, {resent} sent again, {bad} runs with a problem")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
