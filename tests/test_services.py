"""The embedded servers: started by the first process, kept while anybody needs them, stopped by the last."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from trace_site.dev.services import stop_services

ROOT = Path(__file__).resolve().parent.parent
HOLD = """
import sys, time
from trace_site.dev import services
services.ensure_services()
import psycopg
with psycopg.connect(services.owner_url()) as c:
    c.execute("CREATE TABLE IF NOT EXISTS notes (text text)")
    c.execute("INSERT INTO notes VALUES (%s)", [sys.argv[1]])
    count = c.execute("SELECT count(*) FROM notes").fetchone()[0]
print(count, flush=True)  # committed: whoever reads it may kill
if sys.argv[2] == "wait": sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path):
    yield tmp_path / "home"
    stop_services(tmp_path / "home")


def environment(home):
    outside = {"DATABASE_URL", "REDIS_URL", "PGOPTIONS"}  # which lets commits be forgotten
    return {key: value for key, value in os.environ.items() if key not in outside} | {"TRACE_HOME": str(home)}


def start(home, note, mode="go"):
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, note, mode],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def is_up(home):
    state = json.loads((home / "services.json").read_text())
    url = f"postgresql://trace:{state['postgres_password']}@127.0.0.1:{state['postgres_port']}/trace"
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def test_servers_live_as_long_as_somebody_needs_them_and_keep_their_data(home):
    first = start(home, "one", "wait")
    assert first.stdout.readline() == "1\n"
    second = start(home, "two")
    assert second.communicate()[0] == "2\n" and is_up(home)
    first.communicate("")
    assert not is_up(home)


def test_servers_left_by_a_killed_process_are_adopted_and_then_stopped(home):
    killed = start(home, "one", "wait")
    assert killed.stdout.readline() == "1\n"
    killed.kill()
    killed.wait()
    assert is_up(home)
    assert start(home, "two").communicate()[0] == "2\n"
    assert not is_up(home)


def test_killed_postgres_is_recovered_with_its_rows(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1\n"
    os.kill(int((home / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_up(home) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert start(home, "two").communicate()[0] == "2\n"
    holder.communicate("")


@pytest.mark.long
def test_a_home_from_before_there_were_two_roles_gains_the_applications(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1\n"
    path = home / "services.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in state.items() if key != "application_password"}))
    migrate = [sys.executable, ROOT / "manage.py", "migrate", "-v0", "catalog", "0001"]
    assert subprocess.run(migrate, env=environment(home)).returncode == 0
    password = json.loads(path.read_text())["application_password"]
    url = f"postgresql://trace_app:{password}@127.0.0.1:{state['postgres_port']}/trace"
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM catalog_domain").fetchone() == (0,)
    assert path.stat().st_mode & 0o777 == 0o600
    holder.communicate("")
