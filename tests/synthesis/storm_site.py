"""The site as `manage.py up` serves it, on the database of the test, to be killed and started again."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from trace_site.dev.supervisor import SERVER

ROOT = Path(__file__).resolve().parent.parent.parent
UP_S = 60


class Site:
    """`kill` is kill -9 of the whole process group, in the middle of whatever it answers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "granian", *SERVER, "--port", str(self.port)]
        self.process = subprocess.Popen(command, cwd=ROOT, env=_environment(), start_new_session=True)
        ended = time.monotonic() + UP_S
        while not self.answers():
            assert time.monotonic() < ended and self.process.poll() is None, "the site did not start"
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/login/", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _environment() -> dict[str, str]:
    from django.db import connection

    database = connection.settings_dict
    place = f"{database['HOST']}:{database['PORT']}/{database['NAME']}"
    return {
        **os.environ,
        "DATABASE_URL": f"postgresql://{database['USER']}:{database['PASSWORD']}@{place}",
        "DJANGO_SETTINGS_MODULE": "tests.storm_settings",
    }
