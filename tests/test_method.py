"""The page of the method: its files are there and few, and its values are what the code gives today."""

import asyncio
import json
import re

from catalog.core.tokens import NameIndex, clause_token
from rules.core.rule import make_content
from rules.core.text_clauses import text_clauses
from synthesis.core.filters import Candidate, FilterContext, failures
from synthesis.core.keys import compact_made_with, ground, made_from, sample_seed, tool_mark
from synthesis.core.names import ToolNames, rule_codes
from synthesis.core.plan import Group, plan_style, shuffled_pool
from synthesis.core.queries import JudgeRequest, QueryRequest, TraceRequest
from synthesis.core.recipe import default_recipe
from synthesis.core.snapshot import Entry, compose, decisive_clauses
from synthesis.offline.writer import offline_writers
from tests.sources import ROOT
from tests.synthesis.test_demo_queries import DEMO, demo_rules, demo_tools
from training.core.recipe import Recipe
from training.core.records import Snapshot, stage2_records

PAGE = (ROOT / "docs" / "method.md").read_text() if (ROOT / "docs" / "method.md").exists() else ""
FILES = re.findall(r"^## \d+\. `(\S+)`", PAGE, re.MULTILINE)
CODE, SEED = "PAYSLIP_PERIOD", 0


def walk() -> list[str]:
    """The values of the page, in its order."""
    entry = next(row for row in json.loads((DEMO / "rules.json").read_text()) if row["code"] == CODE)
    content = make_content(
        target=entry["tool_name"],
        confusables=entry["confusables"],
        text=entry["rule_text"],
        clauses=entry["clauses"],
        tests=entry["tests"],
    )
    rule = next(one for one in demo_rules() if one.code == CODE)
    tools, recipe = demo_tools(), default_recipe()
    writers = offline_writers(recipe)
    slot = next(plan_style(CODE, "exception", Group(), 1, rewrite=False, key_of=lambda *_: "").slots())
    seed = sample_seed(SEED, rule.domain, CODE, slot.kind, slot.index)
    pool = shuffled_pool(rule.tools, {}, seed)
    texts = tuple(tools[name] for name in pool)
    request = QueryRequest("rule", rule.domain, texts, seed, slot.index, style=slot.kind, rule=rule)
    draft = asyncio.run(writers.query.write(request))
    trace = asyncio.run(
        writers.trace.write(
            TraceRequest(draft.query, draft.answer, texts, seed, rule, explanation=draft.explanation)
        )
    ).trace
    sample = Candidate(
        "rule", draft.query, draft.answer, frozenset(pool), trace, slot.kind, "", CODE, rule.tools
    )
    dead = frozenset(name for name, tool in tools.items() if tool.deprecated)
    context = FilterContext(ToolNames(tools), dead, codes=rule_codes([CODE]))
    verdict = asyncio.run(
        writers.judge.judge(
            JudgeRequest("1", "rule", draft.query, trace, draft.answer, texts, slot.kind, rule=rule)
        )
    )
    made, share = writers.made_with("rule"), recipe.trace.permission_share
    marks = {tool.name: tool_mark(tool) for tool in texts}
    stands_on = ground(
        domain=rule.domain, of=CODE, rule=rule, plain=marks, granted=marks, made_with=made, share=share
    )
    key, _ = made_from(
        stands_on,
        branch="rule",
        kind=slot.kind,
        index=slot.index,
        seed=seed,
        batch=None,
        shots=(),
        granted=False,
        told=compact_made_with(made, share),
    )
    chosen = compose(
        [Entry(1, key, "rule", slot.kind, CODE, draft.answer, frozenset(pool), rule.domain)],
        strategy="append",
        per_rule=12,
        rrb=None,
        seed=SEED,
    ).chosen
    units = NameIndex(pool, "a").units[draft.answer[0]]
    clauses = text_clauses(content)
    statements = [
        {"token": clause_token(rule.domain, CODE, number), "stance": clause.stance, "tools": clause.tools}
        for number, clause in enumerate(clauses, 1)
    ]
    line = {"id": 1, "branch": "rule", "query": draft.query, "answer": list(draft.answer), "trace": trace}
    spoken = decisive_clauses(line | {"domain": rule.domain, "rule": CODE}, {(rule.domain, CODE): statements})
    named = [{"name": name} for name in pool]
    (record, *_) = stage2_records(
        Snapshot(named, {}, [], [], [line], "", ""), Recipe(format="a", retrieval="r+R")
    )
    return [
        content.content_hash()[:12],
        clauses[1].text,
        ", ".join(pool),
        f"{slot.of}, {slot.kind}, {slot.index}",
        draft.query,
        trace,
        str(failures(sample, context)),
        str(verdict.scores),
        key[:12],
        str([one.id for one in chosen]),
        str(spoken),
        "".join(units),
        str(record.answer),
    ]


def test_page_names_at_most_ten_files_that_are_there_and_says_how_long_they_are():
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in FILES)
    assert 0 < len(FILES) <= 10
    assert f"{lines:,} lines" in PAGE
    assert lines <= 1_700


def test_values_on_the_page_are_what_the_code_gives():
    assert [value for value in walk() if f"`{value}`" not in PAGE] == []
