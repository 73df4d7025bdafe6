"""What if: figures follow the choice, claim nothing that was not measured, and lead on for those who may act."""

import csv
import io
from dataclasses import asdict

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Cluster, Clustering
from evaluation.core import report
from evaluation.coverage.counted import counted, figures_by_domain, read_count
from evaluation.coverage.gaps import cluster_count
from evaluation.coverage.outcomes import failing_requests
from evaluation.models import Count
from evaluation.results import rollups
from evaluation.what_if import views
from evaluation.what_if.selectors import Choice, plan_of
from rules.models import ChangeRequest, RuleChange, RuleSuggestion
from tests.factories import (
    crown,
    make_cluster,
    make_domain,
    make_evaluation,
    make_model,
    make_rule,
    make_sample,
    make_tool,
)
from training.models import Run
from training.runs.estimates import estimate
from training.runs.stages import default_recipe

pytestmark = pytest.mark.django_db
PAGE = "/evaluation/what-if/"


@pytest.fixture(autouse=True)
def home(settings, tmp_path, monkeypatch):
    sampled = report.bootstrap_table
    monkeypatch.setattr(
        report, "bootstrap_table", lambda *table, **more: sampled(*table, **more | {"draws": 20})
    )
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600


def count():
    rollups.refresh()


def suggest(target, *confusables, text="", **more):
    told = text or f"When the payment was captured, use {target.name}. " + " ".join(
        f"Exception: when it waits for day {place}, use {one.name}." for place, one in enumerate(confusables)
    )
    content = {
        "target": target.name,
        "confusables": [one.name for one in confusables],
        "text": told,
        "clauses": [],
        "tests": [],
    }
    return RuleSuggestion.objects.create(
        **{
            "domain": target.domain,
            "key": f"key {RuleSuggestion.objects.count()}",
            "kind": "condition",
            "target": target,
            "confusable_ids": [one.pk for one in confusables],
            "score": 0.8,
            "why": "Somebody says so.",
            "content": content,
            "evidence": [],
            "texts": "",
            **more,
        }
    )


class World:
    """HR: `wide` (a chain A-B-C-D), `never` asked about, and one cluster that a rule tells apart."""

    def __init__(self):
        self.a, self.b, self.c, self.d = (make_tool(f"Pay/Tool{name}") for name in "ABCD")
        self.e, self.f, self.g, self.h = (make_tool(f"Leave/Tool{name}") for name in "EFGH")
        clustering = Clustering.objects.create(domain=self.a.domain, version=1, tau=0.8, algorithm="test")
        self.wide = make_cluster(self.a, self.b, self.c, self.d, clustering=clustering, label="wide one")
        self.never = make_cluster(self.e, self.f, clustering=clustering, label="never asked")
        self.told = make_cluster(self.g, self.h, clustering=clustering, label="told apart")
        make_rule(self.g, self.h, code="G_OR_H")
        self.model = make_model()
        answers = [
            *[(self.a, [self.b.name])] * 3,  # wrong at A-B
            *[(self.a, [self.a.name])] * 3,
            *[(self.c, [self.d.name])] * 2,  # wrong at C-D
            *[(self.c, [self.c.name])] * 4,
            (self.g, [self.h.name]),  # wrong at a pair that a rule tells apart
            *[(self.g, [self.g.name])] * 9,
            (self.b, [self.e.name]),  # wrong once, elsewhere
        ]
        make_evaluation(*answers, model=self.model, decode="fast")
        crown(self.model)
        self.one = suggest(self.a, self.b)
        count()

    def plan(self, *gaps):
        return plan_of(Choice("hr", tuple(one.pk for one in gaps)), figures_by_domain()["hr"])


@pytest.fixture
def world(db):
    return World()


def test_a_picked_cluster_counts_all_its_open_pairs(world):
    plan = world.plan(world.wide)
    row = cluster_count("hr", world.wide.pk)
    assert plan.found.misses.value == pytest.approx(row.score) and plan.pairs == 3
    assert (plan.found.measured, plan.found.tools) == (3, 4)
    figures = figures_by_domain()["hr"]
    assert (figures.covered_n, figures.covered_wrong) == (10, 1)
    assert plan.found.left.value == pytest.approx(row.requests * 0.1)
    assert plan.found.gain.value == pytest.approx(plan.found.misses.value - plan.found.left.value)
    assert plan.found.gain.low < plan.found.gain.value < plan.found.gain.high
    assert "5 of 13 labelled requests get such a look-alike from the champion" in plan.saves[0].figure.basis


