"""Starting a run: the form with every field of the recipe, what it says before, pasting, downloading, cloning."""

import re
from dataclasses import asdict
from html import unescape

import pytest
import yaml

from tests.factories import make_run, make_snapshot
from tests.training.hostile_recipes import HOSTILE_RECIPES
from tests.training.small_snapshot import write_snapshot
from trace_site.artefacts import store
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.worker import Worker
from training.core import recipe as recipes
from training.core.recipe import FIELDS
from training.models import Run, RunMetric, TrainedStage
from training.runs.forms import FILLED_FOR, edited
from training.runs.services import run_steps
from training.runs.stages import chosen_recipe, default_recipe

pytestmark = pytest.mark.django_db
CELLS = [(f, m, r) for f in "abc" for m in ("m", "mr", "none") for r in ("none", "n", "r", "r+R", "n>r")]
ALIVE = {"cpu": "CPU X", "gpu": "", "threads": 2, "cores": 2, "memory_gb": 16}


def typed_recipe(base, sent):
    cell = {"base": base, "format": "a", "memo": "m", "retrieval": "r", "seed": 0}
    return chosen_recipe(cell, edited(base, sent))


NAMED = "google/gemma-4-E4B-it"


@pytest.fixture
def bases(settings):
    settings.BASE_MODELS = [NAMED, "who/knows"]


def drawn(page):
    """{field: value} of the recipe as a browser would send it."""
    texts = re.findall(r'<input type="(?:text|hidden)"[^>]*? name="([\w.]+)" value="([^"]*)"', page)
    chosen = re.findall(r'name="([\w.]+)"[^>]*>(?:<option>\w+</option>)*<option selected>(\w+)<', page)
    return {name: value for name, value in (*texts, *chosen) if name in FIELDS or name == FILLED_FOR}


def form(snapshot, **fields):
    cell = {"base": "pocket", "format": "c", "memo": "m", "retrieval": "r", "seed": "5"}
    return {"snapshot": snapshot.pk, **cell, **fields}


@pytest.fixture
def real_snapshot(tmp_path):
    """A snapshot whose files can be read."""
    folder = write_snapshot(tmp_path / "snapshot")
    key = "snapshots/small"
    digest = store().put_dir(folder, key)
    counts = {"tools": 5, "rrb": 5, "rule": 5, "imported": 0}
    return make_snapshot(store_key=key, store_digest=digest, counts=counts)


@pytest.mark.parametrize(
    ("role", "status"), [("admin", 200), ("expert", 403), ("reviewer", 403), ("product_manager", 403)]
)
@pytest.mark.parametrize("path", ["new/", "new/estimate/", "recipe/"])
def test_only_admins_launch_runs(client_as, role, status, path):
    make_snapshot()
    assert client_as(role).get(f"/training/{path}").status_code == status


@pytest.mark.parametrize(
    ("base", "absent"),
    [("pocket", {"lora.rank", "max_seq_len"}), (NAMED, {"pocket.bar", "stage2.rows_lr", "replay"})],
)
def test_the_form_holds_the_fields_that_the_base_reads_with_their_defaults_and_help(
    client_as, bases, base, absent
):
    make_snapshot()
    page = client_as("admin").get(f"/training/new/?base={base}").content.decode()
    there = {name for name in FIELDS if f'name="{name}"' in page}
    assert absent.isdisjoint(there) and len(there) > 30
    for name in there:
        assert f'id="h-{name}"' in page and FIELDS[name].label in page, name
    assert "paper 0.0001" in page and "this project; the paper does not say" in page


@pytest.mark.parametrize("base", [NAMED, "pocket"])
def test_every_cell_of_the_grid_can_be_launched(client_as, bases, base):
    client, snapshot = client_as("admin"), make_snapshot()
    for fmt, memo, retrieval in CELLS:
        sent = form(snapshot, base=base, format=fmt, memo=memo, retrieval=retrieval)
        assert client.post("/training/new/", sent).status_code == 302
    cells = set(Run.objects.values_list("format", "memo", "retrieval"))
    assert cells == {(fmt, memo, retrieval) for fmt, memo, retrieval in CELLS}
    assert Run.objects.count() == len(cells) == 45


