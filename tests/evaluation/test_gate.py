"""Gate reports: what they are counted from, made once, frozen; and their page, command and API."""

import json
import random

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django.test import Client
from rest_framework.test import APIClient

from evaluation.core.gate import FAIL, PASS, Gate
from evaluation.core.paired import CANNOT_TELL
from evaluation.coverage.grouped import Sorting
from evaluation.coverage.selectors import definition_now
from evaluation.gate.evidence import evidence
from evaluation.gate.selectors import KIND, headline, of_model, outdated
from evaluation.gate.services import gate_of, gate_request, report_make
from evaluation.models import Answer, Benchmark, Evaluation, GateReport, LabelledRequest
from evaluation.results import tasks
from synthesis.models import SnapshotSample
from tests.evaluation.test_services import evaluate, model_with, prb, tools
from tests.factories import (
    answer_tests,
    crown,
    make_gate_report,
    make_model,
    make_rule,
    make_run,
    make_sample,
    make_snapshot,
    make_tool,
    sort_requests,
    thawed,
)
from trace_site import jobs
from trace_site.lib.errors import TraceError
from training.registry.registry import current_aliases

__all__ = ["prb", "tools"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_engine")]
GROUPS = ("covered", "uncovered", "outside")
BY_DECODE = {
    "fast": ("hit@1", "recall@5"),
    "trace": ("hit@1", "recall@gen", "precision@gen"),
    "letters": ("accuracy",),
    "embedding": ("hit@1",),
}


def benchmark(name="prb-hard", kind="prb", n=120, **fields):
    found = Benchmark.objects.create(name=name, kind=kind, hash=name, count=n, **fields)
    LabelledRequest.objects.bulk_create(
        LabelledRequest(
            benchmark=found,
            position=at,
            domain=("hr", "tax")[at % 2],
            data={"query": f"{name} {at}", "tools": ["Gone/Tool"]},
        )
        for at in range(n)
    )
    return found


def measured(model, of, right, decode="fast", **more):
    """One evaluation; `right(position)`: the score of that item."""
    made = Evaluation.objects.create(
        key=f"{model and model.pk}-{of.pk}-{decode}-{len(more)}",
        **{"model": model, "benchmark": of, "decode": decode, "metrics": {}},
        **more,
    )
    rows = []
    for item in of.items.all():
        score = float(bool(right(item.position)))
        scores = dict.fromkeys(BY_DECODE[decode], score)
        if of.kind == "outside":
            scores = {"refused": score}
        rows.append(Answer(evaluation=made, item=item, output={}, scores=scores))
    Answer.objects.bulk_create(rows)
    return made


def both(candidate, champion, of, ours, theirs, decodes=("fast", "trace")):
    for decode in decodes:
        measured(champion, of, theirs, decode)
        measured(candidate, of, ours, decode)


@pytest.fixture(autouse=True)
def thirds(monkeypatch):
    """Every third request lies in each group."""
    sort_requests(monkeypatch, {at: GROUPS[at % 3] for at in range(1000)})


@pytest.fixture
def two():
    """(champion, candidate), both of one snapshot."""
    snapshot = make_snapshot()
    champion, candidate = (make_model(run=make_run(snapshot=snapshot)) for _ in range(2))
    crown(champion)
    return champion, candidate


def everything():
    return list(Evaluation.objects.values_list("pk", flat=True))


def gate_now(candidate, champion, flips=999):
    return gate_of(evidence(candidate, champion, everything()), flips=flips)


def rows_of(candidate, champion, **wanted):
    found = gate_now(candidate, champion)
    return [
        row for row in found.rows if all(getattr(row, name) == value for name, value in wanted.items())
    ], found


def test_a_loss_in_one_group_fails_that_group_and_the_model(two):
    champion, candidate = two
    both(candidate, champion, benchmark(n=240), lambda at: at % 3 or at % 4 == 0, lambda at: True)
    failed, found = rows_of(candidate, champion, verdict=FAIL)
    assert found.verdict == FAIL
    assert {(row.domain, row.group) for row in failed} == {
        (domain, group) for domain in ("all", "hr", "tax") for group in ("all", "covered")
    }
    assert {(row.decode, row.metric) for row in failed} == {
        ("fast", "hit@1"),
        ("trace", "recall@gen"),
        ("trace", "precision@gen"),
    }
    (safe,) = [
        row for row in found.rows if (row.decode, row.domain, row.group) == ("fast", "all", "uncovered")
    ]
    assert (safe.verdict, safe.n, safe.lost) == (CANNOT_TELL, 80, 0)


def test_equal_models_pass_where_enough_was_asked_and_nobody_can_tell_where_not(two):
    champion, candidate = two
    both(candidate, champion, benchmark(n=1200), lambda at: at % 5, lambda at: at % 5)
    _, found = rows_of(candidate, champion)
    assert found.verdict == PASS and found.counts[PASS] == len(found.rows) == 3 * 12
    small = benchmark("mcq", "mcq", n=40)
    both(candidate, champion, small, lambda at: True, lambda at: True, decodes=("letters",))
    assert rows_of(candidate, champion)[1].verdict == CANNOT_TELL


def test_tiers_probes_and_outside_requests_are_asked_and_development_halves_are_not(two):
    champion, candidate = two
    for name, kind, decodes, fields in (
        ("prb-plain", "prb", ("fast",), {"tier": "plain"}),
        ("prb-hard", "prb", ("fast",), {"tier": "hard"}),
        ("mcq", "mcq", ("letters",), {}),
        ("outside", "outside", ("fast",), {}),
        ("half", "prb", ("fast",), {"is_development": True}),
    ):
        both(candidate, champion, benchmark(name, kind, n=6, **fields), bool, bool, decodes)
    rows, _ = rows_of(candidate, champion, domain="all", group="all")
    assert [(row.name, row.tier, row.decode, row.metric) for row in rows if row.n] == [
        ("prb-hard v1", "hard", "fast", "hit@1"),
        ("prb-plain v1", "plain", "fast", "hit@1"),
        ("mcq v1", "", "letters", "accuracy"),
        ("outside v1", "", "fast", "refused"),
    ]
    lacking = {(row.name, row.decode) for row in rows if not row.n}
    assert lacking == {("prb-hard v1", "trace"), ("prb-plain v1", "trace")}


def test_the_embedding_is_the_second_opponent_and_a_loss_the_champion_shares_binds_nobody(two):
    champion, candidate = two
    of = benchmark(n=60)
    measured(None, of, lambda at: True, "embedding")
    measured(champion, of, lambda at: at >= 30, "fast")
    measured(candidate, of, lambda at: at >= 29, "fast")
    shared, found = rows_of(candidate, champion, opponent="embedding", verdict=FAIL)
    assert shared and not any(row.binds for row in shared) and found.verdict == CANNOT_TELL
    alone, found = rows_of(candidate, None, opponent="embedding", verdict=FAIL)
    assert alone and all(row.binds for row in alone) and found.verdict == FAIL


def taught(model, *versions):
    tool = make_tool()
    for version in versions:
        sample = make_sample(rule=version.rule, tools=[tool, make_tool()], human="approved")
        SnapshotSample.objects.create(
            snapshot=model.run.snapshot, sample=sample, position=sample.pk, sample_key=sample.key
        )


def test_rules_only_the_candidate_learned_must_improve_and_the_others_are_a_slice():
    champion, candidate = make_model(run=make_run()), make_model(run=make_run())
    crown(champion)
    new, old = (make_rule(make_tool(), make_tool(), code=code).published for code in ("NEW", "OLD"))
    taught(champion, old)
    taught(candidate, old, new)
    for model, passes in ((champion, [0, 0, 1]), (candidate, [1, 1, 1])):
        answer_tests(model, new, *passes)
        answer_tests(model, old, 1, 1)
    rows, found = rows_of(candidate, champion)
    assert [(row.kind, row.n, row.verdict) for row in rows] == [
        ("changed rules", 3, PASS),
        ("rules", 2, CANNOT_TELL),
    ]
    (rule,) = found.rules
    assert (rule.code, rule.candidate, rule.champion, rule.word) == ("NEW", 3, 1, "better")
    back, _ = rows_of(champion, candidate)  # it learned nothing that the other did not
    assert [row.kind for row in back] == ["rules"]


def test_tests_of_changed_rules_alone_let_no_model_through():
    """Where no benchmark is frozen, nothing tells what else the candidate does."""
    champion, candidate = make_model(run=make_run()), make_model(run=make_run())
    crown(champion)
    new = make_rule(make_tool(), make_tool(), code="NEW").published
    taught(candidate, new)
    answer_tests(champion, new, 0, 0)
    answer_tests(candidate, new, 1, 1)
    rows, found = rows_of(candidate, champion)
    assert [row.verdict for row in rows] == [PASS, CANNOT_TELL] and found.verdict == CANNOT_TELL
    report = make_gate_report(candidate, champion, found.verdict, report=found.as_dict())
    assert "1 of 2 slices cannot tell" in headline(report) and "no benchmark" in rows[1].note
    answer_tests(candidate, make_rule(make_tool(), code="LAST").published, 1)
    assert rows_of(candidate, champion)[1].verdict == CANNOT_TELL


def test_what_was_not_measured_for_the_report_is_not_counted(two):
    """An earlier catalog's answers, or those of another backend, lie beside those of now."""
    champion, candidate = two
    of = benchmark(n=60)
    now = [measured(champion, of, lambda at: True), measured(candidate, of, lambda at: at > 20)]
    served = {"hardware": {"backend": "vllm 0.32.0 at gpu.example.com"}}
    other = measured(champion, of, lambda at: False, **served)
    chosen = evidence(candidate, champion, [one.pk for one in now])
    assert gate_of(chosen, flips=999).verdict == FAIL
    assert not [note for note in chosen.notes if "vllm" in note]
    mixed = evidence(candidate, champion, [now[1].pk, other.pk])
    assert "the champion through vllm 0.32.0 at gpu.example.com" in " ".join(mixed.notes)


def test_a_candidate_that_cannot_answer_as_the_champion_does_fails(two):
    champion, candidate = two
    both(candidate, champion, benchmark(n=1200), bool, bool)
    candidate.run.retrieval = "n"  # it writes no trace
    with thawed():
        Evaluation.objects.filter(model=candidate, decode="trace").delete()
    (row,), found = rows_of(candidate, champion, decode="trace")
    assert (row.verdict, row.n, found.verdict) == (FAIL, 0, FAIL)
    report = make_gate_report(candidate, champion, FAIL, report=found.as_dict())
    assert "prb-hard v1, trace: the champion answers so, and the candidate cannot." in headline(report)


def test_refusals_that_only_the_champion_is_known_for_keep_a_model_from_passing(two):
    champion, candidate = two
    of = benchmark("outside", "outside", n=1200)
    both(candidate, champion, of, bool, bool, decodes=("fast",))
    assert rows_of(candidate, champion)[1].verdict == PASS
    Answer.objects.filter(evaluation__model=candidate).update(scores={})  # it is not calibrated
    (row,), found = rows_of(candidate, champion)
    assert found.verdict == CANNOT_TELL and "1200 requests of the opponent" in row.note
    back, other = rows_of(champion, candidate)
    assert not back and "no request has refused of both" in other.notes[0]


def test_changed_rules_without_tests_are_told_of():
    champion, candidate = make_model(run=make_run()), make_model(run=make_run())
    crown(champion)
    taught(candidate, make_rule(make_tool(), make_tool(), code="NEW").published)
    assert rows_of(candidate, champion)[1].notes[0].startswith("1 changed rule has no tests")


# No slice hides a loss, and no entrance lets it through.

LOST = {
    "a group": ("prb", ("fast", "trace"), lambda at: at % 3 or at % 4 == 0),
    "a domain": ("prb", ("fast", "trace"), lambda at: at % 2 or at % 8 == 0),
    "the trace alone": ("prb", ("trace",), lambda at: at % 4),
    "a probe": ("mcq", ("letters",), lambda at: at % 4),
    "what is refused": ("outside", ("fast",), lambda at: at % 4),
    "the tests of a changed rule": ("rule", (), None),
}


def worse(on, candidate, champion):
    kind, lost, ours = LOST[on]
    if kind == "rule":
        new = make_rule(make_tool(), make_tool(), code="NEW").published
        taught(candidate, new)
        answer_tests(champion, new, 1, 1, 0)
        answer_tests(candidate, new, 1, 1, 0)
        return
    of = benchmark("lost", kind, n=240, **({"tier": "plain"} if kind == "prb" else {}))
    for decode in {"prb": ("fast", "trace"), "mcq": ("letters",), "outside": ("fast",)}[kind]:
        measured(champion, of, lambda at: True, decode)
        measured(candidate, of, ours if decode in lost else lambda at: True, decode)


@pytest.mark.parametrize("on", LOST)
def test_a_model_that_is_worse_somewhere_comes_through_no_entrance_without_an_override(on, user_with):
    champion, candidate = make_model(run=make_run()), make_model(run=make_run())
    crown(champion)
    both(candidate, champion, benchmark(n=1200), lambda at: at % 5, lambda at: at % 5)
    worse(on, candidate, champion)
    found = gate_now(candidate, champion)
    make_gate_report(candidate, champion, found.verdict, report=found.as_dict())
    admin = user_with("admin")
    admin.is_superuser = True
    admin.save()
    browser, api = Client(), APIClient()
    browser.force_login(admin)
    api.force_authenticate(admin)
    page, resource = (f"{start}/training/models/{candidate.pk}" for start in ("", "/api/v1"))
    sent = {"note": "x", "confirm": "on"}
    for address in (f"{page}/promote/", f"{page}/rollback/", f"{page}/challenger/"):
        browser.post(address, sent)
    for verb in ("promote", "rollback"):
        body = {"note": "x", "confirm": True} if verb == "promote" else {"note": "x"}
        assert api.post(f"{resource}/{verb}", body, format="json").status_code == 409
    for command, options in (("promote", {"confirm": True}), ("rollback", {})):
        with pytest.raises(CommandError):
            call_command(command, model=str(candidate.pk), **options)
    assert current_aliases()["champion"] == champion
    words = "HR closes its books tonight, and the old model is away."
    browser.post(f"{page}/promote/", {"override": words})
    assert current_aliases()["champion"] == candidate
    browser.post(f"/training/models/{champion.pk}/rollback/")
    for address in (f"{page}/rollback/", f"{page}/promote/"):  # nor does it come back by going back
        browser.post(address, sent)
    assert current_aliases()["champion"] == champion


def test_evidence_asks_as_many_queries_of_one_benchmark_as_of_five(
    two, django_assert_num_queries, monkeypatch
):
    monkeypatch.setattr(Sorting, "of", lambda *_: {})  # which a process keeps
    champion, candidate = two
    for number in range(5):
        of = benchmark(f"prb-{number}", n=6)
        both(candidate, champion, of, bool, bool)
        measured(None, of, bool, "embedding")
        if number in (0, 4):
            made = everything()
            evidence(candidate, champion, made)  # answers never change, so a process keeps them
            with django_assert_num_queries(22):
                evidence(candidate, champion, made)


def context(model):
    return jobs.claim(gate_request(candidate=model).pk)


def test_equal_evidence_is_the_same_report_and_a_report_is_frozen(two, settings):
    settings.JOB_LEASE_SECONDS = 3600
    champion, candidate = two
    of = benchmark(n=12)
    both(candidate, champion, of, bool, bool)
    ctx = context(candidate)

    def made():
        return report_make(candidate=candidate, champion=champion, measured=everything(), ctx=ctx)

    report = made()
    assert made() == report and report.counted_from["groups"] == definition_now().hash
    stored = {row.pk: row.scores for row in Answer.objects.all()}
    with thawed():
        Answer.objects.filter(evaluation__model=candidate).update(scores={"hit@1": 0})
    anew = made()
    assert anew != report  # groups were counted anew
    with thawed():
        for row in Answer.objects.all():
            row.scores = stored[row.pk]
            row.save()
    again = made()  # as at first: the newest report counts, so it is told once more
    assert again not in (report, anew) and again.report["rows"] == report.report["rows"]
    ctx.close()
    for change in (
        lambda: GateReport.objects.update(verdict=PASS),
        lambda: GateReport.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError, match="frozen"), transaction.atomic():
            change()


def test_a_gate_is_asked_once_at_a_time_and_never_of_the_champion(two):
    champion, candidate = two
    assert gate_request(candidate=candidate) == gate_request(candidate=candidate)
    assert gate_request(candidate=candidate, champion=make_model()) != gate_request(candidate=candidate)
    with pytest.raises(TraceError, match="is the champion itself"):
        gate_request(candidate=champion)
    crown(candidate)
    job = jobs.run(jobs.Job.objects.filter(kind=KIND, params__champion=None).first().pk)
    assert (job.state, "champion by now" in job.error) == ("failed", True)


def test_the_word_of_the_gate_names_the_worst_slice_and_what_nobody_would_see(two):
    champion, candidate = two
    both(candidate, champion, benchmark(n=240), lambda at: at % 3 or at % 4 == 0, lambda at: True)
    found = gate_now(candidate, champion)
    made = make_gate_report(candidate, champion, found.verdict, report=found.as_dict())
    word = of_model(candidate.pk, champion.pk)
    assert (word.verdict, word.report) == (FAIL, made.pk)
    assert (
        f"Model {candidate.pk} is worse on 18 of 36 slices: prb-hard v1, fast, hit@1: 0.75 against"
        in word.said
    )
    assert word.changes[0].startswith(
        "Worse: prb-hard v1, fast, hit@1: 0.75 against 1.00 of the champion (n 240)"
    )
    assert "Worse on 15 slices more." in word.changes
    assert of_model(candidate.pk, None).verdict == ""


def test_the_job_measures_both_and_the_command_prints_the_report(tools, prb, tmp_path, capsys):
    champion, candidate = model_with(tools, tmp_path), model_with(tools, tmp_path)
    crown(champion)
    call_command("gate", candidate=str(candidate.pk), json=True)
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert (found["candidate"], found["champion"], found["verdict"]) == (
        candidate.pk,
        champion.pk,
        CANNOT_TELL,
    )
    assert sum(found["counts"].values()) == len([row for row in found["rows"] if row["binds"]])
    assert lines[-2].startswith("Gate: cannot tell. Model")
    measured_models = set(Evaluation.objects.filter(metrics__isnull=False).values_list("model", flat=True))
    assert {champion.pk, candidate.pk} <= measured_models
    count = Evaluation.objects.count()
    call_command("gate", candidate=str(candidate.pk))
    assert (Evaluation.objects.count(), GateReport.objects.filter(job__isnull=False).count()) == (count, 1)
    with pytest.raises(CommandError, match="is the champion itself"):
        call_command("gate", candidate="champion")
    call_command("gate", candidate=str(champion.pk), champion=str(candidate.pk))
    assert GateReport.objects.first().champion == candidate


def test_a_first_model_stands_before_the_gate_with_the_embedding_alone(tools, prb, tmp_path):
    model = model_with(tools, tmp_path)
    evaluate(model)
    jobs.run(jobs.Job.objects.get(kind=KIND).pk)
    report = GateReport.objects.get()
    assert report.champion is None
    assert {row["opponent"] for row in report.report["rows"]} == {"embedding"}


def test_a_killed_gate_goes_on_and_makes_one_report(tools, prb, tmp_path, monkeypatch):
    model = model_with(tools, tmp_path)
    job = gate_request(candidate=model)

    def killed(**_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "report_make", killed)
        with pytest.raises(KeyboardInterrupt):
            jobs.run(job.pk)
    count = Evaluation.objects.filter(metrics__isnull=False).count()
    assert count and not GateReport.objects.exists()
    assert jobs.run(job.pk).state == "done" and GateReport.objects.count() == 1
    assert Evaluation.objects.count() == count


@pytest.fixture
def stored(two):
    champion, candidate = two
    both(candidate, champion, benchmark(n=240), lambda at: at % 3 or at % 4 == 0, lambda at: True)
    found = gate_now(candidate, champion)
    return make_gate_report(candidate, champion, found.verdict, report=found.as_dict())


def test_the_page_shows_verdict_interval_n_and_what_n_could_show(stored, client_as):
    client = client_as("expert")
    address = f"/evaluation/gate/{stored.pk}/"
    short = client.get(address)
    page = short.content.decode()
    for words in ("fail", "−25.0", "Against the champion", "240", "smallest loss", "How it decides", "max-T"):
        assert words in page, words
    ours = short.context["parts"][0][1]
    assert all(row.domain == "all" or row.verdict == FAIL for row in ours)
    every = client.get(address, {"show": "every"}).context["parts"][0][1]
    assert len(every) == 36 > len(ours)
    unsure = client.get(address, {"show": "cannot tell"}).context["parts"][0][1]
    assert {row.verdict for row in unsure} == {CANNOT_TELL}
    unknown = client.get(address, {"show": "<b>"})
    assert unknown.context["show"] == "" and unknown.context["parts"] == short.context["parts"]
    assert "Promote …" not in page


def test_the_page_says_when_its_report_counts_no_more(stored, client_as):
    client = client_as("admin")
    address = f"/evaluation/gate/{stored.pk}/"
    assert "lets nothing through" not in client.get(address).content.decode()
    Benchmark.objects.create(name="new", kind="prb", hash="new", count=1)
    assert (
        "This report no longer applies: benchmarks were frozen since" in client.get(address).content.decode()
    )
    crown(make_model())
    assert "lets nothing through any more" in client.get(address).content.decode()


def test_the_page_and_the_api_say_whether_rules_and_clusters_sort_otherwise_by_now(two, client_as):
    champion, candidate = two
    both(candidate, champion, benchmark(n=12), bool, bool, decodes=("fast",))
    found = report_make(candidate=candidate, champion=champion, measured=everything(), ctx=context(candidate))
    client, api = client_as("admin"), APIClient()
    api.force_authenticate(client_as("product_manager").get("/").wsgi_request.user)

    def told():
        page = client.get(f"/evaluation/gate/{found.pk}/").content.decode()
        answer = api.get(f"/api/v1/evaluation/models/{candidate.pk}/gate").json()
        return "sort otherwise by now" in page, answer["groups_moved"]

    assert told() == (False, False)
    make_rule(make_tool(), make_tool())
    assert told() == (True, True)


def test_a_report_of_other_weights_or_another_backend_counts_no_more(two, settings):
    champion, candidate = two
    both(candidate, champion, benchmark(n=12), bool, bool)
    counted = evidence(candidate, champion, everything()).counted_from
    report = make_gate_report(candidate, champion, counted_from=counted)
    assert not outdated(report)
    candidate.run.base = champion.run.base = report.candidate.run.base = "google/gemma-4-E4B-it"
    settings.TRACE_BACKEND_URL = "http://gpu.example.com/v1"
    assert outdated(report) == "a model answers through another backend by now"
    settings.TRACE_BACKEND_URL = ""
    report.candidate.store_digest = "of other weights"
    assert outdated(report) == "a model was trained again since"


def test_the_models_page_lists_its_reports_and_follows_the_job(
    stored, client_as, django_assert_max_num_queries
):
    client = client_as("admin")
    address = f"/evaluation/of-model/{stored.candidate_id}/beside/"
    page = client.get(address).content.decode()
    assert f"report {stored.pk}" in page and "the one that counts now" in page and "Run it again" in page
    for _ in range(5):
        make_gate_report(stored.candidate, stored.champion)
    with django_assert_max_num_queries(21):
        client.get(address)
    answer = client.post(
        f"/evaluation/of-model/{stored.candidate_id}/gate/start/", follow=True
    ).content.decode()
    assert "measures what is missing" in answer
    page = client.get(address).content.decode()
    assert "every 3s" in page and "Run it again" not in page
    refused = client.post(f"/evaluation/of-model/{stored.champion_id}/gate/start/", follow=True)
    assert "is the champion itself" in refused.content.decode()


def test_a_model_without_a_report_says_when_one_comes(client_as):
    page = client_as("expert").get(f"/evaluation/of-model/{make_model().pk}/beside/").content.decode()
    assert "No gate report yet" in page and "Run the gate" not in page


def test_the_api_reads_the_newest_report_and_asks_for_one(stored, user_with):
    client = APIClient()
    client.force_authenticate(user_with("admin"))
    address = f"/api/v1/evaluation/models/{stored.candidate_id}/gate"
    found = client.get(address).json()
    assert (found["report"], found["verdict"], found["champion"]) == (stored.pk, FAIL, stored.champion_id)
    assert {"n", "low", "high", "p_adjusted", "margin", "shows", "verdict"} <= found["rows"][0].keys()
    assert client.get(f"/api/v1/evaluation/models/{stored.champion_id + 9999}/gate").status_code == 404
    asked = client.post(address, {}, format="json")
    assert (asked.status_code, asked.json()["state"]) == (202, "queued")
    assert client.post(address, {}, format="json").json()["job"] == asked.json()["job"]
    refused = client.post(f"/api/v1/evaluation/models/{stored.champion_id}/gate", {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "bad_state")


def test_random_evidence_survives_storage_and_verdicts_are_of_its_rows(two):
    chance, (champion, candidate) = random.Random(3), two
    ours, theirs = ([chance.random() < share for _ in range(90)] for share in (0.6, 0.7))
    both(candidate, champion, benchmark(n=90), lambda at: ours[at], lambda at: theirs[at])
    found = gate_now(candidate, champion, flips=499)
    assert Gate.of(json.loads(json.dumps(found.as_dict()))) == found
