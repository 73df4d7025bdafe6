"""Runs the processes of one installation: web, endpoint, workers, beat and the retrieval engine.

Each child is restarted when it dies, at once if it had lived for a while, else with a growing pause. It logs to
TRACE_HOME/logs, and ends with this process: at once when that is killed (Linux), after finishing its step when it is
asked to end.
"""

import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import httpx2 as httpx

from trace_site.artefacts import engine_store
from trace_site.dev import copies, services
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic

START_SECONDS, STOP_SECONDS = 60, 15
STEADY_SECONDS = 5.0  # a child that lived so long is no child that cannot start
LOOK_SECONDS = 0.3
REVIVE_SECONDS = 5.0  # between two looks at the servers
MOST_LOG_BYTES = 20_000_000
# a header that is not whole after 10 s ends its connection, and so does one that says nothing for as long
SERVER = ["trace_site.asgi:application", "--interface", "asginl", "--http", "1", "--no-ws"]
SERVER += ["--http1-header-read-timeout", "10000", "--backpressure", "512", "--log-level", "warning"]
PR_SET_PDEATHSIG = 1
WORKING = ("worker", "gpu-worker", "beat")
Steps = Generator[None, None, None]  # what else is to be done, a little at each look after the processes


@dataclass
class Child:
    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    deaths: int = 0  # one soon after the other
    started: float = 0.0
    next_start: float = 0.0
    log: TextIO | None = field(default=None, repr=False)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)


def children(
    port: int, endpoint_port: int, engine_port: int | None = None, engine_token: str = ""
) -> list[Child]:
    """What makes up a running installation on this machine. The endpoint is the same site once more, for programs
    alone, so that no page that is being made holds up their answers."""
    python = sys.executable
    celery = [python, "-m", "celery", "-A", "trace_site", "--quiet"]
    worker = [*celery, "worker", "--pool", "threads", "--without-mingle", "--without-gossip"]
    worker += ["--loglevel", "WARNING"]
    serving = [python, "-m", "granian", *SERVER, "--host", "127.0.0.1", "--port"]
    endpoint = [*serving, str(endpoint_port), "--workers", "2", "--respawn-failed-workers"]
    schedule = str(services.home() / "beat-schedule")
    parts = [
        Child("web", [*serving, str(port)]),
        Child("worker", [*worker, "-Q", "default", "-c", "2", "-n", "default@%h"]),
        Child("gpu-worker", [*worker, "-Q", "gpu", "-c", "1", "-n", "gpu@%h"]),
        Child("beat", [*celery, "beat", "-s", schedule, "--pidfile", "", "--loglevel", "WARNING"]),
        Child("endpoint", endpoint),
    ]
    if engine_port is not None:
        engine = [python, "-m", "evaluation.ml", "serve", "--port", str(engine_port)]
        parts.append(Child("engine", [*engine, *engine_store()], secrets={"ENGINE_TOKEN": engine_token}))
    return parts


def serve(port: int, echo: Callable[[str], None], meanwhile: Steps | None = None) -> None:
    """Start everything, say where the site is, and keep it running until asked to end."""
    folder = services.home()
    with (folder / "up.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TraceError(
                f"this home is already being served at {address_served() or '?'}.",
                code="already_up",
                where=str(folder),
                hint="Open it there, or set TRACE_HOME to serve another home.",
            ) from error
        _serve_locked(folder, port, echo, meanwhile)


def address_served() -> str:
    """Where `up` serves this home; empty where it does not, or where the file came along from another home."""
    path = services.home() / "up.json"
    up = json.loads(path.read_text()) if path.is_file() else {}
    return str(up["url"]) if up.get("home") == str(path.parent) else ""


