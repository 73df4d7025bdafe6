"""Builds the judged samples from the hand-written texts of this folder: `python -m tests.synthesis.judged.make`.

Clean samples combine a hand-written request with a trace in one of the voices of voices.py; planted ones break one
thing. The seed splits requests, and the wordings of faults, at random into a development half and a held-out half: no
request and no wording of a fault is in both, and some voices are heard in the held-out half only. Run once; the files
it writes are the material, this script says how they came about.
"""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.synthesis.judged import voices

HERE = Path(__file__).parent
DEMO = Path(__file__).resolve().parents[3] / "trace_site" / "demo"
SEED = 20240611
Row = dict[str, Any]
rng = random.Random(SEED)


def read(name: str) -> Any:
    return yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))


def lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (DEMO / name).read_text(encoding="utf-8").splitlines()]


TOOLS = {tool["name"]: tool for name in ("hr_tools.jsonl", "finance_tools.jsonl") for tool in lines(name)}
RULES = {rule["code"]: rule for rule in json.loads((DEMO / "rules.json").read_text(encoding="utf-8"))}
CASES = {code: cases for name in ("hr_cases", "finance_cases") for code, cases in read(name).items()}
TWINS = {
    "PAYSLIP_LINE": "PAYSLIP_PERIOD",
    "JOURNAL_CLOSE_BATCH": "JOURNAL_ASTER_CHART",
    "INVOICE_PO_MATCH": "INVOICE_EMANDATE",
}
RRB, PUBLIC, PLANTS = read("rrb_cases"), read("public_cases"), read("plants")
WORD = re.compile(r"[a-z]{3,}")
STOP = re.compile(r"the|and|for|from|with|that|this|who|are|has|was|its|our|their|any|not|one")


def api(tool: str) -> str:
    return tool.partition("/")[0]


def content(text: str) -> set[str]:
    return {word[:6] for word in WORD.findall(text.lower()) if not STOP.fullmatch(word)}


def alike(one: set[str], two: set[str]) -> float:
    return len(one & two) / len(one | two)


def asked(line: str) -> tuple[str, str]:
    """(request, its deciding words)."""
    cue = " ".join(re.findall(r"\[(.*?)\]", line))
    return line.replace("[", "").replace("]", ""), cue


