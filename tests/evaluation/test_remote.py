"""A model behind a completions server: the same answers as our own engine gives with the weights, and as plain forwards
over every tool."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from evaluation.core.questions import mcq_question
from tests.evaluation.test_engine import ITEMS, QUESTION, exhaustive, fast_prefix, predictions
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.ml
PAIRS = [pytest.param(fmt, True, marks=pytest.mark.long) for fmt in "ab"] + [("c", True), ("b", False)]


def served(folder, **options):
    """A server of the model in an export, which it reads as any other program would."""
    from transformers import AutoModelForCausalLM

    from evaluation.ml.manifest import digest
    from evaluation.ml.remote import name_of
    from tests.evaluation.completions_server import CompletionsServer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    return CompletionsServer(model, options.pop("name", name_of(digest(folder))), **options)


def close_thoughts(folder):
    """Make the end of the thinking part likelier than a token that the model likes: traces of different lengths."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tests.evaluation.tiny_export import sealed
    from training.ml.bases.adapters import CLOSE

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    close, liked = tokenizer.convert_tokens_to_ids([CLOSE, "e"])
    weight = model.lm_head.weight.data
    weight[close] = 1.5 * weight[liked]
    model.save_pretrained(folder)
    sealed(folder, json.loads((folder / "trace.json").read_text()))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """pairs(fmt, reasoning, closing) -> (own engine, the one behind a server, that server), of one model, made once."""
    from evaluation.ml.engine import open_engine
    from tests.evaluation.tiny_export import write_export

    made = {}

    def get(fmt, reasoning=True, closing=False):
        if (fmt, reasoning, closing) not in made:
            folder = tmp_path_factory.mktemp("export")
            write_export(folder, fmt, reasoning=reasoning)
            if closing:
                close_thoughts(folder)
            server = served(folder)
            own = open_engine(folder, threads=1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TRACE_BACKEND_URL", server.url.removesuffix("/v1"))
                made[fmt, reasoning, closing] = own, open_engine(folder, threads=1), server
        return made[fmt, reasoning, closing]

    yield get
    for _, _, server in made.values():
        server.close()


def alike(row, other):
    """Two predictions, scores apart, which are equal up to rounding."""
    numbers = [*row.pop("scores"), *row.pop("features", {}).values()]
    others = [*other.pop("scores"), *other.pop("features", {}).values()]
    assert numbers == pytest.approx(others, abs=2e-4)
    for name in ("seconds", "calls", "backend", "exact"):
        row.pop(name, None)
        other.pop(name, None)
    if "withheld" in row:
        assert sorted(row.pop("withheld")) == sorted(other.pop("withheld"))
    assert row == other


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_fast_equals_scoring_every_tool(pairs, fmt):
    own, remote, _ = pairs(fmt)
    rows = predictions(remote, "fast", k=10)
    for item in ITEMS[:4]:
        wanted = exhaustive(own, fast_prefix(own, item))[:10]
        assert rows[item["id"]]["tools"] == [name for name, _ in wanted]
        assert rows[item["id"]]["scores"] == pytest.approx([score for _, score in wanted], abs=1e-5)
        assert rows[item["id"]]["exact"]


@pytest.mark.parametrize(("fmt", "reasoning"), PAIRS)
@pytest.mark.parametrize("decode", ["fast", "trace", "trace-free"])
def test_every_decode_says_what_our_own_engine_says(pairs, fmt, reasoning, decode):
    own, remote, _ = pairs(fmt, reasoning)
    items = [ITEMS[4], {**ITEMS[1], "id": "6", "domain": "hr"}]
    items.append({**ITEMS[2], "id": "7", "permissions": [], "without": ["Tax/Create", "PayV1/List"]})
    ours, theirs = (predictions(engine, decode, items) for engine in (own, remote))
    assert list(theirs) == [item["id"] for item in items]
    for key, row in theirs.items():
        alike(row, ours[key])


def test_a_trace_that_ends_by_itself_is_token_for_token_ours(pairs):
    own, remote, _ = pairs("c", closing=True)
    ours, theirs = (predictions(engine, "trace") for engine in (own, remote))
    assert len({row["tokens"] for row in theirs.values()}) > 1
    assert any(not row["cut"] for row in theirs.values())
    for key, row in theirs.items():
        assert row["off_vocabulary"] == 0
        alike(row, ours[key])


def test_letters_are_ours(pairs):
    own, remote, _ = pairs("c")
    question = mcq_question(QUESTION)
    items = [question, {**question, "id": "r", "tool": None}]
    ours, theirs = (predictions(engine, "letters", items) for engine in (own, remote))
    for key, row in theirs.items():
        assert row["letter"] == ours[key]["letter"]
        assert row["scores"] == pytest.approx(ours[key]["scores"], abs=1e-4)


def test_beam_is_refused_with_the_reason(pairs):
    with pytest.raises(TraceError, match="keep to the catalog") as caught:
        predictions(pairs("a")[1], "beam")
    assert caught.value.code == "bad_decode" and "TRACE_BACKEND_URL" in caught.value.hint


def test_no_question_names_more_tokens_than_a_server_survives(pairs, monkeypatch):
    own, remote, server = pairs("a")
    monkeypatch.setattr("evaluation.ml.remote.MOST_ALLOWED", 5)
    before = len(server.requests)
    ours, theirs = (predictions(engine, "fast", k=16) for engine in (own, remote))
    assert {key: row["tools"] for key, row in ours.items()} == {
        key: row["tools"] for key, row in theirs.items()
    }
    sizes = [len(body.get("allowed_token_ids", ())) for body in server.requests[before:]]
    assert max(sizes) == 5 and 0 in sizes


def test_where_the_likeliest_tokens_are_tools_one_question_ranks_them(tmp_path, monkeypatch):
    """As for a model that is trained: what follows the opening of a list is a tool."""
    from evaluation.ml.engine import open_engine
    from tests.evaluation.tiny_export import write_export

    folder = write_export(tmp_path / "export", "a")
    server = served(folder)
    own = open_engine(folder, 1)
    tools = [tool["ids"][0] for tool in own.export.spec["tools"]]
    original = server.model.lm_head.forward

    def taught(states):
        logits = original(states)
        logits[..., tools] += 50
        return logits

    server.model.lm_head.forward = taught
    monkeypatch.setenv("TRACE_BACKEND_URL", server.url)
    remote = open_engine(folder, 1)
    before = len(server.requests)
    row = remote.ask(ITEMS[0], "fast", 10)()
    server.close()
    assert len(server.requests) == before + 1
    assert row["tools"] == own.ask(ITEMS[0], "fast", 10)()["tools"] and row["exact"]


def test_a_server_that_tells_few_likely_tokens_costs_questions_and_no_exactness(pairs):
    """vLLM 0.32 tells but one where another client's logprob_token_ids share a batch."""
    own, remote, server = pairs("b")
    server.faults[:] = ["few_likely"] * 1000
    rows = predictions(remote, "fast", ITEMS[:2])
    server.faults.clear()
    ours = predictions(own, "fast", ITEMS[:2])
    assert [row["tools"] for row in rows.values()] == [row["tools"] for row in ours.values()]


def test_many_threads_are_answered_each_in_its_own_mode(pairs):
    own, remote, _ = pairs("b", reasoning=False)
    alone = {mode: predictions(own, mode) for mode in ("fast", "trace")}
    asked = [(item, mode) for item in ITEMS[:2] for mode in ("fast", "trace", "both")]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda one: remote.ask(one[0], one[1], 5)(), asked))
    for (item, mode), row in zip(asked, rows, strict=True):
        for part in ("fast", "trace") if mode == "both" else (mode,):
            found = row[part] if mode == "both" else row
            assert (found["tools"], found["raw"]) == (
                alone[part][item["id"]]["tools"],
                alone[part][item["id"]]["raw"],
            )


