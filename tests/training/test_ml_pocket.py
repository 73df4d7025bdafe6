"""The pocket model: how it reads and decides before any training, what training moves, and what an export holds."""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from catalog.core.tokens import telling_units  # noqa: E402
from catalog.core.tool import embedding_text  # noqa: E402
from evaluation.ml.engine import open_engine  # noqa: E402
from evaluation.ml.manifest import verify  # noqa: E402
from tests.training.small_encoder import quick_recipe, small_encoder, small_pocket, write_encoder  # noqa: E402
from tests.training.small_snapshot import RULE, sample, silent, write_snapshot  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import read_json  # noqa: E402
from training.core.estimate import size_of  # noqa: E402
from training.core.recipe import Recipe, Stage  # noqa: E402
from training.core.records import Snapshot, load_snapshot  # noqa: E402
from training.core.rundir import RunDir  # noqa: E402
from training.ml import loop, stages  # noqa: E402
from training.ml.bases.encoders import embed  # noqa: E402
from training.ml.bases.model import build  # noqa: E402
from training.ml.bases.pocket import NEVER, Board, Logits, together  # noqa: E402
from training.ml.checkpoints import Trainer  # noqa: E402
from training.ml.data import replayed  # noqa: E402
from training.ml.deciding import BY_TOOLS, Choice, PocketTrainee, choice_loss, leading  # noqa: E402
from training.ml.export import choices  # noqa: E402
from training.ml.loop import NAME, float32_attention  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402
from training.ml.step import train_step  # noqa: E402

pytestmark = pytest.mark.ml
NEAR = 2e-4  # of logits up to 20
SHORT = Stage(lr=3e-3, encoder_lr=1e-3, rows_lr=1e-3, batch_size=4, epochs=1)
QUERIES = ["pay", "please show case 5", "read the newer pay slip of this month", "book leave"]
NEWER, OLDER, _ = RULE["statements"]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path_factory.mktemp("pocket") / "snapshot"))


def untrained(snapshot: Snapshot, retrieval: str = "r+R", **fields: Any) -> PocketTrainee:
    found = build(quick_recipe(format="a", retrieval=retrieval, bf16=False, **fields), snapshot)
    assert isinstance(found, PocketTrainee)
    return found


@torch.no_grad()
def found_of(trainee: PocketTrainee, query: str) -> Logits:
    reader, model = trainee.reader, trainee.model.eval()
    return model.logits(model.read(*together([reader.ids(query)], reader.pad_id)), trainee.board)


# before training


@torch.no_grad()
def test_a_text_is_read_alike_alone_and_beside_longer_ones(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot)
    reader, model = trainee.reader, trainee.model
    rows = [reader.ids(query) for query in QUERIES]
    beside = model.read(*together(rows, reader.pad_id))
    alone = torch.cat([model.read(*together([row], reader.pad_id)) for row in rows])
    torch.testing.assert_close(beside, alone, atol=1e-5, rtol=0)


def test_an_untrained_model_ranks_tools_as_its_encoder_does_where_no_rule_is(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot, "r")
    texts = [embedding_text(tool["name"], tool["description"]) for tool in snapshot.tools]
    for query in [*QUERIES, *texts]:
        asked, *rows = embed(trainee.model, trainee.reader, quick_recipe(bf16=False), [query, *texts])
        near = torch.stack([asked @ row for row in rows])
        found = found_of(trainee, query)
        assert found.tools[0].argsort().equal(near.argsort()) and not found.clauses.numel()


@pytest.mark.parametrize("clause", [NEWER, OLDER], ids=lambda one: one["tools"][0])
def test_a_clause_puts_its_tool_first_before_any_training(snapshot: Snapshot, clause: dict[str, Any]) -> None:
    trainee = untrained(snapshot)
    board, settings = trainee.board, small_pocket(bar=-3.0)
    found = found_of(trainee, clause["text"])
    joint = trainee.model.joint(found, board, settings)
    spoken = int(joint.shares[0].argmax())
    assert leading(trainee.spec["clauses"])[spoken]["token"] == clause["token"]
    assert [snapshot.tools[at]["name"] for at in board.leads[spoken] if at >= 0] == clause["tools"]
    assert joint.ruled[0, spoken].max() > max(joint.free.max(), joint.ruled[0, 1 - spoken].max())


