"""How well a rule's text is read into pairs told apart and pairs only named: the public rules, judged by others.

    python -m bench.pairs_apart prepare DIR    pairs.jsonl for the judges, reading.jsonl: of which rule
    python -m bench.pairs_apart measure DIR    precision and recall against every DIR/judge*.jsonl

The public rules nearly all separate their tools, so each also comes in a variant that mostly does not, made by cutting
the text at its names and full stops, never by the reading that is measured, and as a short rule of other words. Half of
the rules (seed 0) were open while the reading was written, with the phrases of their variants; the other half was not.
A judge sees the text and two names, in a shuffled order, and writes {"id", "verdict": "apart" | "named" | "unnamed"}.
Errors are shown of the open half only. Rules are found through TRACE_PUBLIC_DATA and copied only to DIR.
"""

import argparse
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from catalog.core.mentions import NameFinder
from rules.core.pairs import read_pairs
from rules.core.reading import Reading
from rules.core.rule import make_content

HALVES = ("open", "unread")
# Sentences that only name, one tool and several, and short rules with and without a condition, other ones in each half.
NAMING_OPEN = """{} sounds similar.
{} was discussed last week.
Let us not forget {}.
The documentation describes {} at length.
The wiki has a page on {}.
{} has its own page in the portal.
{} is part of the same API.
A third name is {}.
Questions about {} go to the platform team.
{} is another one.
{} is here to stay.
{} was not written by us.
{} is popular.
Keep {} in mind.
{} exists, too.
{} is rarely discussed.
The list also holds {}.
It is good to know about {}.
{} is often mentioned in meetings.
Many customers like {}.
Remember {}.
You will have seen {}.
Also in the catalog: {}.
{} is worth a look.
{} has a similar name."""
NAMING_UNREAD = """Another name: {}.
{} belongs to the same family.
We also have {}.
Ask Ana about {}.
{} came with the last release.
We talk of {} a lot.
{} is on offer as well.
{} is no secret.
{} is mentioned here for completeness.
{} gets a lot of attention.
{} can be found in the same product.
Then there is {}.
{} has been around for years.
For reference: {}.
Of course there is {}.
Its neighbour is {}.
Support knows {}.
New colleagues ask about {}.
Do have a look at {}.
{} shows up in the search.
Some people mention {}.
In the catalog one finds {}.
Nobody minds {}.
{} was written by another team.
{} appears next to it in the menu."""
LISTING_OPEN = """In the menu: {}.
{} have similar names.
{} belong together.
{} share a page in the wiki.
{} were written by the same team.
{} are often mentioned."""
LISTING_UNREAD = """You may know {}.
Both {} are around.
We have {}.
The neighbours are {}.
The catalog names {}.
People speak of {}."""
WORDED_OPEN = """Use {a} for customers in the EU; all others are served by {b}.
Requests that come in by file go to {b}. A single one is sent with {a}.
Unless the amount is above 10,000, {a} is right. Above it, take {b}.
{b} was switched off in May 2025, so take {a}.
| live data | {a} |/| test data | {b} |
{a} (daily), {b} (monthly).
Never call {b} for closed accounts: they are read with {a}.
If an id is known, {a}. If only a name is known, {b}.
{a} works up to 100 rows, {b} beyond that.
Until the contract is signed {b} answers; once it is signed, use {a}.
Closed accounts are read with {a} or {b}.
Use {a} when the account is closed. Many have asked for {b}.
Use {a} when the account is closed, or {b} when the account is closed.
{b} must not be used any more. The colour of {a} on the map is green.
Do not take {a} for {b}, they sound alike.
Depending on the account, {a} or {b} is called."""
WORDED_UNREAD = """Where the data is needed at once, call {a}; where it may wait for the night, call {b}.
Partners: {b}. Own staff: {a}.
Since 1 April all accounts are served by {a}. Before that it was {b}.
{b} is only there for tenants of the first version; everybody else calls {a}.
To change one entry, take {a}. To change a hundred at once, take {b}.
- closed in the last month: {a}/- closed before: {b}
Is the caller an administrator? {a}. Anybody else? {b}.
{b} has been retired; {a} took its place.
{a} shows drafts as well, which {b} leaves out.
Unlike {b}, which is for reading only, {a} writes.
Send the form with {a} rather than {b}.
In the night {b} is to be used, in the daytime {a}.
Administrators like {a}, and partners like {b}.
For administrators there are {a} and {b}.
To change an entry, take {a}. The manual spends a page on {b}.
{b} has been retired. Our tests run against {a} every night.
When an entry is wrong, take {a}; {b} will do just as well.
Whether to use {a} or {b} is up to the administrator."""
PHRASES = {
    "open": [text.splitlines() for text in (NAMING_OPEN, LISTING_OPEN, WORDED_OPEN)],
    "unread": [text.splitlines() for text in (NAMING_UNREAD, LISTING_UNREAD, WORDED_UNREAD)],
}
SENTENCE = re.compile(r"(?<=[.;])\s+")
QUESTION = """A rule tells two tools apart when a condition separates them: each of the two is reached by a sentence
that says when it is right, or that it is not to be used ("when", "from 2024 on", "only for", "if", "instead of the
deprecated", "deprecated: use", a purpose, a limit), so that somebody who knows the case knows which of the two to call.
Naming alone ("A and B exist", "use A or B", one condition for both) does not tell them apart, nor does a condition for
one while the other is only mentioned. Two tools that are both only called deprecated are not told apart.

For each line of pairs.jsonl read `rule_text` and judge `left` and `right`, and no other pair. Write one line a pair:
{"id": "...", "verdict": "apart"}    a condition separates the two
{"id": "...", "verdict": "named"}    both are named, and nothing separates them
{"id": "...", "verdict": "unnamed"}  one of them is not named
Judge from the text alone, without a program, and without looking at other files here.
"""


