"""Pages of models and of retraining: lineage, going back, retention, and what a policy would train."""

import pytest
from django.utils import timezone

from synthesis.models import Decision, Sample
from tests.factories import crown, make_model, make_rule, make_run, make_sample, make_tool
from tests.training.hostile_recipes import HOSTILE_RECIPES
from trace_site.jobs import Job
from training.models import AliasMove, Model, RetrainPolicy, TrainedStage
from training.registry.registry import roll_back
from training.retraining import services

pytestmark = pytest.mark.django_db


def policy(**fields):
    values = {"name": "hr line", "base": "pocket", "format": "a", "memo": "m", "retrieval": "r+R"}
    limits = {"approved_samples": 5, "changed_rules": 1, "quiet_minutes": 0}
    snapshot = {"strategy": "append", "per_rule": 2, "branches": ["rrb", "rule"]}
    return services.policy_save(actor=None, **{"snapshot": snapshot, **values, **limits, **fields})


def form(**fields):
    return {
        **{"name": "tax line", "base": "pocket", "format": "c", "memo": "m", "retrieval": "r+R", "seed": "1"},
        **{"approved_samples": "40", "changed_rules": "2", "quiet_minutes": "15"},
        **{"strategy": "append", "per_rule": "6", "branches": ["rrb", "rule"], "snapshot_seed": "0"},
        **fields,
    }


def ledger():
    from catalog.services import ledger_update

    ledger_update()


def test_model_page_shows_what_it_was_made_from(client_as):
    run = make_run(stages=[{"stage": "stage1", "key": "k1"}, {"stage": "stage2", "key": "k2"}])
    other = make_run()
    TrainedStage.objects.create(key="k1", stage="stage1", run=other, store_key="s/1", store_digest="0" * 64)
    lineage = {
        "rules": {"count": 12, "hash": "abc123" * 8},
        "base": {"name": "pocket", "revision": "fedcba987654aaaa"},
        "recipe_hash": "0123456789abcdef",
        "code": {"version": "0.1.0", "commit": "2ddf7b5"},
    }
    model = make_model(run=run, lineage=lineage)
    page = client_as("expert").get(f"/training/models/{model.pk}/").content.decode()
    for words in (
        "12 published",
        "fedcba987654",
        "0123456789ab",
        "2ddf7b5",
        f"run {other.pk}</a>, reused",
        "not kept",
    ):
        assert words in page, words
    assert "Promote to champion" not in page and f"/evaluation/of-model/{model.pk}/beside/" in page


def test_going_back_is_one_click_on_an_earlier_champion(client_as):
    first, second = make_model(), make_model()
    for model in (first, second):
        crown(model=model, actor=None)
    client = client_as("admin")
    page = client.get(f"/training/models/{first.pk}/").content.decode()
    assert f"Go back to model {first.pk}" in page
    assert (
        f"Go back to model {second.pk}"
        not in client.get(f"/training/models/{make_model().pk}/").content.decode()
    )
    answer = client.post(f"/training/models/{first.pk}/rollback/", {"note": "worse"}, follow=True)
    assert f"Gone back: model {first.pk} is champion again." in answer.content.decode()
    assert AliasMove.objects.filter(alias="champion").first().note == f"back from model {second.pk}: worse"


def test_champion_without_a_way_back_says_why(client_as):
    client = client_as("admin")

    def said(model):
        page = client.get(f"/training/models/{model.pk}/").content.decode()
        return page.partition("There is no earlier champion to go back to: ")[2].partition(". ")[0]

    first, second, third = (make_model() for _ in range(3))
    crown(model=first, actor=None)
    assert said(first) == "no model was champion before"
    crown(model=second, actor=None)
    assert said(second) == ""  # one can go back to the first
    roll_back(actor=None)
    alone = f"model {second.pk} was rolled back, so only a promotion brings it back"
    assert said(first) == alone
    crown(model=third, actor=None)
    Model.objects.filter(pk=first.pk).update(removed_at=timezone.now())
    assert said(third) == f"{alone}; retention removed the files of model {first.pk}"
    Model.objects.filter(pk=second.pk).update(removed_at=timezone.now())
    assert said(third) == f"retention removed the files of models {first.pk}, {second.pk}"


def test_move_that_is_refused_is_said_on_the_page(client_as):
    champion = make_model()
    crown(model=champion, actor=None)
    client = client_as("admin")
    for verb, words in (("rollback", "is the champion already"), ("challenger", "is the champion")):
        page = client.post(f"/training/models/{champion.pk}/{verb}/", follow=True).content.decode()
        assert words in page or "no earlier champion" in page