def test_tools_that_a_rule_tells_apart_do_not_speak_against_it(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot)
    board, found = trainee.board, found_of(trainee, NEWER["text"])
    numbers = range(len(snapshot.tools))
    told_apart = [at for at in board.sets[0].tolist() if at >= 0]

    def speaks(raised: Sequence[int]) -> float:
        tools = found.tools.clone()
        tools[0, list(raised)] += 5
        joint = trainee.model.joint(Logits(tools, found.clauses), board, small_pocket(bar=0.0))
        return float(joint.shares.exp().sum())

    assert speaks(told_apart) == pytest.approx(speaks([]), abs=1e-5)
    assert speaks([at for at in numbers if at not in told_apart]) < speaks([]) - 0.5


def test_what_is_decided_with_and_without_a_rule_has_all_probability(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot)
    for query in QUERIES:
        joint = trainee.model.joint(found_of(trainee, query), trainee.board, small_pocket())
        assert float(joint.free.exp().sum() + joint.ruled.exp().sum()) == pytest.approx(1, abs=1e-4)


def test_a_rule_is_as_near_as_the_nearest_of_its_tools_and_clauses(snapshot: Snapshot) -> None:
    """Its nearest clause takes that place, by the margin ahead of the tools; the other follows at its own distance."""
    trainee = untrained(snapshot)
    board, model = trainee.board, trainee.model
    rows = torch.nn.functional.normalize(model.clauses[board.clauses], dim=1).detach()
    for query in QUERIES:
        found = found_of(trainee, query)
        reading = embed(model, trainee.reader, quick_recipe(bf16=False), [query])[0]
        own = model.scale.exp().item() * rows @ reading
        near = max(float(found.tools[0, board.sets[0]].max()), float(own.max()))
        wanted = near - own.max() + own + model.margin.detach()
        torch.testing.assert_close(found.clauses[0], wanted, atol=1e-3, rtol=0)


def test_a_clause_that_leads_to_no_tool_that_may_be_named_does_not_speak(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot)
    reader, model = trainee.reader, trainee.model
    hidden = torch.tensor([[tool["name"] == NEWER["tools"][0] for tool in snapshot.tools]])
    with torch.no_grad():
        reading = model.read(*together([reader.ids(NEWER["text"])], reader.pad_id))
        found = model.logits(reading, trainee.board, hidden)
    silenced = [one["tools"] == NEWER["tools"] for one in leading(trainee.spec["clauses"])]
    assert (found.clauses[0] <= NEVER).tolist() == silenced


def test_what_is_added_to_a_clause_is_of_its_token(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot)
    spec = {**trainee.spec, "clauses": leading(trainee.spec["clauses"])}
    board = Board.of(spec, {OLDER["token"]: 3.0})
    assert board.extra.tolist() == [0.0, 3.0]
    plain = found_of(trainee, QUERIES[0]).clauses
    trainee.board = board
    torch.testing.assert_close(found_of(trainee, QUERIES[0]).clauses - plain, torch.tensor([[0.0, 3.0]]))


def test_opaque_rows_are_as_long_as_others_and_carry_no_words(snapshot: Snapshot) -> None:
    opaque, described = untrained(snapshot, token_init="opaque"), untrained(snapshot)
    for name in ("tokens", "clauses"):
        rows = getattr(opaque.model, name).detach()
        assert rows.norm(dim=1).sub(1).abs().max() < 1e-5
        assert not rows.allclose(getattr(described.model, name).detach(), atol=0.1)


def test_float32_attention_reaches_the_encoder_and_goes_again(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot)
    ids, real = together([list(range(5, 60))], trainee.reader.pad_id)

    def computed() -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            return trainee.model.read(ids, real)

    before = computed()
    with float32_attention(trainee.attending):
        assert trainee.attending.config._attn_implementation == NAME
        assert not computed().equal(before)
    assert trainee.attending.config._attn_implementation == "sdpa" and computed().equal(before)


# requests


def test_a_request_longer_than_the_encoders_positions_is_cut(tmp_path: Path, snapshot: Snapshot) -> None:
    encoder = write_encoder(tmp_path / "short", max_position_embeddings=24)
    reader = untrained(snapshot, pocket=small_pocket(encoder=str(encoder))).reader
    long, short = "show the pay slip " * 20, "show the pay slip"
    assert reader.longest == len(reader.ids(long)) == 24 and reader.is_cut(long)
    assert len(reader.ids(short)) < 24 and not reader.is_cut(short)


def test_stage_2_keeps_to_the_request_length_stage_1_was_trained_with(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path / "snapshot")
    recipe = quick_recipe(format="a", retrieval="r", stage1=SHORT, max_prompt_tokens=64)
    train_stage("stage1", recipe, folder, tmp_path / "one", silent)
    trainee = build(
        recipe.with_cell(max_prompt_tokens=128), load_snapshot(folder), tmp_path / "one" / "export"
    )
    assert isinstance(trainee, PocketTrainee) and trainee.reader.longest == 64


