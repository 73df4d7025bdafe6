"""Filter V on the public catalog: clean samples pass, and each planted fault is caught by its check, at its place."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from synthesis.core.filters import Candidate, Failure, FilterContext, failures
from synthesis.core.names import LOOKS_LIKE_NAME
from synthesis.core.words import words
from tests.synthesis.clean_samples import Public, clean_samples, read_public

DATA = Path(settings.TRACE_PUBLIC_DATA)
pytestmark = pytest.mark.skipif(
    not (DATA / "catalog").is_dir(), reason="the public data is absent (set TRACE_PUBLIC_DATA)"
)
EACH = 200
ZERO_WIDTH = "\N{ZERO WIDTH SPACE}"
CYRILLIC = str.maketrans("aceopxy", "асеорху")
Planted = tuple[Candidate, str, str]  # the spoilt sample, the check that catches it, the text its span holds


@pytest.fixture(scope="module")
def public() -> Public:
    return read_public(DATA)


@pytest.fixture(scope="module")
def context(public: Public) -> FilterContext:
    return public.context()


def test_a_thousand_clean_samples_pass(public: Public, context: FilterContext) -> None:
    samples = list(clean_samples(public, 1000, seed=4))
    assert len({sample.query for sample in samples}) > 900
    assert [found for sample in samples if (found := failures(sample, context))] == []


def joined(name: str) -> str:
    return "".join(word.capitalize() for word in words(name))


def full_width(name: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in name)


def mixed(name: str) -> str:
    return "".join(char.upper() if at % 2 else char.lower() for at, char in enumerate(name))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "camelCase": lambda name: joined(name)[:1].lower() + joined(name)[1:],
    "PascalCase": joined,
    "snake_case": lambda name: "_".join(words(name)),
    "CONSTANT_CASE": lambda name: "_".join(words(name)).upper(),
    "spaces": lambda name: " ".join(words(name)),
    "hyphens": lambda name: "-".join(words(name)),
    "dots": lambda name: ".".join(words(name)),
    "mixed case": mixed,
    "lower case": str.lower,
    "full width": full_width,
    "look-alikes": lambda name: name.translate(CYRILLIC),
    "zero width": lambda name: ZERO_WIDTH.join(name),
    "soft hyphens": lambda name: "\N{SOFT HYPHEN}".join(name),
    "two lines": lambda name: "\n".join(words(name)),
}


def in_query(rng: random.Random, sample: Candidate, piece: str) -> Candidate:
    said = sample.query.split(" ")
    said.insert(rng.randrange(len(said) + 1), piece)
    return replace(sample, query=" ".join(said))


def telling(name: str) -> bool:
    return len(words(name.partition("/")[2])) > 1


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("what", ["name", "title", "any name", "code"])
def test_a_leaked_name_is_found_where_it_stands(
    public: Public, context: FilterContext, what: str, spelling: str
) -> None:
    rng, tried = random.Random(f"{what} {spelling}"), 0
    for sample in clean_samples(public, EACH, seed=7):
        name = rng.choice(sorted(sample.rule_tools or sample.answer))
        if what == "any name":
            name = rng.choice(list(public.tools))
        leaked = {"title": name.partition("/")[2], "code": sample.rule_code}.get(what, name)
        if len(words(leaked)) < 2 or not telling(name):
            continue
        tried += 1
        piece = SPELLINGS[spelling](leaked)
        found = failures(in_query(rng, sample, piece), context)
        assert "leakage" in {failure.check for failure in found}
        places = [failure.evidence for failure in found if failure.check == "leakage"]
        assert any(piece.strip(ZERO_WIDTH) in place for place in places), (piece, found)
    assert tried >= EACH / 4


@pytest.mark.parametrize(
    "fmt", ["<<{0}&&{1}>>", "<<{0}>><<{1}>>", "<tid><<{0}>><<{1}>></tid>", "<<{1}>>", "＜＜{0}＆＆{1}＞＞"]
)
def test_a_leaked_token_string_is_found(public: Public, context: FilterContext, fmt: str) -> None:
    rng = random.Random(fmt)
    for sample in clean_samples(public, 50, seed=8):
        token = fmt.format(*sample.answer[0].split("/", 1))
        found = failures(in_query(rng, sample, token), context)
        evidence = "".join(failure.evidence for failure in found if failure.check == "leakage")
        assert token[:2] in evidence


def insert(rng: random.Random, trace: str, sentence: str) -> str:
    """As a sentence of its own before one of the trace's others, the commitment among them."""
    ends = [0, *(at + 2 for at in range(len(trace) - 2) if trace[at : at + 2] == ". ")]
    at = rng.choice(ends)
    return f"{trace[:at]}{sentence} {trace[at:]}"


def outsider(rng: random.Random, sample: Candidate, public: Public) -> str:
    return rng.choice([name for name in rng.sample(list(public.tools), 50) if name not in sample.pool])


