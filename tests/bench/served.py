"""What benches of the running site share: its processes as `manage.py up` starts them, and what they take of the
processor."""

import os
import subprocess
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def served(*names: str) -> Iterator[dict[str, tuple[str, int]]]:
    """{name of a process, `web` or `endpoint`: (its address, its id)}."""
    from trace_site.dev.services import first_free_port
    from trace_site.dev.supervisor import children, stop

    port = first_free_port(0)
    ports = {"web": port, "endpoint": first_free_port(port + 1)}
    parts = [one for one in children(port, ports["endpoint"]) if one.name in names]
    for part in parts:
        part.process = subprocess.Popen(part.command, cwd=ROOT)
    try:
        found = {}
        for part in parts:
            url = f"http://127.0.0.1:{ports[part.name]}"
            assert part.process is not None
            while not answers(url):
                assert part.process.poll() is None, "the site did not start"
                time.sleep(0.1)
            found[part.name] = url, part.process.pid
        yield found
    finally:
        stop(parts)


def answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/healthz", timeout=5):
        return True
    return False


def cookie_of(username: str, role: str = "") -> str:
    """Of a person who has signed in."""
    from django.conf import settings
    from django.contrib.auth.models import Group, User
    from django.test import Client

    user, _ = User.objects.get_or_create(username=username)
    user.groups.set(Group.objects.filter(name=role))
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def processor_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    """{name: what the process of this id and all below it have used}; of those that have ended too."""
    below, used = defaultdict(list), {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal():
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                below[int(fields[1])].append(int(folder.name))
                used[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def whole(pid: int) -> float:
        return used.get(pid, 0.0) + sum(map(whole, below[pid]))

    return {name: whole(pid) for name, pid in processes.items()}