class Case(NamedTuple):
    id: str
    rule: int
    half: str
    variant: str
    text: str
    tools: tuple[str, ...]
    left: str
    right: str


def public_rules() -> list[dict[str, Any]]:
    folder = Path(os.environ.get("TRACE_PUBLIC_DATA", "../shared/data"))
    rules: list[dict[str, Any]] = json.loads((folder / "rules" / "rules.json").read_text())
    return rules


def open_half(count: int) -> set[int]:
    """The places of the rules that were read while the reading was written."""
    places = list(range(count))
    random.Random(0).shuffle(places)
    return set(places[: count // 2])


def variants(text: str, tools: tuple[str, ...], half: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """(kind, text): one of the ways to leave a condition out, and a rule of other words over the same tools."""
    target, others = tools[0], tools[1:]
    naming, listing, worded = PHRASES[half]
    parts = SENTENCE.split(text)
    first = NameFinder(tools).find(text)
    lead = text[: first[0][0]].strip() if first else ""
    ways = [("listed", rng.choice(listing).format(" and ".join(tools)))]
    if lead:
        ways.append(("joined", f"{lead} {' or '.join(tools)}."))
    kept = [part for part in parts if target in part and not any(name in part for name in others)]
    if kept:
        named = [rng.choice(naming).format(name) for name in others]
        ways += [("one-sided", " ".join([*_ended(kept), *named]))] * 2
    rest = [part for part in parts if target not in part and any(name in part for name in others)]
    if rest:
        ways += [("target-cut", " ".join([rng.choice(naming).format(target), *_ended(rest)]))] * 2
    yield rng.choice(ways)
    more = [rng.choice(naming).format(name) for name in others[1:]]
    lines = rng.choice(worded).split("/")
    yield "worded", " ".join(["\n".join(lines).format(a=target, b=others[0]), *more])


def _ended(parts: list[str]) -> list[str]:
    return [f"{part.rstrip('.;')}." for part in parts]


def cases(seed: int) -> list[Case]:
    rules = public_rules()
    opened, found = open_half(len(rules)), []
    for number, rule in enumerate(rules):
        tools = (rule["tool_name"], *rule["confusables"])
        half = HALVES[number not in opened]
        texts = [("original", rule["rule_text"])]
        texts += variants(rule["rule_text"], tools, half, random.Random(f"{seed} {number}"))
        for variant, text in texts:
            for left, right in combinations(tools, 2):
                key = sha256(json.dumps([seed, number, variant, left, right]).encode()).hexdigest()[:12]
                found.append(Case(key, number, half, variant, text, tools, left, right))
    random.Random(seed).shuffle(found)
    return found


def prepare(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = cases(seed)
    shown = [{"id": c.id, "rule_text": c.text, "left": c.left, "right": c.right} for c in found]
    _write(folder / "pairs.jsonl", shown)
    told = [{"id": c.id, "half": c.half, "variant": c.variant, "rule": c.rule} for c in found]
    _write(folder / "reading.jsonl", told)
    (folder / "QUESTION.md").write_text(QUESTION)
    print(f"{len(found)} pairs in {folder / 'pairs.jsonl'}")


def measure(folder: Path) -> None:
    """The reading as it is now, against each judge alone and where all of them agree."""
    rules, texts = public_rules(), {row["id"]: row for row in _rows(folder / "pairs.jsonl")}
    cases = list(_rows(folder / "reading.jsonl"))
    for case in cases:
        text, rule = texts[case["id"]], rules[case["rule"]]
        tools = (rule["tool_name"], *rule["confusables"])
        case["verdict"] = _state(text["rule_text"], tools, text["left"], text["right"])
    judges = {
        path.stem: {row["id"]: row["verdict"] for row in _rows(path)}
        for path in sorted(folder.glob("judge*.jsonl"))
    }
    if not judges:
        raise SystemExit(f"{folder} holds no judge*.jsonl")
    shared = set.intersection(*(set(verdicts) for verdicts in judges.values())) & texts.keys()
    names = list(judges)
    agreed = {
        key: judges[names[0]][key]
        for key in shared
        if len({judges[name][key] == "apart" for name in names}) == 1
    }
    print(f"{len(cases)} pairs, {len(shared)} judged by all of {', '.join(names)}, {len(agreed)} alike")
    if len(names) > 1:
        print(f"Cohen's kappa of {names[0]} and {names[1]}: {_kappa(judges[names[0]], judges[names[1]]):.3f}")
    for half in HALVES:
        rows = [case for case in cases if case["half"] == half]
        for name, verdicts in [*judges.items(), ("where they agree", agreed)]:
            print(f"{half:7} {name:17} {'all':11} {_line(rows, verdicts)}")
        for variant in sorted({row["variant"] for row in rows} | {"variants"}):
            some = [row for row in rows if _of(variant, row["variant"])]
            print(f"{half:7} {'where they agree':17} {variant:11} {_line(some, agreed)}")
    for case in cases:  # of the other half only how many: who reads a text has used it up
        if case["half"] == HALVES[0] and case["id"] in agreed and _apart(case["verdict"], agreed[case["id"]]):
            print(f"  rule {case['rule']} {case['variant']} {case['id']}: {case['verdict']}")


def _state(text: str, tools: Sequence[str], left: str, right: str) -> str:
    content = make_content(target=tools[0], confusables=tools[1:], text=text)
    return next(
        pair.state for pair in read_pairs(Reading(content)) if (pair.left, pair.right) == (left, right)
    )


def _of(kind: str, variant: str) -> bool:
    return kind == variant or (kind == "variants" and variant != "original")


def _apart(read: str, judged: str) -> bool:
    return (read == "apart") != (judged == "apart")


def _line(rows: list[dict[str, Any]], verdicts: dict[str, str]) -> str:
    said = [
        (row["verdict"] == "apart", verdicts[row["id"]] == "apart") for row in rows if row["id"] in verdicts
    ]
    both = said.count((True, True))
    read, judged = both + said.count((True, False)), both + said.count((False, True))
    shares = [f"{both / n:.3f} ({both} of {n})" if n else "- (none)" for n in (read, judged)]
    return f"precision {shares[0]}, recall {shares[1]}, n = {len(said)}"


def _kappa(one: dict[str, str], other: dict[str, str]) -> float:
    shared = one.keys() & other.keys()
    yes = [(one[key] == "apart", other[key] == "apart") for key in shared]
    alike = sum(a == b for a, b in yes) / len(yes)
    first, second = sum(a for a, _ in yes) / len(yes), sum(b for _, b in yes) / len(yes)
    chance = first * second + (1 - first) * (1 - second)
    return (alike - chance) / (1 - chance) if chance < 1 else 1.0


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["prepare", "measure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2, help="of the variants")
    given = parser.parse_args()
    if given.do == "prepare":
        prepare(given.folder, given.seed)
    else:
        measure(given.folder)