def _serve_locked(folder: Path, port: int, echo: Callable[[str], None], meanwhile: Steps | None) -> None:
    wanted, port = port, services.first_free_port(port)
    if port != wanted:
        echo(f"port {wanted} is taken; using {port}")
    engine_port = None
    if not os.environ.get("ENGINE_URL"):
        if find_spec("torch") is not None:
            engine_port = services.first_free_port(0)
        else:
            echo("torch is not installed: the playground has no engine (make env)")
    url, endpoint_port = f"http://127.0.0.1:{port}", services.first_free_port(port + 1)
    endpoint = f"http://127.0.0.1:{endpoint_port}/api/v1/retrieve"
    up = {"home": str(folder), "url": url, "endpoint": endpoint}
    write_atomic(folder / "up.json", json.dumps(up), private=True)
    token = secrets.token_urlsafe(32)
    engine = {"home": str(folder), "url": f"http://127.0.0.1:{engine_port}", "token": token}
    if engine_port is not None:
        write_atomic(folder / "engine.json", json.dumps(engine), private=True)
    ending: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: ending.append(received))
    parts = children(port, endpoint_port, engine_port, token)
    if copies.is_asleep():
        echo(
            "this home is a copy: no job is taken up and nothing is sent until it is served with `up --work`"
        )
        parts = [part for part in parts if part.name not in WORKING]
    try:
        _start(parts[0], folder)  # alone it answers in a third of the time; the first look starts the others
        _wait_for_site(url, parts, ending)
        if not ending:
            echo(f"serving at {url}   (Ctrl-C stops; logs in {folder / 'logs'})")
            echo(f"programs ask at {endpoint}, or under the same path of the site")
        _watch(parts, folder, ending, echo, meanwhile)
    finally:
        if meanwhile is not None:
            meanwhile.close()
        echo("stopping ...")
        stop(parts)
        for name in ("up.json", "engine.json"):
            (folder / name).unlink(missing_ok=True)


def _watch(
    parts: list[Child], folder: Path, ending: list[int], echo: Callable[[str], None], meanwhile: Steps | None
) -> None:
    checked = time.monotonic()
    while not ending:
        time.sleep(LOOK_SECONDS)
        now = time.monotonic()
        for part in parts:
            if part.log is not None:
                _bound(Path(part.log.name))
            if part.process is not None and part.process.poll() is not None:
                part.deaths = 0 if now - part.started >= STEADY_SECONDS else part.deaths + 1
                part.next_start = now + min(30.0, 2 ** (part.deaths - 1) if part.deaths else 0)
                echo(f"{part.name} ended with status {part.process.returncode}; starting it again")
                part.process = None
            if part.process is None and now >= part.next_start:
                _start(part, folder)
        if now - checked > REVIVE_SECONDS:
            checked = now
            try:
                if services.revive_services():
                    stop(parts)  # they know the old ports; the next look starts them again
            except TraceError as error:
                echo(f"error: {error}")
        if meanwhile is not None:
            next(meanwhile, None)


def _bound(log: Path) -> None:
    """Keep the newest MOST_LOG_BYTES and what was the newest before; the child, which appends, writes on."""
    if log.stat().st_size > MOST_LOG_BYTES:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)


def _start(part: Child, folder: Path) -> None:
    (folder / "logs").mkdir(exist_ok=True)
    part.started = time.monotonic()
    part.log = part.log or (folder / "logs" / f"{part.name}.log").open("a")
    part.process = subprocess.Popen(
        part.command,
        stdin=subprocess.DEVNULL,
        stdout=part.log,
        stderr=part.log,
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "trace_site.settings", **part.secrets},
        preexec_fn=die_with_parent if sys.platform == "linux" else None,
        start_new_session=True,  # Ctrl-C reaches only us; we end the children in order
    )


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stop(parts: list[Child]) -> None:
    """Ask each child to end, then end it."""
    running = [part.process for part in parts if part.process is not None]
    for process in running:
        with suppress(ProcessLookupError):
            process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for process in running:
        try:
            process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_site(url: str, parts: list[Child], ending: list[int]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ending:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/healthz", timeout=2, trust_env=False).status_code == 200:
                return
        web = parts[0].process
        if time.monotonic() > deadline or web is None or web.poll() is not None:
            raise TraceError(
                "the site did not start.",
                code="site_start",
                where=str(services.home() / "logs" / "web.log"),
                hint="The log says why.",
            )
        time.sleep(0.1)
