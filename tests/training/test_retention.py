"""Files of models and stages go when nothing needs them; a kill at any moment leaves what the next run finishes."""

import random

import pytest
from django.core.management import CommandError, call_command

from tests.factories import crown, make_model, make_run, make_snapshot
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError
from trace_site.lib.store import Store
from training.models import AliasMove, Model, Retraining, RetrainPolicy, TrainedStage
from training.registry import retention
from training.registry.registry import export_dir, roll_back, set_challenger

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.TRACE_HOME, settings.STORE_URL = tmp_path, (tmp_path / "store").as_uri()
    settings.MODEL_RETENTION_KEEP = 0


def put(key: str) -> dict:
    from django.conf import settings

    folder = settings.TRACE_HOME / "exports" / key
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_text(key)
    return {"store_key": key, "store_digest": store().put_dir(folder, key)}


def model(key: str, *stages: str, **run) -> Model:
    snapshot = run.pop("snapshot", None) or make_snapshot()
    rows = [{"stage": "stage2", "key": stage} for stage in stages]
    return make_model(run=make_run(snapshot=snapshot, stages=rows, **run), bytes=10, **put(key))


def stage(key: str, store_key: str, run) -> TrainedStage:
    return TrainedStage.objects.create(key=key, run=run, stage="stage2", bytes=10, **put(store_key))


def test_only_models_that_no_alias_job_or_hand_holds_lose_their_files(user_with):
    admin = user_with("admin")
    old, champion, challenger, kept, asked, needless = (model(f"m/{n}") for n in range(6))
    crown(model=old, actor=None)
    crown(model=champion, actor=None)
    set_challenger(model=challenger, actor=None)
    retention.keep_by_hand(model=kept, note="in the paper", actor=admin)
    jobs.enqueue("evaluation", {"model": asked.pk})
    assert retention.apply(actor=admin)["models"] == [needless.pk]
    needless.refresh_from_db()
    assert needless.removed_at and not store().has("m/5")
    for one in (old, champion, challenger, kept, asked):
        assert export_dir(one).is_dir()
    entry = AuditEntry.objects.get(action="model.files_removed")
    assert (entry.actor, entry.object_id, entry.detail["store_key"]) == (admin, str(needless.pk), "m/5")


def test_newest_models_stay_as_the_setting_says(settings):
    models = [model(f"m/{n}") for n in range(4)]
    settings.MODEL_RETENTION_KEEP = 3
    assert retention.apply()["models"] == [models[0].pk]
    with pytest.raises(TraceError, match="must not be negative"):
        retention.plan(-1)


def test_last_model_that_can_be_loaded_is_never_removed(tmp_path):
    good, bad = model("m/good"), model("m/bad")
    (tmp_path / "store" / "m" / "bad" / "weights").write_text("flipped")
    assert retention.apply()["models"] == [bad.pk]
    assert export_dir(good).is_dir() and retention.apply()["models"] == []


def test_stages_of_kept_models_of_active_runs_and_of_active_policies_stay():
    champion = model("m/1", "s1")
    crown(model=champion, actor=None)
    running = make_run(stages=[{"stage": "stage1", "key": "s2"}], job=jobs.enqueue("training", {"run": 0}))
    policed = make_run(stages=[{"stage": "stage1", "key": "s3"}])
    policy = RetrainPolicy.objects.create(
        name="line", base="pocket", format="a", memo="m", retrieval="r", active=True
    )
    Retraining.objects.create(policy=policy, run=policed, reasons={})
    for number in range(1, 5):
        stage(f"s{number}", f"s/{number}", running)
    assert [TrainedStage.objects.get(pk=pk).key for pk in retention.apply()["stages"]] == ["s4"]
    RetrainPolicy.objects.update(active=False)
    assert [TrainedStage.objects.get(pk=pk).key for pk in retention.apply()["stages"]] == ["s3"]


def test_folder_that_a_kept_model_shares_stays_for_everybody():
    shared, same = model("m/1"), make_model(run=make_run(), **put("m/1"))
    row = stage("s1", "m/1", shared.run)
    crown(model=same, actor=None)
    assert retention.apply() == {"models": [], "stages": [], "bytes": 0, "restored": []}
    for one in (shared, row):
        one.refresh_from_db()
        assert one.removed_at is None
    assert export_dir(shared).is_dir()


