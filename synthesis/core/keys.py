"""What makes a sample, and the three chained keys over it: query -> trace -> judge.

A key covers everything its stage was made from: the rule version, the contents of the tools its prompt shows, the
order of the pool (by the seed), model, prompt and parameters, few-shot queries, and the key of the stage before.
Equal inputs give equal keys, so a plan made twice is one plan, and a key that differs from today's is not current.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any

from synthesis.core.queries import RuleText, ToolText, carries_permissions
from trace_site.lib.files import canonical_json, content_hash

SCHEMA = 1
STAGES = ("query", "trace", "judge")
LONGEST = 60  # characters of a value that is kept as it is; of longer ones the hash
LONGEST_NAME = 200  # in a slot

MadeWith = Mapping[str, Mapping[str, Any]]  # {stage: what makes its artefacts}


@dataclass(frozen=True, slots=True)
class Side:
    """`content` is what can make a sample wrong; `stages`: per stage a digest of what all its samples share."""

    tools: Mapping[str, str]  # P: {name: mark of what prompts show of it}
    content: str
    stages: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Ground:
    """What every sample of one rule, or of one anchor, is made from.

    Permissions are shown to the samples that carry permission targets alone: those stand on `granted`.
    """

    domain: str
    of: str  # rule code or anchor
    rule: RuleText | None
    plain: Side
    granted: Side

    @property
    def tools(self) -> Mapping[str, str]:
        """P by name, whatever is shown of it."""
        return self.plain.tools

    def side(self, granted: bool | None) -> Side:
        return self.granted if granted else self.plain


def tool_mark(tool: ToolText) -> str:
    """Changes when anything that every prompt shows of the tool does."""
    return content_hash([tool.name, tool.description, tool.deprecated])[:12]


def granted_mark(tool: ToolText) -> str:
    """The same with its permissions, after a plus."""
    return f"{tool_mark(tool)}+{content_hash(list(tool.permissions))[:12]}"


def rule_facts(rule: RuleText) -> dict[str, Any]:
    return {"code": rule.code, "version": rule.version, "hash": rule.hash}


def ground(
    *,
    domain: str,
    of: str,
    rule: RuleText | None,
    plain: Mapping[str, str],
    granted: Mapping[str, str],
    made_with: MadeWith,
    share: float,
) -> Ground:
    """`plain`, `granted`: P with the tools' marks. A rule's query prompt shows T(r), all other prompts the pool."""
    query = made_with["query"]
    pool = sorted(plain.items())
    # the offline writer tells a rule's tools apart by the whole pool
    shown = [row for row in pool if row[0] in rule.tools] if rule and "prompt" in query else pool
    said = [rule_facts(rule), list(rule.tools)] if rule else [of]
    asked = content_hash([SCHEMA, said, shown, dict(query)])
    judged = content_hash([content_hash([SCHEMA, said, pool]), dict(made_with["judge"])])

    def side(tools: Mapping[str, str]) -> Side:
        content = content_hash([SCHEMA, said, sorted(tools.items())])
        traced = content_hash([content, dict(made_with["trace"]), share])
        return Side(tools, content[:24], (asked, traced, judged))

    return Ground(domain, of, rule, side(plain), side(granted))


def slot_name(branch: str, domain: str, of: str, kind: str, index: int) -> str:
    """A sample's place in the plan. `of`: rule code or anchor; `kind`: style or tier."""
    if len(of) > LONGEST_NAME:
        of = f"{of[: LONGEST_NAME - 17]}~{content_hash(of)[:16]}"
    return f"{branch}:{domain}:{of}:{kind}:{index}"


def stage_keys(
    made: Ground, kind: str, index: int, seed: int, batch: int | None, shots: str, granted: bool | None
) -> tuple[str, str, str]:
    """The keys of query, trace and judge; the last is the sample's. `shots` is the digest of its few-shot queries."""
    stages = made.side(granted).stages
    said = f"{stages[0]}|{made.domain}|{made.of}|{kind}|{index}|{seed}|{batch}|{shots}"
    query = sha256(said.encode()).hexdigest()
    trace = sha256(f"{query}|{stages[1]}".encode()).hexdigest()
    return query, trace, sha256(f"{trace}|{stages[2]}".encode()).hexdigest()


def made_from(
    made: Ground,
    *,
    branch: str,
    kind: str,
    index: int,
    seed: int,
    batch: int | None,
    shots: Sequence[str],
    granted: bool,
    told: MadeWith,
) -> tuple[str, dict[str, Any]]:
    """A sample's key, and the inputs behind it that are kept on it: names, and hashes that stand for texts.

    `told` is `compact_made_with`, the same for all samples of a run.
    """
    keys = stage_keys(made, kind, index, seed, batch, shots_digest(shots), granted)
    side = made.side(granted)
    stages = {stage: {**told[stage], "key": key[:24]} for stage, key in zip(STAGES, keys, strict=True)}
    stages["query"]["few_shot"] = [shot_mark(text) for text in shots]
    inputs = {
        "branch": branch,
        "rule": rule_facts(made.rule) if made.rule else None,
        "anchor": "" if made.rule else made.of,
        "style" if made.rule else "tier": kind,
        "index": index,
        "seed": seed,
        "batch_seed": batch,
        "granted": granted,
        "content": side.content,
        "tools": dict(sorted(side.tools.items())),
        "stages": stages,
    }
    return keys[-1], inputs


def compact_made_with(made_with: MadeWith, share: float) -> MadeWith:
    told = {stage: compact(made_with[stage]) for stage in STAGES}
    return {**told, "trace": {**told["trace"], "permission_share": share}}


def compact(value: Any) -> Any:
    """A short value as JSON gives it back, of a long one its hash; mappings item by item."""
    if isinstance(value, Mapping):
        return {str(name): compact(item) for name, item in value.items()}
    said = canonical_json(value)
    return json.loads(said) if len(said) <= LONGEST else f"#{content_hash(value)[:12]}"


def shot_mark(text: str) -> str:
    return content_hash(text)[:12]


def shots_digest(shots: Iterable[str]) -> str:
    return "-".join(map(shot_mark, shots))


def sample_seed(seed: int, *parts: object) -> int:
    """A seed of its own for every sample, from the run's seed and the sample's place; it outlives rule versions."""
    return random.Random(f"{seed}|{'|'.join(map(str, parts))}").getrandbits(31)


def seed_again(seed: int, critique: str, share: float) -> int:
    """The seed of a sample written again after people refused one: each critique draws anew, so has its own key.

    It falls on the same side of the permission share, so that both samples stand on the same tool contents.
    """
    granted = carries_permissions(share, seed)
    draws = (sample_seed(seed, "again", critique, number) for number in count())
    return next(draw for draw in draws if carries_permissions(share, draw) == granted)


def batch_seed(seed: int, rule: RuleText, style: str, index: int, per_call: int) -> int:
    """The seed of a batch of rule queries: the same for every query that one call writes."""
    return sample_seed(seed, rule.domain, rule.code, style, "batch", index // per_call, per_call)