def hallucinated(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    known, other = outsider(rng, sample, public), rng.choice(sorted(sample.pool))
    api, _, endpoint = other.partition("/")
    name = rng.choice(
        (f"{api}/{endpoint}All", f"{api}/no-such-{endpoint}", f"{api}Beta/getEverything", "MadeUpDesk/read_all",
         f"{api}/{endpoint}.v99", f"{api.upper()}x/{endpoint}sFor", f"{api}/{endpoint}/more", known)
    )  # fmt: skip
    if name in public.tools and name in sample.pool or not LOOKS_LIKE_NAME.fullmatch(name):
        name = known
    trace = insert(rng, sample.trace, f"There is also {name} to look at.")
    return replace(sample, trace=trace), "grounding", name


def disguised(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    other = rng.choice(sorted(sample.pool))
    name = rng.choice((full_width(other), ZERO_WIDTH.join(other), other.translate(CYRILLIC)))
    return replace(sample, trace=insert(rng, sample.trace, f"Look at {name} too.")), "grounding", name


def commits_to_another(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    names = rng.sample(sorted(sample.pool - set(sample.answer)), rng.choice((1, 2)))
    if rng.random() < 0.5:
        names += sample.answer[:1]
    said = ", ".join(names)
    return replace(sample, trace=f"{sample.trace} All in all, {said}."), "consistency", said


def commits_to_less(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    other = rng.choice(sorted(sample.pool - set(sample.answer)))
    spoilt = replace(sample, answer=(*sample.answer, other))
    return spoilt, "consistency", sample.answer[0] if len(sample.answer) == 1 else ""


def goes_on(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    more = rng.choice(("That is all there is to say.", "Nothing else fits!", "The person can go ahead"))
    return replace(sample, trace=f"{sample.trace} {more}"), "consistency", more


def misses_the_rule(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    spaced = " ".join(words(sample.rule_code))
    said, shown = rng.choice(
        (("the policy", ""), (spaced, spaced if len(words(spaced)) > 1 else ""), ("it", ""))
    )
    return replace(sample, trace=sample.trace.replace(sample.rule_code, said)), "attribution", shown


def cites_another_rule(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    codes = [code for code, _ in public.rules if code != sample.rule_code and len(words(code)) > 1]
    code = rng.choice(codes)
    return replace(sample, trace=insert(rng, sample.trace, f"See {code} as well.")), "attribution", code


def speaks_of_the_prompt(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    said = rng.choice(
        ("candidate pool", "provided tools", "the prompt", "reviewer", "selected tools", "Step 3", "feedback")
    )
    return replace(sample, trace=insert(rng, sample.trace, f"Looking at {said} again.")), "clean_voice", said


def names_a_permission(rng: random.Random, sample: Candidate, public: Public) -> Planted:
    sample = replace(sample, permission_tags=sample.permission_tags | {"payroll.read"})
    return (
        replace(sample, trace=insert(rng, sample.trace, "They hold payroll.read.")),
        "clean_voice",
        "payroll.read",
    )


PLANTS = (hallucinated, disguised, commits_to_another, commits_to_less, goes_on, misses_the_rule, cites_another_rule,
    speaks_of_the_prompt, names_a_permission)  # fmt: skip


def of_rules(samples: Iterator[Candidate], plant: Callable[..., Planted]) -> Iterator[Candidate]:
    return (sample for sample in samples if sample.branch == "rule" or plant is not misses_the_rule)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_fault_planted_in_a_trace_is_caught_at_its_place(
    public: Public, context: FilterContext, plant: Callable[..., Planted]
) -> None:
    rng, tried = random.Random(plant.__name__), 0
    for sample in of_rules(clean_samples(public, EACH, seed=9), plant):
        spoilt, check, place = plant(rng, sample, public)
        found = [failure for failure in failures(spoilt, context) if failure.check == check]
        assert found, spoilt
        assert not place or any(failure.evidence == place for failure in found), (place, found)
        tried += 1
    assert tried >= EACH / 3


def test_a_wrong_answer_is_refused_whatever_its_trace_says(public: Public, context: FilterContext) -> None:
    rng = random.Random(1)
    dead = [name for name, tool in public.tools.items() if tool["deprecated"]]
    for sample in clean_samples(public, EACH, seed=11):
        outside = outsider(rng, sample, public)
        wrong: list[tuple[Candidate, str, str]] = [
            (replace(sample, answer=()), "grounding", ""),
            (replace(sample, answer=(*sample.answer, outside)), "grounding", outside),
            (replace(sample, answer=(*sample.answer, "Gone/retired")), "grounding", "Gone/retired"),
            (replace(sample, answer=(sample.answer[0], sample.answer[0])), "consistency", ""),
            (replace(sample, answer=(gone := rng.choice(dead),), pool=sample.pool | {gone}), "target", gone),
        ]
        if sample.branch == "rule":
            near = rng.choice(sorted(sample.pool - set(sample.rule_tools)))
            main, *others = sample.rule_tools
            wrong += [
                (replace(sample, answer=(near,)), "target", near),
                (replace(sample, style="implicit", answer=(others[0],)), "target", others[0]),
                (replace(sample, style="exception", answer=(main,)), "target", main),
            ]
        else:
            size = {"easy": "medium", "medium": "hard", "hard": "easy"}[sample.tier]
            wrong.append((replace(sample, tier=size), "target", ", ".join(sample.answer)))
        for spoilt, check, evidence in wrong:
            found = [failure for failure in failures(spoilt, context) if failure.check == check]
            assert found and (not evidence or evidence in {failure.evidence for failure in found}), (
                spoilt,
                found,
            )


def holds(failure: Failure, text: str) -> bool:
    start, end = failure.span
    return text[start:end].startswith(failure.evidence) and bool(failure.evidence)


def test_every_span_begins_with_its_evidence(public: Public, context: FilterContext) -> None:
    rng = random.Random(2)
    for number, sample in enumerate(clean_samples(public, EACH, seed=12)):
        spoilt = PLANTS[number % len(PLANTS)](rng, sample, public)[0]
        spoilt = in_query(rng, spoilt, SPELLINGS[rng.choice(sorted(SPELLINGS))](spoilt.answer[0]))
        for failure in failures(spoilt, context):
            assert failure.span == (0, 0) or holds(failure, spoilt.query) or holds(failure, spoilt.trace), (
                failure
            )
