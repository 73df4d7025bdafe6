"""The pocket model: what its encoder reads, its decoder writes and its cache keeps, however it is run."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.nn import functional  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from catalog.core.tokens import tool_units  # noqa: E402
from catalog.core.tool import embedding_text  # noqa: E402
from evaluation.ml.engine import open_engine  # noqa: E402
from tests.evaluation.test_contexts import assert_scored_as_alone  # noqa: E402
from tests.training.small_encoder import quick_recipe, small_pocket, word_pieces, write_encoder  # noqa: E402
from tests.training.small_snapshot import NAMES, sample, write_snapshot  # noqa: E402
from trace_site.lib.files import read_json  # noqa: E402
from training.core.memorization import in_short, replay_records
from training.core.recipe import Recipe, Stage  # noqa: E402
from training.core.records import Snapshot, load_snapshot, stage2_records
from training.core.rundir import RunDir  # noqa: E402
from training.ml import loop, stage1, stage2  # noqa: E402
from training.ml.bases.chat import FIRST_WORD, load_chat  # noqa: E402
from training.ml.bases.encoders import embed  # noqa: E402
from training.ml.bases.model import Trainee, build  # noqa: E402
from training.ml.bases.pocket import writer_tokenizer  # noqa: E402
from training.ml.checkpoints import Trainer  # noqa: E402
from training.ml.data import collate, encode, replayed  # noqa: E402
from training.ml.export import merged  # noqa: E402
from training.ml.loop import NAME, float32_attention  # noqa: E402
from training.ml.optimizer import peak  # noqa: E402
from training.ml.step import gradients, train_step  # noqa: E402

pytestmark = pytest.mark.ml
NEAR = 2e-4  # of logits up to 20
SHORT = Stage(lr=3e-3, encoder_lr=1e-3, rows_lr=1e-3, batch_size=4, epochs=1)
QUERIES = ["pay", "please show case 5", "read the newer pay slip of this month", "book leave"]


def silent(done: int, total: int, note: str) -> None:
    pass


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path_factory.mktemp("pocket") / "snapshot"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export whose every part has moved."""
    folder = tmp_path_factory.mktemp("trained")
    recipe = quick_recipe(format="a", memo="none", retrieval="r+R", stage2=SHORT)
    stage2.main(recipe, write_snapshot(folder / "snapshot"), folder / "run", silent)
    return folder / "run" / "export"


@pytest.fixture(scope="module")
def engine(trained: Path) -> Any:
    return open_engine(trained, threads=1)


def prompts(engine: Any) -> list[list[int]]:
    """Requests of different lengths, some of them with the beginning of an answer."""
    chat = engine.export.chat
    lead = [*chat.empty_ids, *chat.list_open_ids]
    tool = chat.unit_ids(tool_units(NAMES[0], "a"))
    asked = [chat.query_ids(query) for query in QUERIES]
    reasoned = [*chat.open_ids, *chat.text_ids("It is "), *tool, *chat.close_ids, *chat.list_open_ids]
    return [
        *([*asked[0], *lead], asked[1], [*asked[2], *chat.open_ids], [*asked[3], *lead, *tool]),
        [*asked[0], *reasoned],
    ]


@torch.no_grad()
def logits(model: Any, ids: Sequence[Sequence[int]], **options: Any) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=torch.tensor(ids), **options).logits
    return found


def padded(rows: list[list[int]], pad: int, left: bool) -> tuple[list[list[int]], torch.Tensor, torch.Tensor]:
    """(ids, mask, positions) of a batch padded on one side."""
    width = max(map(len, rows)) + 3
    gaps = [[pad] * (width - len(row)) for row in rows]
    ids = [gap + row if left else row + gap for gap, row in zip(gaps, rows, strict=True)]
    real = [
        [0] * len(g) + [1] * len(r) if left else [1] * len(r) + [0] * len(g)
        for g, r in zip(gaps, rows, strict=True)
    ]
    mask = torch.tensor(real)
    return ids, mask, (mask.cumsum(dim=1) - 1).clamp(min=0)


# one model, many ways to run it


@pytest.mark.parametrize("left", [True, False])
def test_padding_on_either_side_changes_no_logit(engine: Any, left: bool) -> None:
    rows = prompts(engine)
    ids, mask, positions = padded(rows, engine.export.chat.pad_id, left)
    together = logits(engine.export.model, ids, attention_mask=mask, position_ids=positions)
    for row, found, real in zip(rows, together, mask.bool(), strict=True):
        torch.testing.assert_close(found[real], logits(engine.export.model, [row])[0], atol=NEAR, rtol=0)