def test_a_trace_is_told_as_it_grows(pairs):
    _, remote, _ = pairs("c", closing=True)
    said = []
    row = remote.ask(ITEMS[1], "both", 5, lambda name, what: said.append((name, what)))()
    name, fast = said[0]
    assert name == "fast" and row["fast"] == {**fast, "seconds": row["fast"]["seconds"]}
    text = "".join(what for _, what in said[1:])
    assert len(said) > 3 and {name for name, _ in said[1:]} == {"text"}
    assert row["trace"]["trace"].startswith(text.strip()) and len(text) > 0.8 * len(row["trace"]["trace"])


def test_answers_are_left_out_that_are_there_already(pairs):
    _, remote, server = pairs("a")
    before = len(server.requests)
    assert list(remote.predict(ITEMS[:2], "fast", 5, frozenset(["1", "2"]))) == []
    assert len(server.requests) == before
    (rows,) = remote.predict(ITEMS[:2], "fast", 5, frozenset(["1"]))
    assert [row["id"] for row in rows] == ["2"]


def test_every_prediction_names_what_made_it_and_not_the_key(pairs):
    own, remote, server = pairs("a")
    for decode in ("fast", "trace", "trace-free"):
        row = predictions(remote, decode, ITEMS[:1])["1"]
        host = server.url.split("/")[2]
        assert row["backend"] == {"engine": "vllm", "version": "0.32.0", "host": host}
        assert "backend" not in predictions(own, decode, ITEMS[:1])["1"]
    assert predictions(remote, "letters", [mcq_question(QUESTION)])["q"]["backend"]["engine"] == "vllm"


def test_what_a_server_would_do_by_itself_is_said_in_every_question(pairs):
    """Its defaults may come from the model's generation_config.json; this server's penalty would change every trace."""
    _, remote, server = pairs("a")
    remote.ask(ITEMS[0], "trace", 5)()
    assert all(body["repetition_penalty"] == 1 and body["temperature"] == 0 for body in server.requests)
    assert all(body["skip_special_tokens"] is False for body in server.requests)


def test_the_client_loads_no_torch():
    program = (
        "import sys, trace_site.lib.llm.completions; print('torch' in sys.modules, 'django' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_pocket_is_answered_by_our_own_engine(tmp_path, monkeypatch):
    from evaluation.ml.engine import Engine, open_engine
    from tests.evaluation.tiny_export import write_pocket

    monkeypatch.setenv("TRACE_BACKEND_URL", "http://127.0.0.1:9/v1")
    assert isinstance(open_engine(write_pocket(tmp_path / "export"), 1), Engine)
