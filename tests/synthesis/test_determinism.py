"""The offline writers and judge give the same samples in every process, however Python orders its sets."""

import os
import subprocess
import sys

from django.conf import settings

PROGRAM = """
import asyncio
import django
django.setup()
from tests.synthesis.test_demo_queries import demo_tools
from synthesis.offline.judge import tool_scores
from synthesis.core.queries import QueryRequest
from synthesis.core.recipe import default_recipe
from synthesis.core.filters import FilterContext
from synthesis.core.names import ToolNames
from synthesis.generate.pipeline import Pipeline, Unit
from synthesis.offline.writer import offline_writers
tools = demo_tools()
names = sorted(tools)
pipeline = Pipeline(offline_writers(default_recipe()), FilterContext(ToolNames(tools), frozenset()))
for at in range(0, 60):
    pool = tuple(tools[name] for name in names[at * 3 : at * 3 + 14])
    unit = Unit(at, QueryRequest("rrb", "hr", pool, 0, at, anchor=pool[0].name, tier="hard"))
    made = asyncio.run(pipeline.make(unit))
    print(made.draft.query if made.draft else None, made.trace, made.ready)
    print(tool_scores(pool[0].description, None, pool))
"""


def generated(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "DJANGO_SETTINGS_MODULE": "trace_site.settings"}
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, capture_output=True, text=True, cwd=settings.BASE_DIR, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_samples_do_not_depend_on_the_order_of_sets():
    assert generated("1") == generated("2")