def test_padding_on_the_right_needs_no_mask(engine: Any) -> None:
    rows = prompts(engine)
    ids, _, _ = padded(rows, engine.export.chat.pad_id, left=False)
    together = logits(engine.export.model, ids)
    for row, found in zip(rows, together, strict=True):
        alone = logits(engine.export.model, [row])[0]
        torch.testing.assert_close(found[: len(row)], alone, atol=NEAR, rtol=0)


def test_requests_are_answered_alike_alone_and_in_a_batch_of_32(engine: Any) -> None:
    items = [{"id": str(n), "query": f"{QUERIES[n % 4]} {'case ' * (n % 7)}{n}"} for n in range(32)]
    for decode in ("fast", "trace"):
        together = {row["id"]: row for batch in engine.predict(items, decode, 5) for row in batch}
        for item in items:
            ((alone,),) = engine.predict([item], decode, 5)
            assert alone["tools"] == together[item["id"]]["tools"] and len(alone["tools"]) <= 5
            assert alone["trace"] == together[item["id"]]["trace"]
            assert alone["scores"] == pytest.approx(together[item["id"]]["scores"], abs=1e-3)


@torch.no_grad()
def test_an_answer_after_a_trace_sees_the_request_only_through_the_trace(engine: Any) -> None:
    """The mean of the request, made ten times as loud, changes an answer without a trace and none behind one."""
    empty, *_, reasoned = prompts(engine)
    scale = engine.export.model.model.scale
    before = [logits(engine.export.model, [ids])[0] for ids in (empty, reasoned)]
    scale += math.log(10)
    after = [logits(engine.export.model, [ids])[0] for ids in (empty, reasoned)]
    scale -= math.log(10)
    assert not torch.allclose(before[0][-1], after[0][-1], atol=NEAR)
    inside = len(reasoned) - len(engine.export.chat.list_open_ids) - 2  # the tool that the trace names
    assert not torch.allclose(before[1][inside - 1], after[1][inside - 1], atol=NEAR)
    torch.testing.assert_close(before[1][-1], after[1][-1], atol=NEAR, rtol=0)


@pytest.mark.parametrize("first", [1.0, 0.6])
def test_a_prefill_and_steps_through_the_cache_give_the_logits_of_one_forward(
    engine: Any, first: float
) -> None:
    """The request is read at once; what is written goes token by token, or is given with the request in part."""
    model, chat = engine.export.model, engine.export.chat
    for row in prompts(engine):
        asked = row.index(chat.unit_ids(["<|assistant|>"])[0]) + 1
        cut = asked + round((1 - first) * (len(row) - asked))
        output = model(input_ids=torch.tensor([row[:cut]]), use_cache=True)
        found = [output.logits[0]]
        for number in row[cut:]:
            output = model(
                input_ids=torch.tensor([[number]]), past_key_values=output.past_key_values, use_cache=True
            )
            found.append(output.logits[0])
        torch.testing.assert_close(torch.cat(found), logits(model, [row])[0], atol=NEAR, rtol=0)


def scores(engine: Any, ids: list[int]) -> torch.Tensor:
    return logits(engine.export.model, [ids])[0, -1].float().log_softmax(dim=-1)


def test_contexts_that_come_and_go_and_branch_score_as_alone(engine: Any) -> None:
    chat = engine.export.chat
    tools = [number for name in NAMES[:4] for number in chat.unit_ids(tool_units(name, "a"))]
    tokens = [*tools, *chat.list_sep_ids, *chat.close_ids, *chat.text_ids("because show it please")]
    rows = [*prompts(engine), [*engine.query_ids({"query": "a slip"}), *chat.open_ids]]
    contexts = engine.export.contexts()
    assert_scored_as_alone(contexts, engine.export.model, [*rows, *rows], tokens)
    assert len(contexts) == 0


def test_the_longest_request_has_room_for_the_longest_trace_and_list(engine: Any) -> None:
    export = engine.export
    contexts, spec = export.contexts(), export.spec
    prompt = engine.query_ids({"query": "pay " * 500})
    (asked,), _ = contexts.admit([prompt])
    listed = 20 * (len(export.spec["tools"][0]["ids"]) + 3)
    written = (export.chat.text_ids("because it is ") * 100)[: spec["max_new_tokens"] + listed]
    assert len(prompt) == spec["max_prompt_tokens"]
    found = contexts.feed([asked], [written])
    torch.testing.assert_close(
        found.logits[0], logits(export.model, [[*prompt, *written]])[0, -1].float(), atol=NEAR, rtol=0
    )