@pytest.mark.parametrize("at", ["mark", "index", "folder"])
def test_kill_between_rows_and_folders_is_finished_by_the_next_run(monkeypatch, at):
    champion, needless = model("m/1"), model("m/2")
    crown(model=champion, actor=None)

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if at == "mark":
            patch.setattr(retention, "_give_back", killed)
        elif at == "index":
            patch.setattr(Store, "remove", killed)
        else:
            patch.setattr(type(store().filesystem), "rm", killed)
        with pytest.raises(KeyboardInterrupt):
            retention.apply()
    needless.refresh_from_db()
    assert needless.removed_at and store().has("m/2")
    with pytest.raises(TraceError, match=f"model {needless.pk} has no files any more"):
        export_dir(needless)
    assert retention.apply()["models"] == [] and not store().has("m/2")
    assert export_dir(champion).is_dir()


def test_what_becomes_needed_between_marking_and_removing_is_given_back(monkeypatch):
    crown(model=model("m/1"), actor=None)
    asked, running = model("m/2"), model("m/3", "s3")
    row = stage("s3", "m/3", running.run)
    give_back = retention._give_back

    def late(goes):
        jobs.enqueue("evaluation", {"model": asked.pk})
        make_run(stages=[{"stage": "stage2", "key": "s3"}], job=jobs.enqueue("training", {"run": 0}))
        return give_back(goes)

    monkeypatch.setattr(retention, "_give_back", late)
    assert retention.apply() == {"models": [], "stages": [], "bytes": 0, "restored": ["m/2", "m/3"]}
    for one in (asked, running, row):
        one.refresh_from_db()
        assert one.removed_at is None and store().has(one.store_key)


def test_model_without_files_cannot_be_named_again():
    first, second, gone = model("m/1"), model("m/2"), model("m/3")
    crown(model=first, actor=None)
    crown(model=gone, actor=None)
    crown(model=first, actor=None)
    crown(model=second, actor=None)
    assert retention.apply()["models"] == [gone.pk]
    for call in (crown, set_challenger):
        with pytest.raises(TraceError, match="has no files any more"):
            call(model=gone, actor=None)
    with pytest.raises(TraceError, match="has no files any more"):
        roll_back(model=gone, actor=None)
    with pytest.raises(TraceError, match="gone already"):
        retention.keep_by_hand(model=gone, note="late", actor=None)


@pytest.mark.parametrize("seed", range(12))
def test_random_models_stages_and_aliases_nothing_needed_is_removed(seed):
    draw, snapshot = random.Random(seed), make_snapshot()
    models = []
    for _ in range(draw.randint(1, 6)):
        key = f"m/{draw.randint(0, 4)}"
        models.append(model(key, *(f"s{draw.randint(0, 5)}" for _ in range(2)), snapshot=snapshot))
    for number in range(6):
        if draw.random() < 0.7:
            stage(f"s{number}", draw.choice([f"m/{draw.randint(0, 4)}", f"s/{number}"]), models[0].run)
    for _ in range(draw.randint(0, 4)):
        crown(model=draw.choice(models), actor=None)
    kept = [one for one in models if draw.random() < 0.2]
    for one in kept:
        retention.keep_by_hand(model=one, note="by hand", actor=None)
    retention.apply()
    newest = AliasMove.objects.order_by("alias", "-id").distinct("alias")
    needed = {move.model for move in newest} | set(kept)
    for one in Model.objects.all():
        if one in needed:
            assert one.removed_at is None and export_dir(one).is_dir()
            for row in TrainedStage.objects.filter(key__in=[entry["key"] for entry in one.run.stages]):
                assert row.removed_at is None and store().has(row.store_key)
        if one.removed_at is None:
            assert export_dir(one).is_dir()
    assert Model.objects.filter(removed_at=None).exists()
    again = retention.apply()
    assert again["models"] == again["stages"] == []


def test_command_says_what_it_would_remove_and_removes_it(capsys):
    crown(model=model("m/1"), actor=None)
    needless = model("m/2")
    call_command("model_retention", dry_run=True, json=True)
    out = capsys.readouterr().out
    assert f"model {needless.pk}" in out and store().has("m/2") and '"dry_run": true' in out
    call_command("model_retention", json=True)
    assert not store().has("m/2")
    with pytest.raises(CommandError, match="must not be negative"):
        call_command("model_retention", keep=-1)