def test_launch_form_queues_the_chosen_cell_with_the_typed_recipe(client_as):
    answer = client_as("admin").post("/training/new/", form(make_snapshot(), **{"stage2.lr": "0.0005"}))
    run = Run.objects.get()
    assert answer.url == f"/training/{run.pk}/"
    assert (run.cell, run.seed, run.recipe["stage2"]["lr"]) == ("(c, m, r)", 5, 0.0005)
    assert run.recipe["stage1"]["lr"] == default_recipe("pocket").stage1.lr
    assert run.job.state == "queued"


def test_every_kind_of_field_can_be_typed():
    sent = {
        "bf16": "false",
        "activation_checkpointing": "true",
        "pocket.encoder": "some/encoder",
        "stage1.betas": "0.8, 0.9",
        "embeddings": "new_rows",
        "stage2.epochs": "",
    }
    recipe = typed_recipe("pocket", sent)
    assert (recipe.bf16, recipe.activation_checkpointing, recipe.embeddings) == (False, True, "new_rows")
    assert recipe.pocket.encoder == "some/encoder"
    assert recipe.stage1.betas == (0.8, 0.9)
    assert recipe.stage2.epochs == default_recipe("pocket").stage2.epochs


def test_a_wrong_recipe_field_is_named_and_nothing_typed_is_lost(client_as):
    sent = form(make_snapshot(), **{"stage1.lr": "fast", "stage2.lr": "0.0007"})
    page = client_as("admin").post("/training/new/", sent)
    assert page.status_code == 422 and b"stage1.lr" in page.content
    assert b'value="fast"' in page.content and b'value="0.0007"' in page.content
    assert not Run.objects.exists()


def test_a_cell_without_samples_to_learn_from_is_refused_before_it_starts(client_as):
    snapshot = make_snapshot(counts={"tools": 9, "rrb": 0, "rule": 40, "imported": 0})
    client = client_as("admin")
    page = client.post("/training/new/", form(snapshot, retrieval="n"))
    assert page.status_code == 422 and "choose r+R" in page.content.decode()
    assert client.post("/training/new/", form(snapshot, retrieval="r+R")).status_code == 302


def test_an_equal_run_is_shown_instead_of_being_trained_again(client_as):
    client, snapshot = client_as("admin"), make_snapshot()
    first, second = (client.post("/training/new/", form(snapshot)) for _ in range(2))
    assert first.url == second.url and Job.objects.count() == 1
    told = client.get("/training/new/estimate/", form(snapshot)).content.decode()
    assert "The same run was made before" in told


def test_form_without_a_snapshot_says_what_to_do(client_as):
    assert b"Build a snapshot" in client_as("admin").get("/training/new/").content


def test_another_base_brings_its_own_defaults_and_fields_and_none_of_the_pocket(client_as):
    page = client_as("admin").get("/training/recipe/", {"base": NAMED}).content.decode()
    assert re.search(r'name="stage2.lr" value="0.0001"', page)
    assert not re.search(r'name="pocket\.\w+"', page) and "lora.rank" in page and 'name="plain.lr"' in page


def test_the_form_offers_pocket_and_every_configured_base_and_begins_with_the_default(client_as, settings):
    settings.BASE_MODEL, settings.BASE_MODELS = NAMED, ["Qwen/Qwen3-0.6B"]
    make_snapshot()
    page = client_as("admin").get("/training/new/").content.decode()
    options = re.findall(
        r'<option value="([^"]+)"( selected)?>', page.split('id="id_base"')[1].split("</select>")[0]
    )
    assert options == [(NAMED, " selected"), ("pocket", ""), ("Qwen/Qwen3-0.6B", "")]
    assert drawn(page)["stage2.lr"] == "0.0001" and drawn(page)[FILLED_FOR] == NAMED
    assert "vLLM serves named bases only" in page