def test_the_rules_suggested_for_a_choice_are_counted_among_those_to_write(world):
    plan = world.plan(world.wide, world.never)
    (rules,) = [line.figure for line in plan.takes if line.key == "rules"]
    assert plan.suggested == [world.one] and rules.value == 2
    assert rules.basis.startswith("1 suggested, 1 to be written from nothing")


def test_numbers_of_a_pick_open_exactly_their_requests(world, client_as):
    client = client_as("product_manager")
    page = client.get(f"{PAGE}?domain=hr&gap={world.wide.pk}&gap={world.never.pk}")
    assert [gap.n for gap, *_ in page.context["picks"]] == [13, 0]
    for gap, _, asked_url in page.context["picks"]:
        assert client.get(asked_url).context["total"] == gap.n


def test_more_than_a_hundred_picks_are_refused_and_said(world, client_as):
    page = client_as("product_manager").get(f"{PAGE}?domain=hr&gap={','.join(map(str, range(1, 102)))}")
    assert page.status_code == 400 and "at most 100" in page.content.decode()


def test_what_nobody_asked_is_not_measured_and_costs_nothing_by_similarity(world, client_as):
    plan = world.plan(world.never)
    assert plan.found.misses is None and plan.found.gain is None and plan.samples == 12
    page = client_as("product_manager").get(f"{PAGE}?domain=hr&gap={world.never.pk}").content.decode()
    assert "<b>Not measured</b>" in page and "says nothing about it" in page


def test_what_is_no_gap_any_more_is_left_out_and_said(world, client_as):
    plan = world.plan(world.told, world.wide)
    assert plan.left_out == 1 and [gap.pk for gap in plan.picks] == [world.wide.pk]
    page = client_as("reviewer").get(f"{PAGE}?domain=hr&gap={world.told.pk}&gap=999999").content.decode()
    assert "2 of the choice are left out" in page


def test_without_a_model_the_embedding_is_counted(db):
    a, b, g, h = (make_tool(f"Pay/Tool{name}") for name in "ABGH")
    clustering = Clustering.objects.create(domain=a.domain, version=1, tau=0.8, algorithm="test")
    gap = make_cluster(a, b, clustering=clustering)
    make_cluster(g, h, clustering=clustering)
    make_rule(g, h)
    make_evaluation((a, [b.name]), (a, [a.name]), (g, [g.name]), decode="embedding")
    count()
    plan = plan_of(Choice("hr", (gap.pk,)), figures_by_domain()["hr"])
    assert (
        "1 of 2 labelled requests get such a look-alike from plain embedding search"
        in plan.saves[0].figure.basis
    )


def test_a_gain_on_few_labelled_requests_says_so(world, client_as):
    assert world.plan(world.wide).labelled == 13
    place = f"{PAGE}?domain=hr&gap={world.wide.pk}"
    page = " ".join(client_as("product_manager").get(place).content.decode().split())
    assert "13 labelled requests" in page and ("treat it as a hint" in page or "no gain yet" in page)


def test_every_figure_says_what_it_rests_on_and_when(world):
    lines = {line.key: line for line in world.plan(world.wide).lines}
    assert all(line.figure.basis for line in lines.values())
    assert (
        "counted" in lines["misses"].figure.basis
        and "3 of 4 tools are measured" in lines["misses"].figure.basis
    )
    assert "not measured" in lines["reading"].figure.basis and lines["reading"].figure.value is None
    assert lines["money"].figure.value == 0 and lines["samples"].figure.value == 12


def test_a_training_is_estimated_as_everywhere_else(world):
    run, recipe = world.model.run, default_recipe("pocket")
    Run.objects.filter(pk=run.pk).update(recipe=asdict(recipe))
    (line,) = [line for line in world.plan(world.wide).takes if line.key == "training"]
    assert line.figure == estimate(recipe, run.snapshot).seconds
    assert "never measured here" in line.figure.basis


# The page.