def listed(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def situations() -> Iterator[Row]:
    """One row per hand-written request of a rule, with what is needed to write any trace on it."""
    for code, cases in CASES.items():
        for case in cases:
            for letter, style in (("E", "explicit"), ("I", "implicit"), ("X", "exception")):
                for line in listed(case.get(letter, "")):
                    yield situation(code, case, style, line)
    for code, source in TWINS.items():
        for case in CASES[source]:
            target = case["tool"] == RULES[code]["tool_name"]
            for line in listed(case.get("X", case.get("I", "")))[:3]:
                yield situation(code, case, "implicit" if target else "exception", line)
    for rule in PUBLIC["rules"]:
        for letter, style in (("E", "explicit"), ("I", "implicit"), ("X", "exception")):
            for line in rule.get(letter, ()):
                yield _public(rule, style, line)


def situation(code: str, case: Row, style: str, line: str) -> Row:
    rule = RULES[code]
    all_cases = CASES[TWINS.get(code, code)]
    others = [other for other in all_cases if other["tool"] != case["tool"]]
    query, cue = asked(line)
    when = next(c["when"] for c in rule["clauses"] if c["route_to"] == case["tool"])
    dead = [name for name in rule["confusables"] if TOOLS[name]["deprecated"]]
    decoys = [n for n in TOOLS if TOOLS[n]["domain"] == rule["domain"] and n not in rule["confusables"]]
    pool = [rule["tool_name"], *rule["confusables"], *rng.sample(decoys, 6)]
    sentences = [s for s in re.split(r"(?<=[.;:]) ", rule["rule_text"]) if case["tool"] in s]
    sentence = sentences[0] if sentences else case["why"]
    shape = {"book": "demo", "branch": "rule", "rule": code, "style": style, "query": query, "cue": cue}
    return shape | {"case": case, "others": others, "when": when, "pool": list(dict.fromkeys(pool)),
                    "sentence": sentence, "target": rule["tool_name"], "dead": dead}  # fmt: skip


def _public(rule: Row, style: str, line: str) -> Row:
    tool, other = (rule["target"], rule["alt"]) if style != "exception" else (rule["alt"], rule["target"])
    why = (
        rule["why"] if style != "exception" else f"the case of {rule['target']}, {rule['why']}, is not given"
    )
    gist = rule["gist"] if style != "exception" else line
    swapped = {"tool": other, "gist": rule["gist"] if style == "exception" else "what the neighbour is for",
               "why": f"it is {other} that serves this"}  # fmt: skip
    near = [one["target"] for one in PUBLIC["rules"]] + [one["tool"] for one in PUBLIC["easy"]]
    pool = list(dict.fromkeys([rule["target"], rule["alt"], *rng.sample(near, 5)]))
    named = {"target": rule["target"], "alt": rule["alt"]}
    case = {"tool": tool, "gist": gist, "why": f"{tool} is used, since {why}"}
    words = asked(line)[0]
    shape = {"book": "public", "branch": "rule", "rule": named, "style": style, "query": words}
    cue = " ".join(words.split()[:5])
    return shape | {"case": case, "others": [swapped], "when": why, "pool": pool, "cue": cue,
                    "sentence": case["why"], "target": rule["target"], "dead": []}  # fmt: skip


def slots(at: Row, other: Row | None = None) -> dict[str, str]:
    case = at["case"]
    other = other or rng.choice(at["others"])
    third = rng.choice([o["tool"] for o in at["others"] if o["tool"] != other["tool"]] or [other["tool"]])
    code = at["rule"] if isinstance(at["rule"], str) else "{code}"
    tool = case["tool"]
    named = [tool, other["tool"], *(one["tool"] for one in at["others"])]
    services = [*dict.fromkeys(map(api, named)), ""]
    why = case["why"]
    why_o = why.replace(tool, "\0").replace(other["tool"], tool).replace("\0", other["tool"])
    if why_o == why:
        why_o = f"{at['when']}, and that means {other['tool']}"
    return {
        "gist": case["gist"], "cue": at["cue"], "t": tool, "o": other["tool"], "p": third, "a": services[0],
        "b": services[1], "why": why, "owhy": other["why"], "ogist": other["gist"], "code": code,
        "when": at["when"], "sentence": at["sentence"], "why_o": why_o,
    }  # fmt: skip


def reasoned(at: Row) -> tuple[str, str]:
    """(voice, a faithful trace)."""
    voice = rng.choice(heard(at, styles_of(at)))
    trace = {**voices.RULE, **voices.SMALL}[voice].format_map(slots(at))
    if rng.random() < 0.05:
        first, _, rest = trace.partition(". ")
        trace = f"{first}. {rng.choice(voices.PERMISSIONS)} {rest}"
    return voice, trace


def styles_of(at: Row) -> dict[str, str]:
    """The voices that fit a rule: some need two services and three tools."""
    named = {at["case"]["tool"], *(one["tool"] for one in at["others"])}
    return voices.RULE if len(named) > 2 and len({api(name) for name in named}) > 1 else voices.SMALL


def heard(at: Row, kinds: dict[str, str]) -> list[str]:
    return [name for name in kinds if half_of(at["query"]) == "held_out" or name not in voices.UNHEARD]


def half_of(query: str) -> str:
    """Which half a request belongs to; decided by the seed and the request alone."""
    return random.Random(f"{SEED}|{query}").choice(("development", "held_out"))


def free(at: Row, tools: list[str], gists: list[str]) -> tuple[str, str]:
    """(voice, a faithful trace without a rule)."""
    pool = at["pool"]
    voice = rng.choice(heard(at, voices.RRB))
    other = rng.choice([name for name in pool if name not in tools])
    parts = " ".join(
        rng.choice(voices.PARTS).format(gist=gist, t=tool, a=api(tool), desc=_says(tool))
        for tool, gist in zip(tools, gists, strict=True)
    )
    compare = rng.choice(voices.COMPARE).format(o=other, oa=api(other), odesc=_says(other))
    count = ("One thing", "Two things", "Three things", "Four things", "Five things")[len(tools) - 1]
    text = voices.RRB[voice].format(
        gists=_joined(gists), compare=compare, parts=parts, list=_joined(tools), n=count
    )
    return voice, text


def _says(tool: str) -> str:
    """The first words of a tool's description; of a public tool, left to be filled in when read."""
    if tool not in TOOLS:
        return "{says:" + tool + "}"
    return " ".join(re.split(r"[:;,(.]", TOOLS[tool]["description"])[0].split()[:14]).lower()


def _joined(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def unruled() -> Iterator[Row]:
    """One row per hand-written request without a rule."""
    gists = {tool: one["gist"] for tool, one in RRB["easy"].items()}
    plain = [(["easy"], [tool], one["q"], "demo") for tool, one in RRB["easy"].items()]
    sets = [([one["tier"]], one["tools"], one["q"], "demo") for one in RRB["sets"]]
    outside = [(["easy"], [one["tool"]], one["q"], "public") for one in PUBLIC["easy"]]
    for (tier,), tools, queries, book in [*plain, *sets, *outside]:
        for query in queries:
            known = {one["tool"]: one["gist"] for one in PUBLIC["easy"]} | gists
            pool = _neighbours(tools, book)
            yield {"book": book, "branch": "rrb", "tier": tier, "query": query, "pool": pool, "tools": tools,
                   "gists": [known[tool] for tool in tools]}  # fmt: skip


def _neighbours(tools: list[str], book: str) -> list[str]:
    if book == "public":
        return list(dict.fromkeys([*tools, *(one["tool"] for one in PUBLIC["easy"])]))
    near: list[str] = []
    for tool in tools:
        words = content(TOOLS[tool]["description"])
        ranked = sorted(TOOLS, key=lambda n: (-alike(words, content(TOOLS[n]["description"])), n))
        near += ranked[:8]
    return list(dict.fromkeys([*tools, *near]))


def row(at: Row, family: str, kind: str, **changed: Any) -> Row:
    shape = {key: at.get(key, "") for key in ("book", "branch", "rule", "style", "tier", "query", "pool")}
    made = shape | {"answer": at.get("tools") or [at["case"]["tool"]]} | changed
    rng.shuffle(pool := list(made["pool"]))
    return {"family": family, "kind": kind} | made | {"pool": pool}


def main() -> None:
    from tests.synthesis.judged.plants import planted

    ruled, loose = list(situations()), list(unruled())
    for half in ("development", "held_out"):
        mine = [at for at in ruled if half_of(at["query"]) == half]
        free_ones = [at for at in loose if half_of(at["query"]) == half]
        rows: list[Row] = []
        for at in mine:
            voice, trace = reasoned(at)
            rows.append(row(at, "clean", voice, trace=trace))
        for at in free_ones:
            voice, trace = free(at, at["tools"], at["gists"])
            rows.append(row(at, "clean", f"rrb {voice}", trace=trace))
        rows += planted(half, mine, free_ones)
        rng.shuffle(rows)
        numbered = [{"id": f"{half[0]}{number:04d}"} | one for number, one in enumerate(rows)]
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in numbered)
        (HERE / f"{half}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