def test_a_sequence_without_a_request_is_written_too(engine: Any) -> None:
    ids = engine.export.chat.text_ids("no marker of a request")
    alone = logits(engine.export.model, [ids])
    assert alone.isfinite().all()
    rows, _, _ = padded([ids, prompts(engine)[1]], engine.export.chat.pad_id, left=False)
    beside = logits(engine.export.model, rows)[0, : len(ids)]
    torch.testing.assert_close(beside, alone[0], atol=NEAR, rtol=0)


def test_float32_attention_reaches_both_parts_and_goes_again(snapshot: Snapshot) -> None:
    model: Any = build(quick_recipe(), snapshot).model
    parts = (model, model.model.encoder, model.model.writer)
    ids = torch.arange(4, 60)[None]
    ids[0, 30], ids[0, 2:30] = model.config.assistant_id, torch.arange(28) + FIRST_WORD

    def computed() -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            found: torch.Tensor = model.eval()(input_ids=ids, use_cache=False).logits.float()
            return found

    before = computed()
    with float32_attention(model):
        assert {part.config._attn_implementation for part in parts} == {NAME}
        assert not computed().equal(before)
    assert {part.config._attn_implementation for part in parts} == {"sdpa"}
    assert computed().equal(before)


# before training


def cosines(trainee: Trainee, snapshot: Snapshot, query: str) -> dict[str, float]:
    texts = [embedding_text(tool["name"], tool["description"]) for tool in snapshot.tools]
    asked, *rows = embed(trainee.model.eval(), trainee.chat, quick_recipe(bf16=False), [query, *texts])
    return {tool["name"]: float(asked @ row) for tool, row in zip(snapshot.tools, rows, strict=True)}


def ranked(trainee: Trainee, snapshot: Snapshot, query: str) -> list[str]:
    """The tools by the logits of their tokens where the list begins."""
    names = [tool["name"] for tool in snapshot.tools]
    chat = trainee.chat
    ids = [*chat.query_ids(query), *chat.empty_ids, *chat.list_open_ids]
    last = logits(trainee.model.eval(), [ids])[0, -1]
    places = chat.unit_ids([tool_units(name, "a")[0] for name in names])
    return [names[at] for at in last[places].argsort(descending=True)]


def test_the_untrained_model_ranks_tools_as_its_encoder_does(snapshot: Snapshot) -> None:
    trainee = build(quick_recipe(format="a"), snapshot)
    told = [embedding_text(tool["name"], tool["description"]) for tool in snapshot.tools]
    for query in [*QUERIES, *told, *(f"please show case {number}" for number in range(30))]:
        near = cosines(trainee, snapshot, query)
        order = ranked(trainee, snapshot, query)
        assert order[0] == max(near, key=lambda name: near[name]), query
        # the decoder's share of a logit is two hundredths of a cosine: only such neighbours may change places
        assert all(near[one] > near[other] - 0.02 for one, other in zip(order, order[1:], strict=False)), (
            query
        )
    assert [ranked(trainee, snapshot, text)[0] for text in told] == [tool["name"] for tool in snapshot.tools]


def test_no_row_without_a_tool_is_the_best_answer_of_an_untrained_model(snapshot: Snapshot) -> None:
    trainee = build(quick_recipe(format="a"), snapshot)
    chat = trainee.chat
    own = set(chat.unit_ids([tool_units(name, "a")[0] for name in NAMES]))
    for query in QUERIES:
        ids = [*chat.query_ids(query), *chat.empty_ids, *chat.list_open_ids]
        last = logits(trainee.model.eval(), [ids])[0, -1, trainee.first_tool :]
        assert int(last.argmax()) + trainee.first_tool in own


# requests