def test_a_base_chosen_without_touching_the_recipe_trains_with_its_own_recipe(client_as, bases, settings):
    client, snapshot = client_as("admin"), make_snapshot()
    filled = drawn(client.get("/training/new/").content.decode())
    assert filled[FILLED_FOR] == "pocket" and filled.keys() < {*FIELDS, FILLED_FOR}
    told = client.get("/training/new/estimate/", form(snapshot, **filled | {"base": NAMED}))
    assert told.context["changes"] == []
    client.post("/training/new/", form(snapshot, **filled | {"base": NAMED}))
    run, other = Run.objects.get(), default_recipe(NAMED)
    cell = {name: getattr(run, name) for name in ("base", "format", "memo", "retrieval", "seed")}
    assert recipes.from_dict(run.recipe) == other.with_cell(**cell, threads=settings.ML_THREADS)


def test_what_was_edited_stays_when_another_base_is_chosen(client_as, bases):
    client, snapshot = client_as("admin"), make_snapshot()
    filled = drawn(client.get("/training/new/").content.decode()) | {"stage2.epochs": "9"}
    page = client.get("/training/recipe/", filled | {"base": NAMED}).content.decode()
    there = drawn(page)
    assert (there["stage2.epochs"], there["stage2.lr"], there[FILLED_FOR]) == ("9", "0.0001", NAMED)
    assert page.count("is-changed") == 1
    client.post("/training/new/", form(snapshot, **there | {"base": NAMED}))
    assert Run.objects.get().recipe["stage2"]["epochs"] == 9
    back = drawn(client.get("/training/recipe/", there | {"base": "pocket"}).content.decode())
    assert {name: back[name] for name in filled} == filled


def test_a_base_that_is_not_configured_is_refused_and_stays_visible(client_as, bases):
    client, snapshot = client_as("admin"), make_snapshot()
    answer = client.post("/training/new/", form(snapshot, base="gpt-2"))
    page = answer.content.decode()
    assert answer.status_code == 422 and not Run.objects.exists()
    assert f"is not configured here; the bases are pocket, {NAMED}, who/knows." in page
    assert '<option value="gpt-2" selected>gpt-2 (not configured here)</option>' in page


def test_a_pasted_recipe_without_a_base_keeps_the_chosen_one(client_as, bases):
    client, snapshot = client_as("admin"), make_snapshot()
    sent = form(snapshot, base=NAMED, fill="1", yaml="stage2: {lr: 3.0e-4}")
    assert f'<option value="{NAMED}" selected>' in client.post("/training/new/", sent).content.decode()
    sent = form(snapshot, base=NAMED, fill="1", yaml="base: pocket")
    assert '<option value="pocket" selected>' in client.post("/training/new/", sent).content.decode()


@pytest.mark.parametrize("recipe", HOSTILE_RECIPES)
def test_a_hostile_pasted_recipe_is_refused_briefly(client_as, recipe):
    sent = form(make_snapshot(), fill="1", yaml=recipe)
    answer = client_as("admin").post("/training/new/", sent)
    assert answer.status_code == 422 and len(answer.content) < 200_000


@pytest.mark.parametrize("text", ["9" * 400, "1e400", "inf", "nan", "x" * 5000, "1e17"])
def test_a_number_no_run_can_use_is_refused_by_name(text):
    for name in ("stage2.epochs", "stage2.batch_size", "stage2.betas", "stage2.max_seconds"):
        with pytest.raises(TraceError) as refused:
            typed_recipe("pocket", {name: text})
        assert name.rpartition(".")[2] in refused.value.where and len(str(refused.value)) < 300


