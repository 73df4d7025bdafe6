"""Random interleavings of synthesis runs: workers are processes that SIGKILL ends, connections are cut by the server.

    TRACE_HOME=/some/folder python -m tests.bench.run_interleavings [--runs 30] [--seed 1] [--steps]

Runs on a database of its own. Prints one line a run and the steps of those that went wrong; the exit code is 1 when a
run said done that was not, or when anything was lost or doubled.
"""

import argparse
import os
import sys
import time


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--steps", action="store_true", help="print the steps of all, not only of the wrong ones"
    )
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    import django

    from trace_site.dev.services import ensure_services

    ensure_services()
    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    import tests.conftest  # noqa: F401 - emptying a database with frozen tables
    from synthesis.models import SynthesisRun
    from tests.synthesis.interleavings import Play
    from trace_site.database import become_owner

    become_owner()
    name = settings.DATABASES["default"]["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    bad = 0
    try:
        for seed in range(asked.seed, asked.seed + asked.runs):
            began = time.monotonic()
            found = Play(seed, processes=True).play()
            runs = SynthesisRun.objects.count()
            print(
                f"{seed:>3}  {runs} runs, {len(found.told)} steps, {time.monotonic() - began:.0f} s: "
                f"{len(found.problems)} problems",
                flush=True,
            )
            bad += bool(found.problems)
            if found.problems or asked.steps:
                print("\n".join([*found.problems, *found.told]), flush=True)
            call_command("flush", verbosity=0, interactive=False)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
    print(f"{asked.runs} interleavings, {bad} with a problem")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
