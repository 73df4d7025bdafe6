"""Reads the judged samples as judge requests, and measures a judge on them.

Demo tools and rules come from the demo; tools and rules of the public data are fetched by name when that data is there.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

from synthesis.core.queries import AXES, THRESHOLDS, Clause, JudgeRequest, RuleText, ToolText, Verdict
from synthesis.offline.judge import OfflineJudge
from trace_site.lib.files import read_jsonl

HERE = Path(__file__).parent
DEMO = settings.BASE_DIR / "trace_site" / "demo"
AXIS = {"label": ("label",), "trace": ("faithfulness",), "query": ("naturalness", "compliance")}


@dataclass(frozen=True)
class Judged:
    row: dict[str, Any]
    verdict: Verdict

    @property
    def refused(self) -> bool:
        return not self.verdict.passed


def samples(half: str) -> list[tuple[dict[str, Any], JudgeRequest]]:
    """Every sample of a half whose tools are known here."""
    rows = [json.loads(line) for line in (HERE / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(row, asked(row)) for row in rows if row["book"] == "demo" or public()]


def asked(row: dict[str, Any]) -> JudgeRequest:
    tools = demo() if row["book"] == "demo" else public()
    rule = _rule(row)
    trace = row["trace"].replace("{code}", rule.code if rule else "")
    trace = re.sub(r"\{says:(.*?)\}", lambda found: _opening(tools[found[1]].description), trace)
    pool = tuple(tools[name] for name in row["pool"])
    shape = (row["id"], row["branch"], row["query"], trace, tuple(row["answer"]), pool)
    return JudgeRequest(*shape, row["style"], row["tier"], rule)


def judged(half: str) -> list[Judged]:
    judge = OfflineJudge(THRESHOLDS)
    return [Judged(row, asyncio.run(judge.judge(request))) for row, request in samples(half)]


def table(found: Sequence[Judged]) -> str:
    """Planted ones caught and clean ones refused: by family, by kind, and which axis spoke."""
    lines = []
    for family in sorted({one.row["family"] for one in found}):
        mine = [one for one in found if one.row["family"] == family]
        axes = Counter(axis for one in mine for axis in one.verdict.failed_axes)
        spoken = ", ".join(f"{axis} {axes[axis]}" for axis in AXES)
        own = sum(bool(set(one.verdict.failed_axes) & set(AXIS.get(family, ()))) for one in mine)
        lines.append(f"{family:6} {_share(mine)}  own axis {own}; {spoken}")
        lines += [f"  {kind:24} {_share(part)}" for kind, part in _by(mine, lambda one: one.row["kind"])]
        lines += [f"  [{book}] {_share(part)}" for book, part in _by(mine, lambda one: one.row["book"])]
    return "\n".join(lines)


def _share(found: Sequence[Judged]) -> str:
    refused = sum(one.refused for one in found)
    return f"{refused:4} of {len(found):4} refused ({refused / len(found):6.1%})"


def _by(found: Sequence[Judged], key: Callable[[Judged], str]) -> list[tuple[str, list[Judged]]]:
    return [(name, [one for one in found if key(one) == name]) for name in sorted({*map(key, found)})]


@cache
def demo() -> dict[str, ToolText]:
    return _tools(DEMO / "hr_tools.jsonl", DEMO / "finance_tools.jsonl")


@cache
def public() -> dict[str, ToolText]:
    """The public tools by name; empty where the public data is not there."""
    return _tools(*sorted((Path(settings.TRACE_PUBLIC_DATA) / "catalog").glob("*.jsonl")))


def _tools(*paths: Path) -> dict[str, ToolText]:
    rows = [row for path in paths for _, row in read_jsonl(path)]
    return {
        row["name"]: ToolText(row["name"], row["description"], tuple(row["permissions"]), row["deprecated"])
        for row in rows
    }


@cache
def _rules() -> dict[Any, RuleText]:
    found: dict[Any, RuleText] = {}
    for entry in json.loads((DEMO / "rules.json").read_text(encoding="utf-8")):
        clauses = tuple(
            Clause(**clause | {"signals": tuple(clause["signals"])}) for clause in entry["clauses"]
        )
        found[entry["code"]] = _rule_text(entry, entry["code"], clauses)
    path = Path(settings.TRACE_PUBLIC_DATA) / "rules" / "rules.json"
    for number, entry in enumerate(json.loads(path.read_text(encoding="utf-8")) if path.exists() else ()):
        for name in entry["confusables"]:
            found.setdefault((entry["tool_name"], name), _rule_text(entry, f"RULE_{number}", ()))
    return found


def _rule_text(entry: dict[str, Any], code: str, clauses: tuple[Clause, ...]) -> RuleText:
    confusables = tuple(entry["confusables"])
    return RuleText(
        code, 1, entry["tool_name"], confusables, entry["rule_text"], clauses, code, entry["domain"]
    )


def _rule(row: dict[str, Any]) -> RuleText | None:
    named = row["rule"]
    if not named:
        return None
    return _rules()[named if isinstance(named, str) else (named["target"], named["alt"])]


def _opening(description: str) -> str:
    return " ".join(re.split(r"[:;,(.]", description)[0].split()[:14]).lower()