def test_a_pasted_recipe_is_filled_in_and_must_not_be_forgotten(client_as):
    client, snapshot = client_as("admin"), make_snapshot()
    sent = form(snapshot, yaml="format: b\nretrieval: n\nstage2: {lr: 3.0e-4}\n")
    page = client.post("/training/new/", sent)
    assert page.status_code == 422 and "Fill in" in page.content.decode() and not Run.objects.exists()
    filled = client.post("/training/new/", {**sent, "fill": "1"})
    text = filled.content.decode()
    assert filled.status_code == 200 and 'name="stage2.lr" value="0.0003"' in text
    assert [
        cell["value"] for group in filled.context["cells"] for cell in group["options"] if cell["checked"]
    ] == [
        *("b", "m", "n"),
    ]
    assert f'<option value="{snapshot.pk}" selected>' in text
    wrong = client.post("/training/new/", {**sent, "fill": "1", "yaml": "stage9: 1"})
    assert wrong.status_code == 422 and b"stage9" in wrong.content


def test_the_form_downloads_the_recipe_that_it_would_train(client_as):
    answer = client_as("admin").post(
        "/training/new/recipe.yaml", form(make_snapshot(), **{"stage2.lr": "0.0005"})
    )
    recipe = recipes.from_dict(yaml.safe_load(answer.content))
    assert (recipe.format, recipe.retrieval, recipe.seed, recipe.stage2.lr) == ("c", "r", 5, 0.0005)
    assert "recipe.yaml" in answer["Content-Disposition"]


def test_a_clone_starts_from_the_runs_recipe_and_says_what_it_changed(client_as):
    snapshot = make_snapshot()
    client = client_as("admin")
    client.post("/training/new/", form(snapshot, **{"stage2.lr": "0.0005"}))
    origin = Run.objects.get()
    page = client.get(f"/training/new/?from={origin.pk}")
    text = page.content.decode()
    assert f"cloned from run {origin.pk}" in text and 'name="stage2.lr" value="0.0005"' in text
    assert f'name="cloned_from" value="{origin.pk}"' in text
    sent = form(snapshot, cloned_from=origin.pk, seed="6", **{"stage2.lr": "0.0009"})
    answer = client.post("/training/new/", sent)
    clone = Run.objects.exclude(pk=origin.pk).get()
    assert clone.cloned_from == origin
    told = client.get(answer.url)
    assert [entry for entry in told.context["cloned"] if entry[0] != "seed"] == [
        ("Peak learning rate", "0.0005", "0.0009")
    ]
    assert ("seed", "5", "6") in told.context["cloned"]
    assert f'/training/{clone.pk}/">run {clone.pk}' in client.get(f"/training/{origin.pk}/").content.decode()


@pytest.mark.parametrize("origin", ["99999", "abc", "-1", "9" * 30])
def test_a_run_that_is_not_there_cannot_be_cloned(client_as, origin):
    make_snapshot()
    assert client_as("admin").get(f"/training/new/?from={origin}").status_code == 200


def estimated(client, snapshot, **fields):
    return client.get("/training/new/estimate/", form(snapshot, **fields))


def test_an_estimate_without_history_is_a_rule_of_thumb_and_says_so(client_as, real_snapshot):
    page = estimated(client_as("admin"), real_snapshot)
    found = page.context["estimate"]
    assert [one.stage for one in found.stages] == ["stage1", "stage2"]
    assert not any(one.reused_from for one in found.stages)
    # five tools: four choices of each in format c; a request for each, and what its trace restates
    assert [one.records for one in found.stages] == [5 * 4, 5 * 2]
    assert found.seconds.value > 0 and "rule of thumb" in found.seconds.basis
    assert "No training worker is running" in page.content.decode()