def test_challenger_and_keep_are_set_and_shown(client_as):
    model = make_model()
    client = client_as("admin")
    client.post(f"/training/models/{model.pk}/challenger/")
    client.post(f"/training/models/{model.pk}/keep/", {"note": "in the report"})
    page = client.get(f"/training/models/{model.pk}/").content.decode()
    assert "challenger" in page and "kept by hand: in the report" in page
    client.post(f"/training/models/{model.pk}/keep/")
    assert Model.objects.get().kept_because == ""


def test_retention_page_says_what_goes_and_removes_it(client_as, settings, tmp_path):
    settings.TRACE_HOME, settings.STORE_URL = tmp_path, (tmp_path / "store").as_uri()
    settings.MODEL_RETENTION_KEEP = 0
    client = client_as("admin")
    assert "No model has files yet" in client.get("/training/models/retention/").content.decode()
    champion, needless = make_model(), make_model(store_key="models/other")
    crown(model=champion, actor=None)
    page = client.get("/training/models/retention/").content.decode()
    assert "What would go" in page and "Remove these files" in page and "champion" in page
    answer = client.post("/training/models/retention/", follow=True).content.decode()
    assert "Removed the files of 1 models" in answer and "Nothing can go" in answer
    page = client.get(f"/training/models/{needless.pk}/").content.decode()
    assert "files removed" in page and "Promote to champion" not in page and "Try it" not in page


def test_list_of_models_asks_a_constant_number_of_queries(client_as, django_assert_max_num_queries):
    for _ in range(6):
        crown(model=make_model(), actor=None)
    client = client_as("expert")
    client.get("/training/models/")
    with django_assert_max_num_queries(8):
        client.get("/training/models/")


def test_empty_page_of_retraining_says_what_to_do_next(client_as):
    assert "No retraining policy yet" in client_as("expert").get("/training/retraining/").content.decode()


def test_admin_makes_edits_and_switches_a_policy(client_as):
    client = client_as("admin")
    assert client.post("/training/retraining/new/", form()).status_code == 302
    made = RetrainPolicy.objects.get()
    assert (made.active, made.quiet_minutes, made.snapshot["per_rule"]) == (False, 15, 6)
    client.post(f"/training/retraining/{made.pk}/", form(recipe="stage2: {epochs: 3}", rrb="100"))
    client.post(f"/training/retraining/{made.pk}/switch/", {"active": "on"})
    made.refresh_from_db()
    assert (made.active, made.recipe, made.snapshot["rrb"]) == (True, {"stage2": {"epochs": 3}}, 100)
    page = client.get(f"/training/retraining/{made.pk}/").content.decode()
    assert "epochs: 3" in page and 'value="15"' in page
    assert "Turn off" in client.get("/training/retraining/").content.decode()


@pytest.mark.parametrize("recipe", HOSTILE_RECIPES)
def test_a_hostile_recipe_of_a_policy_is_refused_briefly(client_as, recipe):
    answer = client_as("admin").post("/training/retraining/new/", form(recipe=recipe))
    assert answer.status_code == 422 and len(answer.content) < 60_000
    assert not RetrainPolicy.objects.exists()


def test_a_policy_is_offered_every_configured_base_and_trains_with_its_recipe(client_as, settings):
    settings.BASE_MODEL, settings.BASE_MODELS = "google/gemma-4-E4B-it", ["Qwen/Qwen3-0.6B"]
    client = client_as("admin")
    page = client.get("/training/retraining/new/").content.decode()
    assert (
        '<option value="google/gemma-4-E4B-it" selected>' in page and "vLLM serves named bases only" in page
    )
    sent = form(base="Qwen/Qwen3-0.6B", recipe="stage2: {epochs: 3}")
    assert client.post("/training/retraining/new/", sent).status_code == 302
    made = RetrainPolicy.objects.get()
    recipe = services.policy_recipe(made)
    assert (recipe.base, recipe.stage2.lr, recipe.stage2.epochs) == ("Qwen/Qwen3-0.6B", 1e-4, 3)
    settings.BASE_MODELS = []
    page = client.get(f"/training/retraining/{made.pk}/").content.decode()
    assert '<option value="Qwen/Qwen3-0.6B" selected>Qwen/Qwen3-0.6B (not configured here)</option>' in page
    again = client.post(f"/training/retraining/{made.pk}/", sent)
    assert (
        again.status_code == 422 and "the bases are google/gemma-4-E4B-it, pocket." in again.content.decode()
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"recipe": "stage2: {speed: 1}"}, "stage2.speed"),
        ({"recipe": "- x"}, "must be a mapping"),
        ({"quiet_minutes": "99999999"}, "less than or equal"),
        ({"retrieval": "none"}, "Select a valid choice"),
        ({"branches": []}, "required"),
    ],
)
def test_mistakes_in_a_policy_are_named_at_their_field(client_as, fields, words):
    answer = client_as("admin").post("/training/retraining/new/", form(**fields))
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not RetrainPolicy.objects.exists()


