"""A small catalog with 123 rules that random scripts edit, and the oracle: the bytes that would be sent.

Public tools and rules where they are present, else ones made up here. Neighbours come from hashed bags of words through
the catalog's own exact top K. Nothing here knows of keys: the oracle renders the prompts of all three stages.
"""

import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from django.conf import settings

from catalog.core.neighbours import top_k
from synthesis.core.clauses import reasons_unsupported
from synthesis.core.plan import shuffled_pool
from synthesis.core.queries import (
    RULE_STYLES,
    TIERS,
    JudgeRequest,
    QueryRequest,
    RuleText,
    ToolText,
    TraceRequest,
    permission_targets,
)
from synthesis.core.recipe import Recipe, default_recipe, read_recipe
from synthesis.llm import prompts
from synthesis.llm.writers import judge_call, query_call, trace_call
from synthesis.samples.inputs import FewShots
from trace_site.lib.files import content_hash

K = 8
WIDTH = 256
FILLERS = 400  # tools that no rule names
ANCHORS = 60
PROMPTS = ("query_rule", "query_rrb", "trace", "judge")
ROLES = ("generator", "teacher", "judge")
SEED = 5

SHOWN: dict[str, str] = {}  # the prompts that `prompts.source` reads while a world is looked at

Place = tuple[str, str, str, int]  # branch, rule code or anchor, style or tier, index


@dataclass(slots=True)
class World:
    tools: dict[str, ToolText]
    rules: dict[str, RuleText]
    anchors: list[str]
    shots: list[str]
    recipe: Recipe = field(default_factory=default_recipe)
    models: dict[str, str] = field(default_factory=lambda: dict.fromkeys(ROLES, "model-1"))
    prompts: dict[str, str] = field(default_factory=lambda: {name: prompts.source(name) for name in PROMPTS})
    near: dict[str, list[str]] = field(default_factory=dict)

    def copy(self) -> "World":
        return replace(
            self,
            tools=dict(self.tools),
            rules=dict(self.rules),
            anchors=list(self.anchors),
            shots=list(self.shots),
            models=dict(self.models),
            prompts=dict(self.prompts),
        )

    def refresh(self) -> "World":
        """Neighbours anew, as the catalog does after an edit."""
        names = sorted(self.tools)
        rows = np.array([_bag(self.tools[name].name, self.tools[name].description) for name in names])
        found, _ = top_k(rows, K)
        self.near = {name: [names[at] for at in found[place]] for place, name in enumerate(names)}
        return self


@cache
def _bag(name: str, description: str) -> Any:
    row = np.zeros(WIDTH, dtype=np.float32)
    for word in f"{name.replace('/', ' ')} {description}".lower().split():
        row[zlib.crc32(word.encode()) % WIDTH] += 1
    return row / max(1.0, float(np.linalg.norm(row)))


def make_world() -> World:
    folder = settings.TRACE_PUBLIC_DATA
    tools, rules = _public(folder) if (folder / "rules" / "rules.json").exists() else _made_up()
    rng = random.Random(1)
    named = {name for rule in rules for name in rule.tools}
    others = sorted(tools.keys() - named)
    kept = named | set(rng.sample(others, min(FILLERS, len(others))))
    anchors = [name for name in rng.sample(sorted(kept), ANCHORS) if not tools[name].deprecated]
    shots = [f"how do i {verb} my {thing}" for verb in VERBS for thing in THINGS]
    world = World({name: tools[name] for name in kept}, {rule.code: rule for rule in rules}, anchors, shots)
    return world.refresh()