def test_a_request_longer_than_the_encoders_positions_is_cut_and_counted(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    encoder = write_encoder(tmp_path / "short", max_position_embeddings=24)
    trainee = build(quick_recipe(pocket=small_pocket(encoder=str(encoder))), snapshot)
    chat, before = trainee.chat, trainee.chat.cut
    assert chat.max_prompt_tokens == 24
    ids = chat.query_ids("show the pay slip " * 20)
    assert len(ids) == 24 and chat.cut == before + 1
    assert logits(trainee.model.eval(), [ids]).isfinite().all()
    assert len(chat.query_ids("show the pay slip")) < 24 and chat.cut == before + 1


def test_stage_2_keeps_to_the_request_length_stage_1_was_trained_with(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path / "snapshot")
    recipe = quick_recipe(
        format="a", memo="m", retrieval="n", stage1=SHORT, stage2=SHORT, max_prompt_tokens=64
    )
    stage1.main(recipe, folder, tmp_path / "one", silent)
    longer = recipe.with_cell(max_prompt_tokens=128)
    trainee = build(longer, load_snapshot(folder), tmp_path / "one" / "export")
    assert trainee.chat.max_prompt_tokens == 64


ANY_SCRIPT = [
    "Вопрос/Найти счёт",
    "請求/查詢工資單",
    "طلب/عرض",
    "Çağrı/Göster é",
    "🙂/👍🏽 ok",
    "Old Api/[SEP] <|end|>",
]


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_names_in_any_script_survive_as_tool_tokens(tmp_path: Path, fmt: str) -> None:
    rows = [
        sample(number, answer=[name], trace=f"I choose {name}.") for number, name in enumerate(ANY_SCRIPT)
    ]
    folder = write_snapshot(tmp_path / "snapshot", rows, history=[ANY_SCRIPT])
    recipe = quick_recipe(format=fmt, memo="none", retrieval="r+R", stage2=SHORT)
    stage2.main(recipe, folder, tmp_path / "run", silent)
    engine = open_engine(tmp_path / "run" / "export", threads=1)
    chat = engine.export.chat
    for tool in engine.export.spec["tools"]:
        assert chat.tokenizer.convert_ids_to_tokens(tool["ids"]) == tool_units(tool["name"], fmt)
    ((found,),) = engine.predict([{"id": "1", "query": "Вопрос 請求 طلب 🙂"}], "fast", len(ANY_SCRIPT))
    assert sorted(found["tools"]) == sorted(ANY_SCRIPT)


# what it writes with


@pytest.fixture(scope="module")
def writer() -> Any:
    return writer_tokenizer(word_pieces(), 600)


@settings(max_examples=300)
@given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_the_written_vocabulary_loses_nothing_of_any_text(writer: Any, text: str) -> None:
    ids = writer.encode(text, add_special_tokens=False)
    if not any(mark in text for mark in writer.added_tokens_encoder):
        assert writer.decode(ids) == text


def test_the_written_vocabulary_keeps_case_spaces_and_line_breaks(writer: Any) -> None:
    for text in ("Please SHOW  Case 5\n\tok ", " é\u0301 中文 🙂\u200d", "x" * 300, "\x00\x7f\u2028"):
        assert writer.decode(writer.encode(text)) == text


def test_the_written_vocabulary_knows_words_and_lists_by_one_token(writer: Any) -> None:
    for text in (" the", " and", '["', '",', ' "', '"]'):
        assert len(writer.encode(text)) == 1, text


def test_two_snapshots_are_written_with_one_vocabulary(tmp_path: Path, snapshot: Snapshot) -> None:
    rows = [sample(number, query=f"quite other words {number}") for number in range(10)]
    other = load_snapshot(write_snapshot(tmp_path / "other", rows))
    found = [build(quick_recipe(format="a"), each).chat.tokenizer.get_vocab() for each in (snapshot, other)]
    assert found[0] == found[1] and len(found[0]) > 600


# exports


def test_an_export_loads_by_itself_and_answers_as_the_trained_model_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    recipe = quick_recipe(format="a", memo="none", retrieval="n", stage2=SHORT)
    recipe = recipe.with_cell(pocket=small_pocket(encoder=str(encoder)))
    models: list[Trainee] = []
    plain = stage2.export

    def keeping(trainee: Trainee, *rest: Any) -> Any:
        models.append(trainee)
        return plain(trainee, *rest)

    monkeypatch.setattr(stage2, "export", keeping)
    stage2.main(recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    for path in encoder.iterdir():
        path.unlink()  # it was only on the training machine
    moved = (tmp_path / "run" / "export").rename(tmp_path / "moved")
    engine, (trainee,) = open_engine(moved, threads=1), models
    assert (moved / "encoder" / "tokenizer.json").is_file()
    assert read_json(moved / "trace.json")["encoder"]
    for query in [*QUERIES, "ünknown 請求 [SEP] words"]:
        ids = engine.query_ids({"query": query})
        assert ids == trainee.chat.query_ids(query)
        assert any(number >= FIRST_WORD for number in ids)
        ours, theirs = logits(engine.export.model, [ids]), logits(trainee.model, [ids])
        torch.testing.assert_close(ours, theirs, atol=NEAR, rtol=0)


def test_the_manifest_covers_the_encoders_words(trained: Path, tmp_path: Path) -> None:
    from evaluation.ml.manifest import verify
    from trace_site.lib.errors import TraceError

    listed = read_json(trained / "manifest.json")["files"]
    assert {"encoder/tokenizer.json", "model.safetensors", "trace.json"} <= set(listed)
    copy = tmp_path / "copy"
    import shutil

    shutil.copytree(trained, copy)
    verify(copy)
    (copy / "encoder" / "tokenizer.json").write_text("{}")
    with pytest.raises(TraceError, match="encoder/tokenizer.json"):
        verify(copy)


def test_an_export_says_the_length_of_a_request_that_its_encoder_reads(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "short", max_position_embeddings=40)
    recipe = quick_recipe(memo="none", retrieval="n", stage2=SHORT, pocket=small_pocket(encoder=str(encoder)))
    stage2.main(recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    chat, spec = load_chat(tmp_path / "run" / "export")
    assert spec["max_prompt_tokens"] == chat.max_prompt_tokens == 40


def test_tables_of_an_export_are_one_and_the_file_holds_no_second(trained: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(trained)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert "lm_head.weight" not in load_file(trained / "model.safetensors")


# what moves, and how fast


def prepared(recipe: Recipe, snapshot: Snapshot, folder: Path, replay: bool = False) -> Trainer:
    trainee = build(recipe, snapshot)
    examples, _ = encode(stage2_records(snapshot, recipe), trainee.chat, recipe.max_seq_len)
    again = encode(replay_records(snapshot, recipe), trainee.chat, recipe.max_seq_len)[0] if replay else []
    run = RunDir(folder)
    run.checkpoints.mkdir(parents=True)
    found = loop.prepare(trainee, examples, recipe.stage2, recipe, run, "stage2", again)
    trainee.model.train()
    return found


def test_each_part_moves_at_its_own_rate_and_the_encoders_words_not_at_all(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    """AdamW's first step of a number with a gradient is its rate, so the rates can be read off the weights."""
    stage = Stage(lr=4e-3, encoder_lr=1e-3, rows_lr=2e-3, batch_size=8, warmup_ratio=0.0, max_grad_norm=1e9)
    trainer = prepared(quick_recipe(retrieval="r+R", bf16=False, stage2=stage), snapshot, tmp_path / "run")
    trainee = trainer.trainee
    before = {name: value.detach().clone() for name, value in trainee.model.named_parameters()}
    train_step(trainer, trainer.examples[:8])
    rates = {"encoder": set[float](), "rows": set[float](), "rest": set[float]()}
    for name, value in trainee.model.named_parameters():
        largest = (value.detach() - before[name]).abs().max().item()
        if "word_embeddings" in name:
            assert not value.requires_grad and largest == 0 and peak(trainee, name, stage) == 0
            continue
        part = "encoder" if ".encoder." in name else "rows" if name.endswith(".rows") else "rest"
        rates[part].add(round(largest, 5))
    assert rates["rows"] == {2e-3}
    assert max(rates["encoder"]) == 1e-3 and max(rates["rest"]) == 4e-3


def test_muon_moves_the_decoders_matrices_and_adamw_all_else(tmp_path: Path, snapshot: Snapshot) -> None:
    stage = Stage(lr=4e-3, encoder_lr=1e-3, rows_lr=2e-3, writer_lr=8e-3, batch_size=8, warmup_ratio=0.0)
    trainer = prepared(quick_recipe(retrieval="r+R", stage2=stage), snapshot, tmp_path / "run")
    train_step(trainer, trainer.examples[:8])
    for name, value in trainer.weights.items():
        by_muon = ".writer.layers." in name and value.ndim == 2
        kept = {"momentum_buffer"} if by_muon else {"exp_avg", "exp_avg_sq", "step"}
        if value.grad is not None:
            assert trainer.optimizer.moments(value).keys() == kept, name


def test_the_encoder_learns_where_no_trace_is_written(tmp_path: Path, snapshot: Snapshot) -> None:
    trainer = prepared(quick_recipe(retrieval="r+R", bf16=False), snapshot, tmp_path / "run")
    thinking = [example for example in trainer.examples if example.thinks]
    direct = [example for example in trainer.examples if not example.thinks]

    def learned(examples: list[Any]) -> torch.Tensor:
        trainer.optimizer.begin(0.0)
        batch = collate(examples, trainer.trainee.chat.pad_id)
        gradients(trainer, batch, [len(example.ids) for example in examples])
        layer = trainer.trainee.model.model.encoder.encoder.layer[0].output.dense.weight  # type: ignore[union-attr]
        return torch.zeros(1) if layer.grad is None else layer.grad.abs().max()

    trainer.trainee.model.eval()
    assert learned(thinking[:2]) == 0 < learned(direct[:2])
    assert learned([direct[0], thinking[0]]) > 0


def test_the_encoder_begins_to_move_where_the_stage_says(tmp_path: Path, snapshot: Snapshot) -> None:
    stage = Stage(lr=1e-3, encoder_lr=1e-3, rows_lr=1e-3, encoder_from=0.5, batch_size=4, epochs=2)
    recipe = quick_recipe(retrieval="n", plain_first=True, stage2=stage)
    trainer = prepared(recipe, snapshot, tmp_path / "run")
    layer = trainer.trainee.model.model.encoder.encoder.layer[0].output.dense.weight  # type: ignore[union-attr]
    rows = next(value for name, value in trainer.weights.items() if name.endswith(".rows"))
    moved = []
    for _ in range(4):
        before = layer.detach().clone(), rows.detach().clone()
        train_step(trainer, trainer.examples[:4])
        moved.append((not layer.equal(before[0]), not rows.equal(before[1])))
    assert moved == [(False, True), (False, True), (True, True), (True, True)]


def test_a_steady_encoder_reads_each_request_once_and_as_in_any_batch(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    stage = Stage(lr=1e-3, encoder_lr=1e-3, rows_lr=1e-3, encoder_from=0.5, batch_size=4, epochs=2)
    recipe = quick_recipe(retrieval="n", plain_first=True, bf16=False, stage2=stage)
    recipe = replace(recipe, pocket=replace(recipe.pocket, dropout=0.0))
    trainer = prepared(recipe, snapshot, tmp_path / "run")
    model: Any = trainer.trainee.model.model
    ids = collate(trainer.examples[:4], trainer.trainee.chat.pad_id).ids
    reads: list[int] = []
    model.encoder.register_forward_hook(lambda *_: reads.append(1))

    def states(progress: float) -> torch.Tensor:
        trainer.optimizer.begin(progress)
        return model.read(ids, torch.ones_like(ids, dtype=torch.bool))[0].detach()

    first, second, requests = states(0.0), states(0.0), len({tuple(row) for row in ids.tolist()})
    assert first.equal(second) and len(reads) == requests
    together = states(0.5)  # the encoder learns from here on, and reads whole batches
    assert len(reads) == requests + 1 and not model._known
    assert (first - together).abs().max() < NEAR


@pytest.mark.parametrize(("keep", "named"), [(0.0, 2), (0.25, 2), (0.25, 5)])
def test_a_stage_keeps_its_share_of_what_encoder_and_rows_were_for_tools_that_no_sample_names(
    tmp_path: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, keep: float, named: int
) -> None:
    """A kill after the last checkpoint ends with the same weights: what they were is known from the start."""
    answers = [row for row in snapshot.samples if row["answer"][0] in NAMES[:named]]
    snapshot = replace(snapshot, samples=answers)
    stage = Stage(lr=1e-3, encoder_lr=1e-3, rows_lr=1e-3, keep=keep, batch_size=4, max_steps=3)
    recipe = quick_recipe(format="a", retrieval="r+R", plain=stage, checkpoint_seconds=1e-9)
    run = RunDir(tmp_path / "run")
    ends: list[dict[str, torch.Tensor]] = []
    records = stage2_records(snapshot, recipe)
    for _ in range(2):
        trainee = build(recipe, snapshot)
        before = {name: value.detach().clone() for name, value in trainee.model.named_parameters()}
        trained: dict[str, torch.Tensor] = {}

        def noting(
            trainer: Trainer, batch: Any, step: Any = loop.train_step, kept: dict[str, torch.Tensor] = trained
        ) -> Any:
            norm = step(trainer, batch)
            kept.update({name: value.detach().clone() for name, value in trainer.weights.items()})
            return norm

        examples, _ = encode(records, trainee.chat, recipe.max_seq_len)
        with monkeypatch.context() as patch, run.locked():
            patch.setattr(loop, "train_step", noting)
            loop.fit(trainee, examples, stage, recipe, run, "plain", silent)
        ends.append({name: value.detach().clone() for name, value in trainee.model.named_parameters()})
        for name, value in trained.items():
            knew = ".encoder." in name or name.endswith(".rows")
            share = keep * (1 - named / trainee.model.config.tools[1]) if knew else 0.0  # type: ignore[union-attr, index]
            torch.testing.assert_close(ends[-1][name], torch.lerp(value, before[name], share))
    assert all(ends[0][name].equal(value) for name, value in ends[1].items())
    assert "resumed from step-" in (run.root / "log.txt").read_text()


def test_the_decoder_sees_the_nearest_tools_with_a_request_and_the_nearest_of_all_as_it_writes(
    snapshot: Snapshot,
) -> None:
    trainee = build(quick_recipe(format="a", pocket=small_pocket()), snapshot)
    chat, base = trainee.chat, trainee.model.eval().model
    given: list[torch.Tensor] = []
    base.writer.register_forward_pre_hook(  # type: ignore[union-attr, operator]
        lambda _, args, options: given.append(options["inputs_embeds"][0]), with_kwargs=True
    )
    asked = chat.query_ids(QUERIES[0])
    thought = [*chat.open_ids, *chat.text_ids("Pay it back."), *chat.close_ids]
    ranked = logits(trainee.model, [[*asked, *chat.empty_ids, *chat.list_open_ids]])[0, -1]
    logits(trainee.model, [[*asked, *thought, *chat.list_open_ids]])
    names = [tool["name"] for tool in snapshot.tools]
    ids = chat.unit_ids([tool_units(name, "a")[0] for name in names])
    best = max(ids, key=lambda number: float(ranked[number]))
    trainee.model.config.tools = [0, 0]
    logits(trainee.model, [[*asked, *chat.empty_ids, *chat.list_open_ids]])
    logits(trainee.model, [[*asked, *thought, *chat.list_open_ids]])
    row = functional.normalize(base.embed_tokens(torch.tensor([best]))[0], dim=0)  # type: ignore[operator]
    size, closed = len(asked), len(asked) + len(thought) - len(chat.close_ids)
    for with_tools, without, written in (
        (given[0], given[2], slice(size, None)),
        (given[1], given[3], slice(size, closed)),
    ):
        for place in (slice(0, 1), written):
            both = functional.normalize(without[place], dim=-1) + row
            wanted = functional.rms_norm(both, both.shape[-1:])
            torch.testing.assert_close(with_tools[place], wanted, atol=1e-4, rtol=1e-4)
    assert given[1][closed:].equal(given[3][closed:])


@pytest.mark.parametrize("part", ["encoder_lr", "rows_lr"])
def test_a_part_whose_rate_is_zero_stays_as_it_is_and_is_in_no_checkpoint(
    tmp_path: Path, snapshot: Snapshot, part: str
) -> None:
    rates = {"encoder_lr": 1e-3, "rows_lr": 1e-3} | {part: 0.0}
    stage = Stage(lr=3e-3, batch_size=4, **rates)  # type: ignore[arg-type]
    trainer = prepared(quick_recipe(retrieval="r+R", stage2=stage), snapshot, tmp_path / "run")
    inside = {"encoder_lr": ".encoder.", "rows_lr": ".rows"}[part]
    named = dict(trainer.trainee.model.named_parameters())
    before = {name: value.detach().clone() for name, value in named.items() if inside in name}
    assert before and not any(inside in name for name in trainer.weights)
    train_step(trainer, trainer.examples[:4])
    assert all(named[name].equal(value) for name, value in before.items())


def test_untouched_words_of_the_encoder_come_out_of_a_whole_run_as_they_went_in(trained: Path) -> None:
    from tests.training.small_encoder import small_encoder

    name = "embeddings.word_embeddings.weight"
    theirs = load_file(Path(small_encoder()) / "model.safetensors")
    ours = load_file(trained / "model.safetensors")
    assert ours[f"model.encoder.{name}"].equal(theirs[name])
    layer = "encoder.layer.0.attention.self.query.weight"
    assert not ours[f"model.encoder.{layer}"].equal(theirs[layer])


# replay


def test_replay_goes_beside_what_has_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[tuple[int, ...]]] = []
    plain = loop.train_step

    def noting(trainer: Trainer, examples: list[Any]) -> Any:
        seen.append([tuple(example.ids) for example in examples])
        return plain(trainer, examples)

    monkeypatch.setattr(loop, "train_step", noting)
    folder = write_snapshot(tmp_path / "snapshot")
    stage = Stage(lr=1e-3, batch_size=4, epochs=3)
    recipe = quick_recipe(format="a", memo="none", retrieval="n", stage2=stage)
    for replay, beside in ((0.0, 0), (0.5, 2)):
        seen.clear()
        stage2.main(recipe.with_cell(replay=replay), folder, tmp_path / str(replay), silent)
        assert [len(batch) for batch in seen] == [4 + beside, 1] * 3  # half of one is none
    snapshot = load_snapshot(folder)
    chat = build(recipe, snapshot).chat
    told = [
        tuple(chat.render(record)[0]) for record in replay_records(snapshot, recipe.with_cell(replay=0.5))
    ]
    again = [ids for batch in seen for ids in batch if ids in told]
    assert len(again) == 6


def test_what_is_replayed_is_a_function_of_seed_and_step_and_takes_turns() -> None:
    steps = [replayed(7, 3, 0, step) for step in range(14)]
    flat = [number for found in steps for number in found]
    assert [sorted(flat[at : at + 7]) for at in range(0, 42, 7)] == [list(range(7))] * 6
    assert flat[:7] != flat[7:14] and steps == [replayed(7, 3, 0, step) for step in range(14)]
    assert steps != [replayed(7, 3, 1, step) for step in range(14)]
    assert replayed(0, 3, 0, 5) == [] and replayed(7, 0, 0, 5) == []


def test_a_replayed_description_asks_as_a_request_and_answers_with_its_tool(snapshot: Snapshot) -> None:
    recipe = quick_recipe(format="c", retrieval="r+R")
    assert replay_records(snapshot, recipe) == []
    found = replay_records(snapshot, recipe.with_cell(replay=1.0))
    asked = [part for record in found for part in record.prompt]
    assert {record.kind for record in found} == {"retrieve"}
    assert set(asked) == {
        text for tool in snapshot.tools for text in (tool["description"], in_short(tool["description"]))
    }
    chat = build(recipe, snapshot).chat
    ids, mask = chat.render(found[0])
    answer = chat.tokenizer.decode([n for n, m in zip(ids, mask, strict=True) if m])
    assert answer == f'["{"".join(tool_units(NAMES[0], "c"))}"]<|end|>'


@pytest.mark.parametrize(
    ("description", "short"),
    [
        ("Cancels an order. It stays in the list.", "cancels an order"),
        ("Get a list (paged)", "get a list"),
        (" ".join(["Word"] * 30), " ".join(["word"] * 10)),
        ("(beta) Get", "(beta) Get"),
        ("", ""),
    ],
)
def test_in_short_a_description_is_its_first_words(description: str, short: str) -> None:
    assert in_short(description) == short


def test_merging_puts_the_rows_back_into_one_table(snapshot: Snapshot) -> None:
    trainee = build(quick_recipe(), snapshot)
    ids = [[*trainee.chat.query_ids(QUERIES[1]), *trainee.chat.empty_ids]]
    before = logits(trainee.model.eval(), ids)
    model = merged(trainee)
    assert type(model.model.embed_tokens) is torch.nn.Embedding
    assert model.lm_head.weight is model.model.embed_tokens.weight
    torch.testing.assert_close(logits(model, ids), before, atol=1e-5, rtol=0)


def test_the_estimate_weighs_a_pocket_within_a_twentieth_of_the_real_one(snapshot: Snapshot) -> None:
    from training.core.estimate import Lengths, size_of

    recipe = quick_recipe(format="a")
    model = merged(build(recipe, snapshot))
    lengths = Lengths(5, 0, 0, {"flat": 6}, {}, {}, {})
    size = size_of(recipe, lengths)
    assert size is not None
    assert size.parameters == pytest.approx(sum(value.numel() for value in model.parameters()), rel=0.05)
