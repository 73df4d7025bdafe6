"""An engine process for the length of one call: how a command line answers without `manage.py up`."""

import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from evaluation.retriever import Engine, retrieve
from trace_site.artefacts import store
from trace_site.lib.child import tail
from trace_site.lib.errors import TraceError
from training.stages import child_env

ENGINE = "evaluation.ml"
START_SECONDS = 60.0
LOAD_SECONDS = 600.0  # a model of billions of parameters is read from disk first


def retrieve_once(**call: Any) -> dict[str, Any]:
    """`retriever.retrieve` with an engine that lives no longer than the call."""
    with engine(settings.TRACE_HOME) as started:
        return retrieve(**call, engine=started, patience=LOAD_SECONDS)


@contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """Start an engine on a free port, wait until it answers, and end it with the block."""
    port = free_port()
    started = Engine(f"http://127.0.0.1:{port}", secrets.token_urlsafe(32))
    log = folder / "logs" / "engine-once.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", ENGINE, "--parent-pipe", "serve", "--port", str(port)]
            + ["--root", str(store().on_this_machine)],
            cwd=settings.BASE_DIR,
            env={**child_env(), "ENGINE_TOKEN": started.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        wait_for_health(process, started.url, log)
        yield started
    finally:
        process.terminate()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def wait_for_health(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    words = tail(log).strip().splitlines()
    raise TraceError(
        words[-1] if words else "the engine did not start.",
        code="engine_failed",
        where=ENGINE,
        hint=f"See {log}.",
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
