"""The planted faults: each takes a clean situation and breaks one thing. Used by make.py only."""

import random
import re
from collections.abc import Iterator
from typing import Any

from tests.synthesis.judged import make
from tests.synthesis.judged.make import PLANTS, RULES, TOOLS, Row, row

rng = random.Random(make.SEED + 1)

REASONED = {"posthoc": 16, "ignores": 16, "contradicts": 16, "no_clause": 16, "argues_other": 20}


def planted(half: str, ruled: list[Row], loose: list[Row]) -> list[Row]:
    return [*labels(half, ruled, loose), *traces(half, ruled, loose), *queries(half, ruled, loose)]


def wordings(kind: str, half: str) -> list[Any]:
    """The half's own share of what is written down for a kind of fault."""
    mixed = random.Random(f"{make.SEED}|{kind}").sample(PLANTS[kind], len(PLANTS[kind]))
    middle = len(mixed) // 2
    return mixed[:middle] if half == "development" else mixed[middle:]


def take(items: list[Any], count: int) -> list[Any]:
    return rng.sample(items, min(count, len(items)))


def labels(half: str, ruled: list[Row], loose: list[Row]) -> Iterator[Row]:
    for at in take([one for one in ruled if one["book"] == "demo"], 60):
        yield _other_case(at)
    for at in take([one for one in ruled if one["book"] == "public" and one["style"] == "exception"], 6):
        tool = at["target"]
        trace = make.reasoned(at | {"case": at["others"][0]})[1]
        yield row(at, "label", "target for exception", answer=[tool], trace=trace, style="implicit")
    for at in take([one for one in ruled if one["dead"]], 13):
        case = {"tool": rng.choice(at["dead"]), "gist": at["case"]["gist"], "why": at["case"]["why"]}
        case["why"] = case["why"].replace(at["case"]["tool"], case["tool"])
        style = at["style"] if at["style"] == "exception" else rng.choice(("explicit", "implicit"))
        trace = make.reasoned(at | {"case": case, "others": [at["case"]]})[1]
        yield row(at, "label", "deprecated", answer=[case["tool"]], trace=trace, style=style)
    for at in take(ruled, 13):
        voice, trace = make.reasoned(at)
        more = rng.choice(at["others"])["tool"]
        trace = trace.rstrip(".") + f" together with {more}."
        yield row(at, "label", "one too many", answer=[at["case"]["tool"], more], trace=trace)
    for at in take([one for one in loose if len(one["tools"]) > 1], 16):
        gone = rng.randrange(len(at["tools"]))
        tools = [tool for number, tool in enumerate(at["tools"]) if number != gone]
        gists = [gist for number, gist in enumerate(at["gists"]) if number != gone]
        trace = make.free(at, tools, gists)[1]
        tier = "easy" if len(tools) == 1 else "medium" if len(tools) < 4 else "hard"
        yield row(at, "label", "one too few", answer=tools, trace=trace, tier=tier)
    for at in take([one for one in loose if len(one["tools"]) == 1 and one["book"] == "demo"], 16):
        other = next(name for name in at["pool"] if name not in at["tools"] and not TOOLS[name]["deprecated"])
        trace = make.free(at, [other], at["gists"])[1]
        yield row(at, "label", "sibling", answer=[other], trace=trace)
    for code, line, wrong in wordings("wrong_side", half):
        yield _wrong_side(code, line, wrong)


def _other_case(at: Row) -> Row:
    wrong = rng.choice(at["others"])
    target = wrong["tool"] == at["target"]
    style = rng.choice(("explicit", "implicit")) if target else "exception"
    kind = (
        "target for exception"
        if target
        else f"exception for {'exception' if at['style'] == 'exception' else 'target'}"
    )
    return row(at, "label", kind, answer=[wrong["tool"]], trace=_argued(at, wrong), style=style)


def _argued(at: Row, wrong: Row) -> str:
    others = [one for one in [*at["others"], at["case"]] if one is not wrong]
    clauses = RULES[at["rule"]]["clauses"]
    when = next(c["when"] for c in clauses if c["route_to"] == wrong["tool"])
    return make.reasoned(at | {"case": wrong, "others": others, "when": when, "sentence": wrong["why"]})[1]


def _wrong_side(code: str, line: str, tool: str) -> Row:
    cases = make.CASES[make.TWINS.get(code, code)]
    case = next(one for one in cases if one["tool"] == tool)
    at = make.situation(code, case, "", line)
    style = rng.choice(("explicit", "implicit")) if tool == at["target"] else "exception"
    return row(at, "label", "wrong side", trace=make.reasoned(at)[1], style=style)


