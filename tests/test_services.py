"""The embedded servers: started by the first process, kept while anybody needs them, stopped by the last; and never
another home's, though that be a copy with the same ports, passwords and pid files."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import redis

from trace_site.dev import services

ROOT = Path(__file__).resolve().parent.parent
HOLD = """
import sys, time
from trace_site.dev import services
services.ensure_services()
import psycopg
with psycopg.connect(services.owner_url()) as c:
    c.execute("CREATE TABLE IF NOT EXISTS notes (text text)")
    c.execute("INSERT INTO notes VALUES (%s)", [sys.argv[1]])
    rows = c.execute("SELECT count(*) FROM notes").fetchone()[0]
import redis
with redis.from_url(services.redis_url()) as c:
    messages = c.rpush("notes", sys.argv[1])
print(rows, messages, flush=True)  # committed: whoever reads it may kill
if sys.argv[2] == "wait": sys.stdin.read()
"""
LOOK = "from trace_site.dev import services; services.ensure_services()"
KILLED = """
import os, signal, sys
from trace_site.dev import services
setattr(services, sys.argv[1], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
services.ensure_services()
"""
TAKEN = """
import os, signal, socket, time
from trace_site.dev import services
services.ensure_services()
folder = services.home()
before = services._load_state(folder)
os.kill(services._server(folder / "postgres" / "postmaster.pid"), signal.SIGKILL)
while True:
    try:
        other = socket.create_server(("127.0.0.1", before["postgres_port"]))
        break
    except OSError:
        time.sleep(0.02)
print(services.revive_services(), services.revive_services())
print(*(key for key, value in services._load_state(folder).items() if value != before[key]))
"""
HUNG = """
import os, signal, time
from trace_site.dev import services
services.ensure_services()
folder = services.home()
redis, before = services._server(folder / "redis" / "redis.pid"), services._load_state(folder)
os.kill(redis, signal.SIGSTOP)
from trace_site.celery import wake_worker
began = time.monotonic()
changed, error = services.revive_services(), wake_worker("deliver")
waited = time.monotonic() - began
os.kill(redis, signal.SIGCONT)
print(changed, services._load_state(folder) == before, error is not None, waited < 8)
"""


@pytest.fixture(scope="module")
def empty_home(tmp_path_factory):
    """Made once: initdb takes longer than most tests here."""
    home = tmp_path_factory.mktemp("made") / "home"
    subprocess.run([sys.executable, "-c", LOOK], env=environment(home), check=True)
    return home


@pytest.fixture
def home(empty_home, tmp_path):
    yield copied(empty_home, tmp_path / "home")
    for folder in tmp_path.iterdir():
        services.stop_services(folder)


def copied(home, copy):
    subprocess.run(["cp", "-a", home, copy], check=True)
    return copy


def kept(home):
    return json.loads((home / "services.json").read_text())


def passwords(home):
    return {value for key, value in kept(home).items() if key.endswith("_password")}


def servers(home):
    """The processes that answer at the home's ports to its passwords, Postgres and Redis; None where none does."""
    state, found = kept(home), [None, None]
    url = services._url(state, services.OWNER, "trace")
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2) as connection:
        found[0] = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()[0].split()[0]
    with suppress(redis.ConnectionError), services._redis(state) as client:
        found[1] = client.info("server")["process_id"]
    return found


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
    return all(servers(home))


def is_down(home):
    return not any(servers(home))


def test_servers_live_as_long_as_somebody_needs_them_and_keep_their_data(home):
    first = start(home, "one", "wait")
    assert first.stdout.readline() == "1 1\n"
    second = start(home, "two")
    assert second.communicate()[0] == "2 2\n" and is_up(home)
    first.communicate("")
    assert is_down(home)


def test_nobody_else_may_look_into_a_home(home):
    home.chmod(0o755)  # as earlier versions left it
    assert start(home, "one").communicate()[0] == "1 1\n"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    home.chmod(0o750)  # as somebody chose
    assert start(home, "two").communicate()[0] == "2 2\n"
    assert stat.S_IMODE(home.stat().st_mode) == 0o750


def test_servers_left_by_a_killed_process_are_adopted_and_then_stopped(home):
    killed = start(home, "one", "wait")
    assert killed.stdout.readline() == "1 1\n"
    killed.kill()
    killed.wait()
    assert is_up(home)
    assert start(home, "two").communicate()[0] == "2 2\n"
    assert is_down(home)