# the loss


def choice(**fields: Any) -> Choice:
    usual: dict[str, Any] = {"ids": [], "tools": (0,), "clauses": (), "among": ()}
    return Choice(
        **(usual | {"together": False, "weighs": False, "counts": False, "composed": False} | fields)
    )


TOOLS, CLAUSES = torch.tensor([[2.0, 1.0, 0.0, -1.0]]), torch.tensor([[1.5, 0.5]])
FOUND = Logits(TOOLS, CLAUSES)


def chances(*logits: float) -> torch.Tensor:
    return torch.tensor(logits, dtype=torch.float).softmax(dim=0)


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (choice(), -chances(2, 1, 0, -1)[0].log()),
        (choice(weighs=True), -chances(2, 1, 0, -1, 1.5, 0.5)[0].log()),
        (choice(tools=(1,), among=(1, 3)), -chances(1, -1)[0].log()),
        (choice(tools=(0, 2)), -chances(2, 1, 0, -1)[[0, 2]].log().mean()),
        (choice(tools=(0, 2), together=True), -chances(2, 1, 0, -1)[[0, 2]].sum().log()),
        (
            choice(clauses=(0, 1), weighs=True),
            -chances(2, 1, 0, -1, 1.5, 0.5)[4:].sum().log() - BY_TOOLS * chances(2, 1, 0, -1)[0].log(),
        ),
    ],
    ids=[
        "a tool",
        "a tool where no rule speaks",
        "among two",
        "each of two",
        "one of two",
        "a clause, and its tool by itself",
    ],
)
def test_the_loss_of_a_choice(one: Choice, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(choice_loss(FOUND, [one]), wanted)


def test_the_loss_is_made_where_the_model_was_moved_to(snapshot: Snapshot) -> None:
    trainee = untrained(snapshot)
    examples, _, _ = trainee.retrieval(snapshot, quick_recipe(format="a", retrieval="r+R", bf16=False))
    trainee.to(torch.device("meta"))  # refuses what is left behind, as a GPU does
    reading = trainee.model.tokens[:1].expand(len(examples), -1)
    assert choice_loss(trainee.model.logits(reading, trainee.board), examples).is_meta


# what moves, and how fast


def prepared(recipe: Recipe, snapshot: Snapshot, folder: Path) -> Trainer:
    trainee = build(recipe, snapshot)
    examples, replay, _ = trainee.retrieval(snapshot, recipe)
    run = RunDir(folder)
    run.checkpoints.mkdir(parents=True)
    found = loop.prepare(trainee, examples, recipe.stage2, recipe, run, "stage2", replay)
    trainee.model.train()
    return found


def test_each_part_moves_at_its_own_rate_and_the_encoders_words_not_at_all(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    """AdamW's first step of a number with a gradient is its rate, so the rates can be read off the weights."""
    stage = Stage(lr=4e-3, encoder_lr=1e-3, rows_lr=2e-3, batch_size=10, warmup_ratio=0.0, max_grad_norm=1e9)
    recipe = quick_recipe(format="a", retrieval="r+R", bf16=False, stage2=stage)
    trainer = prepared(recipe, snapshot, tmp_path / "run")
    model = trainer.trainee.model
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    train_step(trainer, trainer.examples)
    largest: dict[str, float] = {}
    for name, value in model.named_parameters():
        part = "words" if "word_embeddings" in name else name.partition(".")[0]
        moved = (value.detach() - before[name]).abs().max().item()
        largest[part] = max(largest.get(part, 0), round(moved, 5))
    rows = {"tokens": 2e-3, "clauses": 2e-3}
    assert largest == {"words": 0, "encoder": 1e-3, **rows, "scale": 4e-3, "margin": 4e-3, "length": 4e-3}


def test_requests_that_the_offline_writer_composed_move_rows_and_not_the_encoder(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    offline = {"writer": "offline"}
    cases = ((offline, False), (offline | {"branch": "imported"}, True), ({}, True))
    for number, (made, moves) in enumerate(cases):
        samples = [row | made for row in snapshot.samples]
        recipe = quick_recipe(format="a", retrieval="r+R")
        trainer = prepared(recipe, replace(snapshot, samples=samples), tmp_path / str(number))
        model = trainer.trainee.model
        before = {name: value.detach().clone() for name, value in model.named_parameters()}
        train_step(trainer, trainer.examples)
        moved = {name for name, value in model.named_parameters() if not value.equal(before[name])}
        assert "tokens" in moved
        assert any(name.startswith("encoder.") for name in moved) is moves


def test_only_rows_of_tools_and_clauses_that_a_sample_names_move(tmp_path: Path, snapshot: Snapshot) -> None:
    named = replace(snapshot, samples=[row for row in snapshot.samples if row["id"] in (0, 1)])
    trainer = prepared(quick_recipe(format="a", retrieval="r+R"), named, tmp_path / "run")
    model = trainer.trainee.model
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for _ in range(3):
        train_step(trainer, trainer.examples)
    moved = {
        strings[row]
        for name, strings in (
            ("tokens", snapshot.family_strings("a")),
            ("clauses", snapshot.clause_strings()),
        )
        for row in (dict(model.named_parameters())[name] != before[name]).any(dim=1).nonzero().flatten()
    }
    assert moved == {"<<PayV1&&GetSlip>>", "<<PayV1&&ListRuns>>", OLDER["token"]}


@pytest.mark.parametrize(("rate", "part"), [("encoder_lr", "encoder."), ("rows_lr", "tokens")])
def test_a_part_whose_rate_is_zero_stays_as_it_is_and_is_in_no_checkpoint(
    tmp_path: Path, snapshot: Snapshot, rate: str, part: str
) -> None:
    stage = replace(SHORT, **{rate: 0.0})
    trainer = prepared(quick_recipe(retrieval="r+R", stage2=stage), snapshot, tmp_path / "run")
    weights = dict(trainer.trainee.model.named_parameters())
    before = {name: value.detach().clone() for name, value in weights.items() if name.startswith(part)}
    assert before and not any(name.startswith(part) for name in trainer.weights)
    train_step(trainer, trainer.examples[:4])
    assert all(weights[name].equal(value) for name, value in before.items())


# cells that train the same weights


def test_formats_b_and_c_train_the_same_weights(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path / "snapshot")
    found = {}
    for fmt in ("b", "c"):
        recipe = quick_recipe(format=fmt, memo="m", retrieval="r+R", stage1=SHORT, stage2=SHORT, bf16=False)
        train_stage("stage1", recipe, folder, tmp_path / fmt / "one", silent)
        train_stage(
            "stage2", recipe, folder, tmp_path / fmt / "two", silent, tmp_path / fmt / "one" / "export"
        )
        found[fmt] = load_file(tmp_path / fmt / "two" / "export" / "model.safetensors")
    found["c"]["tokens"] = found["c"]["tokens"][2:]  # those that wrap a name are the same for every tool
    for name, value in found["b"].items():
        torch.testing.assert_close(found["c"][name], value, atol=1e-4, rtol=0)


# exports


def test_an_export_reads_back_with_the_same_logits_and_clause_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    recipe = quick_recipe(format="a", memo="none", retrieval="r+R", stage2=SHORT)
    recipe = replace(recipe, pocket=small_pocket(encoder=str(encoder)))
    kept: list[PocketTrainee] = []
    plain = stages.export
    monkeypatch.setattr(stages, "export", lambda *given: [kept.append(given[0]), plain(*given)][1])
    train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    for path in encoder.iterdir():
        path.unlink()  # it was only on the training machine
    moved = (tmp_path / "run" / "export").rename(tmp_path / "moved")
    export, (trainee,) = open_engine(moved, threads=1).export, kept
    asked = [trainee.reader.ids(query) for query in [*QUERIES, "ünknown 請求 [SEP] words"]]
    assert asked == [export.reader.ids(query) for query in [*QUERIES, "ünknown 請求 [SEP] words"]]
    pad, spec = export.reader.pad_id, read_json(moved / "trace.json")
    ours, theirs = (choices(one.model, asked, pad, trainee.board) for one in (export, trainee))
    assert all(a.equal(b) for a, b in zip(ours, theirs, strict=True))
    assert export.model.clauses.equal(trainee.model.clauses)
    ledger = load_snapshot(tmp_path / "snapshot").clause_strings()
    assert {one["token"]: one["row"] for one in spec["clauses"]} == {
        text: slot for slot, text in enumerate(ledger) if slot
    }
    assert [(one["text"], one["tools"], one["version"]) for one in spec["clauses"]] == [
        (one["text"], one["tools"], 1) for one in RULE["statements"]
    ]
    bar = Recipe().pocket.bar - log(len(spec["tools"]))
    assert spec["calibration"] == {"bar": bar, "untrained": 2.5}
    lost = moved / "tokenizer.json"
    lost.write_text("{}")
    with pytest.raises(TraceError, match="tokenizer.json"):
        verify(moved)


def test_an_export_with_other_weights_than_a_pockets_is_refused_by_name(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from training.ml.bases.pocket import load

    recipe = quick_recipe(format="a", memo="none", retrieval="none")
    train_stage("stage1", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    path = tmp_path / "run" / "export" / "model.safetensors"
    weights = load_file(path)
    for harm in ({"clauses": weights["clauses"][:, :4].contiguous()}, {"margin": None}):
        save_file({k: v for k, v in {**weights, **harm}.items() if v is not None}, path)
        with pytest.raises(TraceError, match="not those of a pocket model"):
            load(path.parent, 64)


def test_untouched_words_of_the_encoder_come_out_of_a_whole_run_as_they_went_in(tmp_path: Path) -> None:
    recipe = quick_recipe(format="a", memo="none", retrieval="r+R", stage2=SHORT)
    train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    theirs = load_file(Path(small_encoder()) / "model.safetensors")
    ours = load_file(tmp_path / "run" / "export" / "model.safetensors")
    for name, same in (
        ("embeddings.word_embeddings.weight", True),
        ("encoder.layer.0.attention.self.query.weight", False),
    ):
        assert ours[f"encoder.{name}"].equal(theirs[name]) is same


ANY_SCRIPT = [
    "Вопрос/Найти счёт",
    "請求/查詢工資單",
    "طلب/عرض",
    "Çağrı/Göster é",
    "🙂/👍🏽 ok",
    "Old Api/[SEP] <|end|>",
]


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_names_in_any_script_are_answered_with(tmp_path: Path, fmt: str) -> None:
    rows = [sample(n, answer=[name], branch="rrb") for n, name in enumerate(ANY_SCRIPT)]
    folder = write_snapshot(tmp_path / "snapshot", rows, history=[ANY_SCRIPT], rules=[])
    train_stage(
        "stage2",
        quick_recipe(format=fmt, memo="none", retrieval="r", stage2=SHORT),
        folder,
        tmp_path / "run",
        silent,
    )
    engine, ledger = (
        open_engine(tmp_path / "run" / "export", threads=1),
        load_snapshot(folder).family_strings(fmt),
    )
    for tool in engine.export.spec["tools"]:
        assert [ledger[number] for number in tool["ids"]] == telling_units(tool["name"], fmt)
    ((found,),) = engine.predict([{"id": "1", "query": "Вопрос 請求 طلب 🙂"}], "fast", len(ANY_SCRIPT))
    assert sorted(found["tools"]) == sorted(ANY_SCRIPT)


# replay


def test_replay_goes_beside_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Any]] = []
    plain = loop.train_step

    def noting(trainer: Trainer, examples: list[Any]) -> Any:
        seen.append(list(examples))
        return plain(trainer, examples)

    monkeypatch.setattr(loop, "train_step", noting)
    folder = write_snapshot(tmp_path / "snapshot")
    stage = Stage(lr=1e-3, batch_size=4, epochs=3)
    recipe = quick_recipe(format="a", memo="none", retrieval="r", stage2=stage)
    for replay, beside in ((0.0, 0), (0.5, 2)):
        seen.clear()
        train_stage("stage2", replace(recipe, replay=replay), folder, tmp_path / str(replay), silent)
        assert sorted(len(batch) for batch in seen) == sorted([4 + beside, 4 + beside, 2 + beside] * 3)
        assert sum(not one.counts for batch in seen for one in batch) == 9 * beside


def test_what_is_replayed_is_a_function_of_seed_and_step_and_takes_turns() -> None:
    steps = [replayed(7, 3, 0, step) for step in range(14)]
    flat = [number for found in steps for number in found]
    assert [sorted(flat[at : at + 7]) for at in range(0, 42, 7)] == [list(range(7))] * 6
    assert flat[:7] != flat[7:14] and steps == [replayed(7, 3, 0, step) for step in range(14)]
    assert steps != [replayed(7, 3, 1, step) for step in range(14)]
    assert replayed(0, 3, 0, 5) == [] and replayed(7, 0, 0, 5) == []


def test_the_estimate_weighs_a_pocket_within_a_twentieth_of_the_real_one(snapshot: Snapshot) -> None:
    size = size_of(quick_recipe(format="a"), 5)
    real = sum(value.numel() for value in untrained(snapshot).model.parameters())
    assert size is not None and size.parameters == pytest.approx(real, rel=0.05)