def test_the_address_holds_the_choice_without_scripts(world, client_as):
    place = f"{PAGE}?domain=hr&gap={world.wide.pk}"
    page = client_as("product_manager").get(place).content.decode()
    assert f'name="gap" value="{world.wide.pk}" checked' in page
    assert "fewer wrong answers" in page and "Nothing is picked" not in page


def test_a_tick_swaps_the_figures_alone(world, client_as):
    client = client_as("reviewer")
    page = client.get(f"{PAGE}?domain=hr&gap={world.wide.pk}", headers={"HX-Request": "true"})
    assert "fewer wrong answers" in page.content.decode() and "<html" not in page.content.decode()
    assert 'id="what-if-short" hx-swap-oob="true"' in page.content.decode()


def test_ticks_of_other_pages_of_the_list_are_kept(world, client_as, monkeypatch):
    monkeypatch.setattr(views, "SIZE", 1)
    client = client_as("product_manager")
    first = client.get(f"{PAGE}?domain=hr").context
    last = client.get(f"{PAGE}?domain=hr&after={first['page'].next_key}&gap={world.wide.pk}")
    assert last.context["rows"][0]["row"].pk == world.never.pk
    assert f'<input type="hidden" name="gap" value="{world.wide.pk}">' in last.content.decode()


def test_roles_see_the_same_and_act_by_their_role(world, user_with, client):
    place = f"{PAGE}?domain=hr&gap={world.wide.pk}"
    offers = {}
    for role in ("expert", "reviewer", "admin", "product_manager"):
        client.force_login(user_with(role))
        page = client.get(place).content.decode()
        assert "fewer wrong answers" in page
        offers[role] = "Draft the suggested rule" in page, "Assign it" in page
    assert offers["expert"] == offers["admin"] == (True, True)
    assert offers["product_manager"] == (False, True) and offers["reviewer"] == (False, False)


def test_drafting_makes_the_experts_own_drafts_once_and_publishes_nothing(world, user_with, client):
    sent = {"domain": "hr", "gap": world.wide.pk}
    client.force_login(user_with("product_manager"))
    assert client.post(f"{PAGE}draft/", sent).status_code == 403
    expert = user_with("expert")
    client.force_login(expert)
    assert client.post(f"{PAGE}draft/", sent).status_code == 302
    change = RuleChange.objects.get()
    assert change.content["text"] == world.one.content["text"] and change.domain == "hr"
    assert (change.request.author, change.request.state) == (expert, "draft")
    again = client.post(f"{PAGE}draft/", sent, follow=True).content.decode()
    assert "writing each of these rules already" in again and ChangeRequest.objects.count() == 1


def test_assigning_gives_every_picked_cluster_to_one_person(world, user_with, client):
    expert = user_with("expert")
    sent = {"domain": "hr", "gap": [world.wide.pk, world.never.pk], "owner": expert.pk, "due": "2099-01-31"}
    client.force_login(user_with("reviewer"))
    assert client.post(f"{PAGE}assign/", sent).status_code == 403
    client.force_login(user_with("product_manager"))
    back = client.post(f"{PAGE}assign/", sent)
    assert back.status_code == 302 and f"gap={world.wide.pk}" in back.url
    owners = dict(Cluster.objects.values_list("label", "owner__username"))
    assert owners == {"wide one": "expert", "never asked": "expert", "told apart": None}
    late = client.post(f"{PAGE}assign/", sent | {"due": "2001-01-31"}, follow=True).content.decode()
    assert "The day is over already" in late
    assert not Cluster.objects.filter(due__year=2001).exists()


def test_empty_states_say_what_to_do_next(client_as):
    client = client_as("product_manager")
    assert "There is no catalog yet" in client.get(PAGE).content.decode()
    tools = [make_tool(), make_tool()]
    assert "The look-alikes are not known yet" in client.get(PAGE).content.decode()
    make_cluster(*tools)
    assert "Nothing is counted yet" in client.get(PAGE).content.decode()
    count()
    assert "Nothing is picked yet" in client.get(PAGE).content.decode()
    make_rule(*tools)
    count()
    assert "No gap is left to pick" in client.get(PAGE).content.decode()
    assert client.get(f"{PAGE}?domain=nowhere").status_code == 404


