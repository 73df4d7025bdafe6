"""Loaded by pytest before Django's settings: tests use servers and a data folder of their own.

So does each of several processes (`-n`): roles, queues and files are then nobody else's. Servers that DATABASE_URL and
REDIS_URL name are shared; there each process has a database of its own.
"""

import gc
import os
import sys
from pathlib import Path

import pytest

# modules and cases stay to the end: looking through them for garbage took a third of the start
gc.disable()

# a hundred child processes would each compile all of it anew where the environment keeps no compiled files
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

home = Path(os.environ.get("TRACE_HOME") or Path(__file__).resolve().parents[2] / ".trace-test")
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    home /= worker  # the first process passed its own on
    # one thread each, their child processes too: more would only wait for each other
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
os.environ["TRACE_HOME"] = str(home)

# a test waits for no disk: what a killed server forgets of it nobody misses
os.environ.setdefault("PGOPTIONS", "-c synchronous_commit=off")

from trace_site.dev.services import ensure_services  # noqa: E402

ensure_services()


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: while one waits for a browser, a child or a lock, another works."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