def test_page_shows_counts_rules_and_what_keeps_it_and_experts_only_read(client_as):
    tools = [make_tool("Pay/GetPayslip"), make_tool("Old/GetSlip")]
    make_rule(*tools, code="PAYSLIP_PERIOD")
    taught = make_rule(*tools, code="PAYSLIP_LINES")
    sample = make_sample(rule=taught, tools=tools, human=Sample.Human.APPROVED)
    Decision.objects.create(sample=sample, policy="test", verdict="approve")
    row = policy()
    client = client_as("product_manager")
    page = client.get("/training/retraining/").content.decode()
    for words in (
        "PAYSLIP_PERIOD",
        "no approved samples yet",
        "PAYSLIP_LINES",
        "starts at 5",
        "It would start now",
    ):
        assert words in page, words
    assert "Start now" not in page and "Turn on" not in page
    fragment = client_as("expert").get(f"/training/retraining/{row.pk}/samples/").content.decode()
    assert f"sample {sample.pk}" in fragment


def test_preview_counts_the_snapshot_and_says_which_stages_are_reused(client_as):
    tools = [make_tool("Pay/GetPayslip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="PAYSLIP_PERIOD")
    make_sample(rule=rule, tools=tools, human=Sample.Human.APPROVED)
    ledger()
    row = policy()
    client = client_as("expert")
    page = client.get(f"/training/retraining/{row.pk}/preview/").content.decode()
    assert "<b>1</b> samples" in page and "trained" in page and "No sample repeats" in page
    assert "never measured here" in page
    from training.retraining.views import reused_stages

    recipe = services.policy_recipe(row)
    from synthesis.datasets.files import catalog_now
    from training.core.stages import steps

    run, key = make_run(), steps(recipe, "x", catalog_now())[0].key
    TrainedStage.objects.create(key=key, stage="stage1", run=run, store_key="s/1", store_digest="0" * 64)
    assert reused_stages(recipe, []) == {"stage1": run.pk}
    assert (
        f"run {run.pk}</a>: the catalog has not changed"
        in client.get(f"/training/retraining/{row.pk}/preview/").content.decode()
    )
    make_tool("New/Tool")
    assert reused_stages(recipe, []) == {}


def test_plain_stage_on_unchanged_samples_is_seen_to_be_reused():
    from synthesis.datasets.files import catalog_now
    from training.core.stages import steps
    from training.retraining.views import reused_stages
    from training.runs.services import plain_hash_of

    make_tool("Pay/GetPayslip")
    ledger()
    recipe, run = services.policy_recipe(policy(memo="m", retrieval="n")), make_run()
    _, step = steps(recipe, "of another snapshot", catalog_now(), plain_hash_of(catalog_now(), [4, 7]))
    TrainedStage.objects.create(key=step.key, stage="plain", run=run, store_key="s", store_digest="0" * 64)
    assert reused_stages(recipe, [4, 7]) == {"plain": run.pk}
    assert reused_stages(recipe, [4, 8]) == {}


def test_preview_without_a_token_ledger_says_what_is_missing(client_as):
    page = client_as("expert").get(f"/training/retraining/{policy().pk}/preview/").content.decode()
    assert "The token ledger is empty" in page


def test_start_now_queues_the_job_and_a_second_click_says_so(client_as):
    row = policy()
    client = client_as("admin")
    answer = client.post(f"/training/retraining/{row.pk}/start/")
    assert answer["Location"] == f"/jobs/{Job.objects.get().pk}/"
    page = client.post(f"/training/retraining/{row.pk}/start/", follow=True).content.decode()
    assert "Wait for it, or cancel it first" in page and Job.objects.count() == 1