def test_killed_postgres_is_recovered_with_its_rows(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1 1\n"
    os.kill(int((home / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_up(home) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert start(home, "two").communicate()[0] == "2 2\n"
    holder.communicate("")


def test_a_copy_of_a_running_home_has_servers_and_passwords_of_its_own(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1 1\n"
    copy, before = copied(home, home.with_name("copy")), servers(home)
    other = start(copy, "two", "wait")
    assert other.stdout.readline() == "2 2\n"
    assert start(home, "three").communicate()[0] == "2 2\n" and servers(home) == before
    assert len(passwords(home) | passwords(copy)) == 6
    other.communicate("")
    assert servers(home) == before and is_up(home) and is_down(copy)
    assert start(copy, "four", "wait").stdout.readline() == "3 3\n"
    holder.communicate("")
    assert is_up(copy) and is_down(home)


def test_a_copy_made_of_a_running_home_has_its_rows_and_sleeps_until_it_is_told_to_work(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1 1\n"
    (home / "store").mkdir()
    (home / "store" / "model").write_text("weights")
    (home / "store" / "scratch").symlink_to("what a job wrote and took away")
    copy, before = home.with_name("copy"), servers(home)
    make = [sys.executable, ROOT / "manage.py", "home_copy", copy]
    assert subprocess.run(make, env=environment(home), capture_output=True).returncode == 0
    other = start(copy, "two", "wait")
    assert other.stdout.readline() == "2 1\n" and servers(home) == before
    assert (copy / "store" / "model").read_text() == "weights" and (copy / "asleep").exists()
    assert len(passwords(home) | passwords(copy)) == 6
    again = subprocess.run(make, env=environment(home), capture_output=True, text=True)
    assert again.returncode == 1 and "must be a new folder" in again.stderr
    assert [path.name for path in home.parent.iterdir() if path.name.startswith(".")] == []
    other.communicate("")
    holder.communicate("")


def test_a_command_in_a_copy_of_a_running_home_leaves_the_homes_servers_alone(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1 1\n"
    copy, before = copied(home, home.with_name("copy")), servers(home)
    services.stop_services(copy)
    assert subprocess.run([sys.executable, "-c", LOOK], env=environment(copy)).returncode == 0
    assert servers(home) == before and is_up(home) and is_down(copy)
    holder.communicate("")


def test_another_homes_server_at_the_homes_port_is_not_used_though_it_takes_the_password(home):
    assert start(home, "one").communicate()[0] == "1 1\n"
    copy = copied(home, home.with_name("copy"))
    (copy / "services.json").write_text(json.dumps(kept(home) | {"home": str(copy)}))
    other = start(copy, "two", "wait")
    assert other.stdout.readline() == "2 2\n"
    assert passwords(home) == passwords(copy)
    assert {kept(home)[port] for port in ("postgres_port", "redis_port")} <= set(kept(copy).values())
    assert start(home, "two").communicate()[0] == "2 2\n"
    assert start(copy, "three").communicate()[0] == "3 3\n" and is_up(copy)
    other.communicate("")


def test_a_copy_killed_while_it_takes_new_passwords_starts_all_the_same(home):
    assert start(home, "one").communicate()[0] == "1 1\n"
    copy = copied(home, home.with_name("copy"))
    for number, step in enumerate(["_set_passwords", "_save_state", "_start_postgres", "_start_redis"]):
        killed = subprocess.run([sys.executable, "-c", KILLED, step], env=environment(copy))
        assert killed.returncode == -signal.SIGKILL, step
        if number % 2:
            assert start(copy, step).communicate()[0] == f"{number // 2 + 2} {number // 2 + 2}\n"
            (copy / "services.json").unlink()  # as in a backup without secrets
    assert start(copy, "last").communicate()[0] == "4 4\n"
    assert len(passwords(home) | passwords(copy)) == 6


def test_a_home_moved_while_it_runs_keeps_its_servers(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1 1\n"
    before, moved = servers(home), home.rename(home.with_name("moved"))
    holder.kill()
    holder.wait()
    second = start(moved, "two", "wait")
    assert second.stdout.readline() == "2 2\n" and servers(moved) == before
    second.communicate("")
    assert is_down(moved)


def test_a_home_of_an_earlier_version_keeps_its_passwords_and_its_copy_takes_others(home):
    assert start(home, "one").communicate()[0] == "1 1\n"
    earlier = {key: value for key, value in kept(home).items() if key != "home"}
    (home / "services.json").write_text(json.dumps(earlier))
    copy = copied(home, home.with_name("copy"))
    assert start(home, "two").communicate()[0] == "2 2\n" and kept(home) == earlier | {"home": str(home)}
    assert start(copy, "two").communicate()[0] == "2 2\n" and len(passwords(home) | passwords(copy)) == 6


def test_a_server_whose_port_was_taken_meanwhile_gets_another_and_the_supervisor_is_told(home):
    taken = [sys.executable, "-c", TAKEN]
    assert subprocess.check_output(taken, env=environment(home), text=True) == "True False\npostgres_port\n"


def test_a_redis_that_hangs_is_not_started_twice_and_nobody_waits_for_it_long(home):
    hung = [sys.executable, "-c", HUNG]
    said = subprocess.check_output(hung, env=environment(home), text=True)
    assert said == "False True True True\n"


@pytest.mark.long
def test_a_home_from_before_there_were_two_roles_gains_the_applications(home):
    holder = start(home, "one", "wait")
    assert holder.stdout.readline() == "1 1\n"
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
