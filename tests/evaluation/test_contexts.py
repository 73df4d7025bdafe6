"""Contexts that join, leave, branch and grow together score what each of them scores in a forward of its own."""

import random
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch")

from transformers import AutoModelForCausalLM  # noqa: E402
from transformers.integrations import sdpa_attention  # noqa: E402

from evaluation.ml.contexts import Contexts, Scores, Tree  # noqa: E402
from evaluation.ml.fused import fuse  # noqa: E402
from evaluation.ml.graphs import AGAIN, WIDTH  # noqa: E402
from tests.training.small_bases import EACH_SHAPE, write_base  # noqa: E402

pytestmark = pytest.mark.ml
NEAR = 2e-4  # float32, at logits of up to ten


def alone(model: Any, ids: list[int]) -> Any:
    """Logits after the last token, in one plain forward without a cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0, -1].float()


def assert_scored_as_alone(
    contexts: Contexts, model: Any, prompts: list[list[int]], tokens: list[int]
) -> None:
    """A random life of many contexts; `tokens` are those that are fed and tried."""
    rng = random.Random(0)
    held: list[tuple[Any, list[int]]] = []
    waiting = [list(prompt) for prompt in prompts]

    def same(scores: Scores, place: int, ids: list[int]) -> None:
        torch.testing.assert_close(scores.logits[place], alone(model, ids), atol=NEAR, rtol=0)

    while waiting or held:
        if waiting and len(held) < 3:
            new, waiting = waiting[:2], waiting[2:]
            found, scores = contexts.admit(new)
            for place, ids in enumerate(new):
                same(scores, place, ids)
            held += list(zip(found, new, strict=True))
        rng.shuffle(held)
        asked = held[: rng.randint(1, len(held))]
        what = rng.choice(["feed", "guess", "branch", "drop"])
        if what == "feed":
            given = [[rng.choice(tokens) for _ in range(rng.randint(1, 3))] for _ in asked]
            scores = contexts.feed([one for one, _ in asked], given)
            for place, ((_, ids), more) in enumerate(zip(asked, given, strict=True)):
                ids += more
                same(scores, place, ids)
        elif what == "guess":  # a chain of which the first two tokens are kept
            given = [[rng.choice(tokens) for _ in range(rng.randint(2, 5))] for _ in asked]
            scores, places = contexts.look([one for one, _ in asked], [Tree.chain(own) for own in given])
            for (one, ids), own, chain in zip(asked, places, given, strict=True):
                for at, place in enumerate(own):
                    same(scores, place, [*ids, *chain[: at + 1]])
                contexts.keep(one, chain[:2])
                ids += chain[:2]
        elif what == "branch":
            paths = [
                [[rng.choice(tokens) for _ in range(rng.randint(1, 3))] for _ in range(4)] for _ in asked
            ]
            scores, places = contexts.after([one for one, _ in asked], paths)
            for (_, ids), own, mine in zip(asked, places, paths, strict=True):
                for place, path in zip(own, mine, strict=True):
                    same(scores, place, [*ids, *path])
        if what == "drop" or len(held) > 5:
            contexts.drop([one for one, _ in asked])
            held = held[len(asked) :]


def fused(model: Any) -> Any:
    """As a model is served."""
    served = deepcopy(model)
    fuse(served)
    return served


@pytest.mark.parametrize("fixed", [False, True], ids=["any shape", "shapes of a graph"])
@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_contexts_of_a_named_base_score_as_alone(tmp_path: Path, shape: str, fixed: bool) -> None:
    folder = write_base(tmp_path / shape, shape)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rng = random.Random(1)
    start = [7, 8, 9]  # of every prompt but one, and longer than a sliding window in all
    prompts = [[*start, *(rng.randint(6, 200) for _ in range(length))] for length in (3, 90, 20, 5, 41, 12)]
    prompts.append([11, 12])
    contexts = Contexts(fused(model), 0, start, fixed)
    assert_scored_as_alone(contexts, model, prompts, list(range(6, 60)))
    assert len(contexts) == 1, "only what every prompt begins with is left"
    if contexts.graphs:
        shapes = {sizes for sizes, _ in contexts.graphs.met}
        assert all(
            rows & (rows - 1) == tokens & (tokens - 1) == width % WIDTH == 0
            for _, rows, tokens, width in shapes
        )
        assert shapes


def test_a_served_base_copies_no_keys_and_norms_in_one_kernel(tmp_path: Path, monkeypatch: Any) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_base(tmp_path, "gemma4"), dtype=torch.float32).eval()
    assert fuse(model) == sum(type(part).__name__ == "Gemma4RMSNorm" for part in model.modules()) > 0
    monkeypatch.setattr(sdpa_attention, "repeat_kv", Mock(side_effect=AssertionError("keys are copied")))
    contexts = Contexts(model, 0)
    asked, _ = contexts.admit([[7, 8, 9], [11] * 30])
    contexts.look(asked, [Tree.chain([20, 21, 22]), Tree([30, 31], [-1, -1])])


def test_norms_that_add_1_to_their_weights_stay(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_base(tmp_path, "gemma3"), dtype=torch.float32).eval()
    assert fuse(model) == 0


def test_a_recorded_step_reads_its_tensors_anew_each_time(tmp_path: Path, monkeypatch: Any) -> None:
    """On a CPU; a replay computes once more what was computed while it was recorded, on the same tensors."""
    model = AutoModelForCausalLM.from_pretrained(write_base(tmp_path, "gemma4"), dtype=torch.float32).eval()
    contexts = Contexts(model, 0, fixed=True)
    own: Any = contexts.graphs
    plain, open_graphs, replays = own.forward, [], []

    @contextmanager
    def recording(graph: Any, **_: Any) -> Any:
        open_graphs.append(graph)
        yield
        open_graphs.pop()

    def forward(step: Any, kept: int) -> Any:
        def again() -> None:
            replays.append(step)
            own.left(len(step.ids), kept).copy_(plain(step, kept))

        if open_graphs:
            open_graphs[0].replay = again
        return plain(step, kept)

    for name, fake in (("graph", recording), ("stream", nullcontext), ("CUDAGraph", Mock)):
        monkeypatch.setattr(torch.cuda, name, fake)
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, Mock())
    own.forward, own.works = forward, True
    written = [[7, 8, 9], [11] * 30, [12, 13]]
    asked, _ = contexts.admit(written)
    for at in range(AGAIN + 4):
        tokens = [[20 + at], [40 + at], [60 + at]]
        scores = contexts.feed(asked, tokens)
        written = [[*ids, *more] for ids, more in zip(written, tokens, strict=True)]
        for place, ids in enumerate(written):
            torch.testing.assert_close(scores.logits[place], alone(model, ids), atol=NEAR, rtol=0)
    assert own.works and len(own.recorded) == 1 and len(replays) == 1 + 5, (
        "once to be checked, then in each step"
    )


def test_log_probabilities_are_over_the_whole_vocabulary() -> None:
    logits = torch.randn(3, 50) * 9
    wanted = logits.log_softmax(dim=-1)
    scores = Scores(logits)
    for place in range(3):
        assert scores.of(place, [4, 40]) == pytest.approx(wanted[place, [4, 40]].tolist(), abs=1e-5)
        assert scores.likeliest(place, [4, 40, 41]) in (4, 40, 41)
    assert scores.best == wanted.argmax(dim=-1).tolist()


def test_a_few_tokens_are_the_same_from_a_table_that_lies_on_a_gpu(monkeypatch: Any) -> None:
    logits = torch.randn(3, 50)
    here, there = Scores(logits), Scores(logits)
    monkeypatch.setattr(there, "logits", Mock(wraps=logits, is_cpu=False, device="cpu", __getitem__=None))
    there.logits.__class__.__getitem__ = lambda _, at: logits[at]
    there.__dict__["_norms"] = here._norms
    for place in range(3):
        assert (there.of(place, [4, 40]) == here.of(place, [4, 40])).all()
        assert there.likeliest(place, [4, 40, 41]) == here.likeliest(place, [4, 40, 41])