def test_the_csv_says_what_the_page_says(world, client_as):
    answer = client_as("product_manager").get(
        f"{PAGE}choice.csv?domain=hr&gap={world.wide.pk}&gap={world.never.pk}"
    )
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    plan = world.plan(world.wide, world.never)
    picks = {(row["row"], row["id"]): row for row in rows if row["row"] != "total"}
    assert float(picks["gap", str(world.wide.pk)]["value"]) == pytest.approx(
        plan.found.misses.value, rel=1e-4
    )
    assert picks["gap", str(world.never.pk)]["value"] == ""
    assert picks["gap", str(world.wide.pk)]["pairs_told_apart"] == "3"
    totals = {row["what"]: row for row in rows if row["row"] == "total"}
    assert totals["Samples to write"]["value"] == str(plan.samples) and len(totals) == len(plan.lines)


def test_the_api_gives_the_same_figures(world, client_as):
    client = client_as("reviewer")
    place = "/api/v1/evaluation/what-if"
    found = client.get(f"{place}?domain=hr&gap={world.wide.pk},{world.told.pk}").json()
    plan = world.plan(world.wide)
    figures = {one["key"]: one for one in found["figures"]}
    assert figures["gain"]["value"] == plan.found.gain.value and figures["gain"]["low"] == plan.found.gain.low
    assert figures["reading"]["value"] is None and found["left_out"] == 1 and found["pairs"] == 3
    (pick,) = found["picks"]
    assert (pick["gap"], pick["labelled_requests"], pick["wrong_of_them"]) == (world.wide.pk, 13, 5)
    assert (pick["tools"], pick["tools_measured"]) == (4, 3)
    assert client.get(f"{place}?domain=hr&gap=one").status_code == 400
    assert client.get(place).status_code == 400
    assert client.get(f"{place}?domain=nowhere").status_code == 404


def test_a_page_costs_the_same_queries_for_few_gaps_and_for_many(world, client_as):
    client = client_as("expert")

    def look():
        picked = "&".join(f"gap={pk}" for pk in (row.pk for row in counted().clusters["hr"]))
        with CaptureQueriesContext(connection) as made:
            assert client.get(f"{PAGE}?domain=hr&{picked}").status_code == 200
        return len(made)

    look()
    few = look()
    for _ in range(8):
        tools = [make_tool() for _ in range(3)]
        make_cluster(*tools, clustering=world.wide.clustering)
        suggest(*tools[:2])
    count()
    assert look() == few


# What suggested rules rest on.


def test_suggestions_are_told_of_measured_confusion(world):
    for _ in range(2):
        make_sample(tools=[world.c, world.d])
    found = failing_requests("hr")
    pairs = [(right, chosen) for _, right, chosen in found]
    assert pairs.count((world.a.name, world.b.name)) == 3 and pairs.count((world.c.name, world.d.name)) == 2
    assert len(found) == 5, "not what went wrong once elsewhere, nor at a pair that a rule tells apart"
    assert all(text.startswith("query ") for text, *_ in found) and failing_requests("finance") == []


def test_what_happens_twice_elsewhere_is_told(world):
    again = [(world.b, [world.e.name])] * 2
    make_evaluation(*again, model=world.model, decode="fast")
    count()
    assert (world.b.name, world.e.name) in {(right, chosen) for _, right, chosen in failing_requests("hr")}


def test_texts_that_not_all_may_read_are_not_told(world):
    row = Count.objects.get()
    own = next(one for one in row.counted["outcomes"] if one[8] and one[10] == world.a.pk)
    sample = make_sample(tools=[world.a, world.b], query="my own secret")
    own[:2] = "sample", sample.pk
    Count.objects.update(counted=row.counted)
    read_count.cache_clear()
    texts = sorted(text for text, right, _ in failing_requests("hr") if right == world.a.name)
    assert texts[0] == "" and "my own secret" not in texts and len(texts) == 3


def test_other_domains_have_their_own_page(world, client_as):
    other = make_domain("finance")
    tools = [make_tool(f"Bill/Tool{name}", domain=other) for name in "XY"]
    make_cluster(*tools)
    count()
    rows = client_as("expert").get(f"{PAGE}?domain=finance").context["rows"]
    assert [row["row"].cluster.tool_ids for row in rows] == [[tool.pk for tool in tools]]