def _public(folder: Any) -> tuple[dict[str, ToolText], list[RuleText]]:
    tools = {}
    for path in sorted((folder / "catalog").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            tools[row["name"]] = ToolText(
                row["name"], row["description"][:200], tuple(row["permissions"]), row["deprecated"]
            )
    rows = json.loads((folder / "rules" / "rules.json").read_text("utf-8"))
    return tools, [
        _rule(f"RULE_{number}", 1, row["tool_name"], tuple(row["confusables"]), row["rule_text"])
        for number, row in enumerate(rows)
    ]


THINGS = ("payslip", "invoice", "leave", "contract", "refund", "budget", "account", "badge")
VERBS = ("read", "list", "create", "cancel", "approve", "export")


def _made_up() -> tuple[dict[str, ToolText], list[RuleText]]:
    tools, rules = {}, []
    for number in range(123):
        thing, verb = THINGS[number % 8], VERBS[number % 6]
        names = [f"{thing.title()}{number}V{version}/{verb.title()}" for version in (1, 2, 3)]
        for version, name in enumerate(names, start=1):
            text = f"{verb.title()}s the {thing} of team {number}, edition {version}."
            tools[name] = ToolText(name, text, (f"{thing}.{verb}",))
        text = f"From 2024 on use {names[2]}; for older years use {names[0]}, never {names[1]}."
        rules.append(_rule(f"RULE_{number}", 1, names[2], (names[0], names[1]), text))
    for number in range(FILLERS):
        name = f"Other{number}/{VERBS[number % 6].title()}"
        tools[name] = ToolText(
            name, f"{VERBS[number % 6]}s a {THINGS[number % 7]} record {number}.", ("other",)
        )
    return tools, rules


def _rule(code: str, version: int, target: str, confusables: tuple[str, ...], text: str) -> RuleText:
    digest = content_hash([target, sorted(confusables), text])
    return RuleText(code, version, target, confusables, text, hash=digest, domain="all")


# ---- edits ----


def edit_rule(world: World, rng: random.Random) -> None:
    rule = world.rules[rng.choice(sorted(world.rules))]
    text = f"{rule.text} Ask twice when the year is missing ({rng.randrange(10**6)})."
    world.rules[rule.code] = _rule(rule.code, rule.version + 1, rule.target, rule.confusables, text)


def edit_tool(world: World, rng: random.Random) -> None:
    tool = _any_tool(world, rng)
    other = _any_tool(world, rng)
    world.tools[tool.name] = rng.choice(
        [
            replace(tool, description=f"{tool.description} Also {rng.randrange(10**6)}."),
            replace(tool, description=other.description),
            replace(tool, permissions=(*tool.permissions, "extra")),
            replace(tool, deprecated=not tool.deprecated),
        ]
    )


def rename_tool(world: World, rng: random.Random) -> None:
    tool = _any_tool(world, rng)
    del world.tools[tool.name]
    name = f"{tool.name}Renamed{rng.randrange(10**6)}"
    world.tools[name] = replace(tool, name=name)


def add_tool(world: World, rng: random.Random) -> None:
    like = _any_tool(world, rng)
    name = f"{like.api}/Added{rng.randrange(10**6)}"
    world.tools[name] = replace(like, name=name, description=f"{like.description} Newer.", deprecated=False)


def retire_tool(world: World, rng: random.Random) -> None:
    del world.tools[_any_tool(world, rng).name]


def _any_tool(world: World, rng: random.Random) -> ToolText:
    """Of a rule as often as of none."""
    named = sorted({name for rule in world.rules.values() for name in rule.tools} & world.tools.keys())
    return world.tools[rng.choice(named if rng.random() < 0.5 else sorted(world.tools))]


def edit_prompt(world: World, rng: random.Random) -> None:
    name = rng.choice(PROMPTS)
    world.prompts[name] = f"{world.prompts[name]}\nTake your time ({rng.randrange(10**6)})."


def change_model(world: World, rng: random.Random) -> None:
    world.models[rng.choice(ROLES)] = f"model-{rng.randrange(10**6)}"


def change_recipe(world: World, rng: random.Random) -> None:
    stage, name, value = rng.choice(
        [
            ("query", "temperature", 0.5),
            ("query", "few_shots", 3),
            ("query", "per_call", 5),
            ("query", "words", [4, 50]),
            ("trace", "verbatim", True),
            ("trace", "permission_share", 0.3),
            ("judge", "max_tokens", 700),
            ("judge", "thresholds", {**default_recipe().judge.thresholds, "label": 5}),
        ]
    )
    values = world.recipe.as_dict()
    values[stage][name] = value
    world.recipe = read_recipe(values)


def add_few_shot(world: World, rng: random.Random) -> None:
    world.shots.append(f"where can i see number {rng.randrange(10**6)}")


def retire_rule(world: World, rng: random.Random) -> None:
    del world.rules[rng.choice(sorted(world.rules))]


def add_rule(world: World, rng: random.Random) -> None:
    a, b = rng.sample(sorted(world.tools), 2)
    code = f"ADDED_{rng.randrange(10**6)}"
    world.rules[code] = _rule(code, 1, a, (b,), f"In urgent cases use {a}, otherwise {b}.")


LOCAL = (edit_rule, edit_tool, rename_tool, add_tool, retire_tool, retire_rule, add_rule, add_few_shot)
GLOBAL = (edit_prompt, change_model, change_recipe)


def edited(world: World, seed: int) -> tuple[World, list[str]]:
    """One to four edits; every fifth script has one that reaches all samples of a stage."""
    rng = random.Random(seed)
    found = world.copy()
    edits: list[Callable[[World, random.Random], None]] = [
        rng.choice(LOCAL) for _ in range(rng.randint(1, 4))
    ]
    if seed % 5 == 0:
        edits[0] = rng.choice(GLOBAL)
    for edit in edits:
        edit(found, rng)
    return found.refresh(), [edit.__name__ for edit in edits]


# ---- the oracle ----


def places(world: World) -> Iterator[Place]:
    """Every slot that the world can fill; two numbers a style, the second of another batch."""
    for code, rule in sorted(world.rules.items()):
        reasons = reasons_unsupported(rule, world.tools)
        for style in (style for style in RULE_STYLES if style not in reasons):
            yield from (("rule", code, style, index) for index in (0, 4))
    for anchor in world.anchors:
        if anchor in world.tools and not world.tools[anchor].deprecated:
            live = [name for name in (anchor, *world.near[anchor]) if not world.tools[name].deprecated]
            yield from (("rrb", anchor, tier, 0) for tier, (least, _) in TIERS.items() if len(live) >= least)


def sent(world: World, place: Place, seed: int, batch: int | None) -> tuple[bytes, bytes, bytes]:
    """What would go out for one sample at its seeds: per stage the call, its model and the recipe's part."""
    branch, of, kind, index = place
    rule = world.rules[of] if branch == "rule" else None
    own = [name for name in (rule.tools if rule else (of,)) if name in world.tools]
    pool = tuple(world.tools[name] for name in shuffled_pool(own, world.near, seed))
    count = world.recipe.query.few_shots
    shots = _shots(tuple(world.shots), count).chosen(seed if batch is None else batch)
    request = QueryRequest(
        branch=branch,
        domain="all",
        pool=pool,
        seed=seed,
        index=index,
        style=kind if rule else "",
        tier="" if rule else kind,
        rule=rule,
        anchor="" if rule else of,
        few_shot=shots,
        batch_seed=batch,
    )
    answer = (own[-1] if kind == "exception" else own[0],)
    return _calls(request, answer, world.recipe, tuple(world.models.items()), tuple(world.prompts.items()))


@cache
def _shots(texts: tuple[str, ...], count: int) -> FewShots:
    return FewShots(texts, count)


_made: dict[Any, bytes] = {}


def _calls(
    request: QueryRequest, answer: tuple[str, ...], recipe: Recipe, models: Any, sources: Any
) -> tuple[bytes, bytes, bytes]:
    """The stages in turn; what a stage answers stands for what it was asked, so a change reaches the next ones."""
    texts, named = dict(sources), dict(models)
    name = "query_rule" if request.rule else "query_rrb"
    query = _sent(name, texts, named["generator"], request, recipe.query, query_call)
    given = permission_targets(answer, request.pool, recipe.trace.permission_share, request.seed)
    traced = TraceRequest(
        f"query {content_hash(query.hex())}", answer, request.pool, request.seed, request.rule, given
    )
    trace = _sent("trace", texts, named["teacher"], traced, recipe.trace, trace_call)
    judged = JudgeRequest(
        "", request.branch, traced.query, content_hash(trace.hex()), answer, request.pool, request.style,
        request.tier, request.rule,
    )  # fmt: skip
    judge = _sent("judge", texts, named["judge"], judged, recipe.judge, judge_call)
    return query, trace, judge


def _sent(name: str, texts: dict[str, str], model: str, request: Any, part: Any, call: Any) -> bytes:
    """Rendered once per equal request, prompt and recipe: rendering is pure and slow."""
    known = (name, texts[name], request, json.dumps(asdict(part), sort_keys=True))
    if known not in _made:
        SHOWN.update(texts)
        made = call(request, part)
        arguments = {**made.arguments(), "prompt_hash": ""}
        _made[known] = json.dumps([arguments, json.loads(known[3])], sort_keys=True).encode()
    return model.encode() + b"\n" + _made[known]