def traces(half: str, ruled: list[Row], loose: list[Row]) -> Iterator[Row]:
    for kind, count in REASONED.items():
        for at in take(
            [one for one in ruled if one["book"] == "demo" or kind in ("posthoc", "ignores")], count
        ):
            text = rng.choice(wordings(kind, half)).format_map(make.slots(at))
            yield row(at, "trace", kind.replace("_", " "), trace=text)
    for kind, count in (("invents_query", 16), ("invents_tool", 16)):
        for at in take(ruled, count):
            made = rng.choice(wordings(kind, half)).format_map(make.slots(at))
            first, *rest = re.split(r"(?<=[.?]) ", make.reasoned(at)[1])
            yield row(at, "trace", kind.replace("_", " "), trace=" ".join([first, made, *rest]))
    for at in take(ruled, 16):
        other = rng.choice([one for one in ruled if one["rule"] != at["rule"] and one["book"] == at["book"]])
        values = make.slots(at) | {"gist": other["case"]["gist"], "cue": other["cue"]}
        fitting = {name: text for name, text in make.styles_of(at).items() if "{when}" not in text}
        text = fitting[rng.choice(make.heard(at, fitting))].format_map(values)
        yield row(at, "trace", "other request", trace=text)
    for at in take(loose, 13):
        strange = [gist for one in loose if not set(one["tools"]) & set(at["tools"]) for gist in one["gists"]]
        text = make.free(at, at["tools"], take(strange, len(at["tools"])))[1]
        yield row(at, "trace", "other request", trace=text)
    for at in take([one for one in loose if len(one["tools"]) == 1], 8):
        tool = at["tools"][0]
        other = next(name for name in at["pool"] if name != tool)
        values = {"t": tool, "o": other, "gist": at["gists"][0], "code": "experience"}
        yield row(at, "trace", "posthoc", trace=rng.choice(wordings("posthoc", half)).format_map(values))


def queries(half: str, ruled: list[Row], loose: list[Row]) -> Iterator[Row]:
    demo = [one for one in ruled if one["book"] == "demo"]
    for kind, count in (
        ("debris", 15),
        ("jargon", 15),
        ("code", 15),
        ("empty", 14),
        ("name", 12),
        ("doc", 15),
    ):
        for at in take(demo, count):
            yield _asked(at, kind, _worded(at["case"]["tool"], at["query"], kind, half))
    for kind, count in (("debris", 4), ("jargon", 4), ("doc", 6), ("name", 4)):
        for at in take([one for one in loose if one["book"] == "demo" and len(one["tools"]) == 1], count):
            text = _worded(at["tools"][0], at["query"], kind, half)
            trace = make.free(at, at["tools"], at["gists"])[1]
            yield row(at, "query", kind, query=text, trace=trace)
    for at in take(demo, 13):
        yield _asked(at, "repeated words", _repeated(at["query"]))
    for at in take([one for one in demo if len(one["query"].split()) > 8], 8):
        words = at["query"].split()
        rng.shuffle(words)
        yield _asked(at, "shuffled words", " ".join(words))
    yield from _styles(demo, loose)


def _asked(at: Row, kind: str, query: str) -> Row:
    cue = at["cue"] if kind not in ("empty", "name", "doc") else query[:40]
    return row(at, "query", kind, query=query, trace=make.reasoned(at | {"cue": cue})[1])


def _worded(tool: str, query: str, kind: str, half: str) -> str:
    end = " ".join(re.findall(r"[A-Z]?[a-z]+|\d+", tool.partition("/")[2])).lower()
    service = " ".join(re.findall(r"[A-Z][a-z]+|\d+", make.api(tool)))
    doc = TOOLS[tool]["description"]
    values = {"q": query, "doc": doc, "api": service, "end": end, "words": f"{service} {end}".lower()}
    return str(rng.choice(wordings(kind, half))).format_map(values)


def _repeated(query: str) -> str:
    words = query.split()
    at = rng.randrange(len(words))
    if rng.random() < 0.5:
        return " ".join([*words[:at], *[words[at]] * rng.choice((3, 4)), *words[at + 1 :]])
    cut = min(at, max(0, len(words) - 3))
    part = words[cut : cut + 3]
    return " ".join([*words[:cut], *part, *part, *words[cut + 3 :]])


def _styles(demo: list[Row], loose: list[Row]) -> Iterator[Row]:
    plain = [one for one in demo if one["style"] == "explicit" and len(_shared(one)) >= 3]
    hinted = [one for one in demo if one["style"] == "implicit" and not _shared(one)]
    away = [one for one in demo if one["style"] == "exception"]
    for at in take(plain, 13):
        yield row(at, "query", "explicit as implicit", style="implicit", trace=make.reasoned(at)[1])
    for at in take(hinted, 13):
        yield row(at, "query", "implicit as explicit", style="explicit", trace=make.reasoned(at)[1])
    for at in take(plain + hinted, 8):
        yield row(at, "query", "target as exception", style="exception", trace=make.reasoned(at)[1])
    for at in take(away, 7):
        style = rng.choice(("explicit", "implicit"))
        yield row(at, "query", "exception as target", style=style, trace=make.reasoned(at)[1])
    for at in take(loose, 8):
        tier = rng.choice([one for one in ("easy", "medium", "hard") if one != at["tier"]])
        trace = make.free(at, at["tools"], at["gists"])[1]
        yield row(at, "query", "wrong tier", tier=tier, trace=trace)


def _shared(at: Row) -> set[str]:
    """Content words that the request and the rule's own wording of the case share."""
    return make.content(at["query"]) & make.content(at["when"])