def test_an_estimate_learns_from_earlier_runs_on_the_same_hardware(client_as, real_snapshot):
    Worker.objects.create(name="box:1", queues=["gpu"], hardware=ALIVE)
    recipe = default_recipe("pocket")
    for number in range(3):
        job = Job.objects.create(kind="training", queue="gpu", title="train", state="done")
        own = ALIVE if number else {**ALIVE, "cpu": "another"}
        run = make_run(job=job, snapshot=real_snapshot, recipe=asdict(recipe), hardware=own)
        values = {"tokens": 60_000, "seconds": 30.0, "memory_mb": 900 + number}
        RunMetric.objects.create(run=run, stage="stage2", step=9, data=values)
    client = client_as("admin")
    found = estimated(client, real_snapshot, format="a").context["estimate"]
    assert found.seconds.basis == "from 2 runs of this kind on this machine: 2,000 tokens/s"
    assert found.memory.value == 902 * 2**20
    other = estimated(client, real_snapshot, **{"stage2.batch_size": "3"}).context["estimate"]
    assert "never measured here" in other.seconds.basis and "never measured here" in other.memory.basis
    assert found.machine.alive and "box" in found.machine.basis and found.warnings == []


def test_an_estimate_names_the_stages_that_are_there_already(client_as, real_snapshot):
    sent = form(real_snapshot)
    cell = {name: sent[name] for name in ("base", "format", "memo", "retrieval")}
    recipe = default_recipe("pocket").with_cell(**cell, seed=5)
    first = run_steps(recipe, real_snapshot)[0]
    maker = make_run()
    TrainedStage.objects.create(key=first.key, stage="stage1", run=maker, store_key="x", store_digest="0")
    page = estimated(client_as("admin"), real_snapshot)
    assert [one.reused_from for one in page.context["estimate"].stages] == [maker.pk, None]
    assert "there already" in page.content.decode()


def test_too_little_memory_is_warned_of_before_the_start(client_as, real_snapshot, bases):
    Worker.objects.create(
        name="box:1", queues=["gpu"], hardware={**ALIVE, "gpu": "Small", "gpu_memory_gb": 24, "gpus": 1}
    )
    client = client_as("admin")
    found = estimated(client, real_snapshot, base="google/gemma-4-E4B-it").context["estimate"]
    assert found.memory.value > 24 * 2**30 and "may run out of memory" in found.warnings[0]
    unknown = estimated(client, real_snapshot, base="who/knows").context["estimate"]
    assert unknown.seconds.value is None and unknown.memory.value is None


def test_the_papers_recipe_fits_one_gpu_of_141_gb_and_says_what_that_counts_with(
    client_as, real_snapshot, bases
):
    gpu = {"gpu": "NVIDIA H200", "gpu_memory_gb": 140, "gpus": 1}  # as its driver reports it
    Worker.objects.create(name="box:1", queues=["gpu"], hardware={**ALIVE, **gpu})
    page = estimated(client_as("admin"), real_snapshot, base=NAMED)
    found = page.context["estimate"]
    assert found.warnings == [] and 60 * 2**30 < found.memory.value < 126 * 2**30
    for words in (
        "One GPU of 140 GB.",
        "7.46 billion numbers of the base stay frozen in bf16.",
        "3.65 billion train in fp32, each with its gradient and two moments of AdamW: ",
        "LoRA of rank 64 and the whole token tables.",
        "Activations are in bf16, recomputed in the backward pass.",
    ):
        assert words in found.assumes and words in unescape(page.content.decode())


def test_an_estimate_asks_few_questions_and_starts_nothing(
    client_as, real_snapshot, django_assert_max_num_queries
):
    client = client_as("admin")
    estimated(client, real_snapshot)
    with django_assert_max_num_queries(13):
        estimated(client, real_snapshot)
    assert not Run.objects.exists() and not Job.objects.exists()


@pytest.mark.parametrize("wrong", [{"snapshot": "99"}, {"stage1.lr": "fast"}, {"format": "x"}, {"base": ""}])
def test_an_estimate_of_a_wrong_form_says_what_is_wrong(client_as, real_snapshot, wrong):
    page = client_as("admin").get("/training/new/estimate/", form(real_snapshot) | wrong)
    assert page.status_code == 200 and page.context["wrong"]
