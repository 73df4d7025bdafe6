"""Loaded by pytest before Django's settings: tests use servers and a data folder of their own."""

import os
from pathlib import Path

os.environ.setdefault("TRACE_HOME", str(Path(__file__).resolve().parents[2] / ".trace-test"))

from trace_site.dev.services import ensure_services  # noqa: E402

ensure_services()
