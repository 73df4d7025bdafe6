"""The page of a domain: one sentence, true in every state; numbers that open exactly their lists; who may act."""

import csv
import io
import re
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog.lookalikes import _store_clustering, cluster_assign
from catalog.models import Cluster, Clustering, Domain, Tool
from evaluation.core.coverage import STATES
from evaluation.coverage import gaps
from evaluation.models import Benchmark, Evaluation, RetrievalRequest
from tests.factories import (
    count_rollups,
    make_cluster,
    make_evaluation,
    make_model,
    make_rule,
    make_run,
    make_tool,
)
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice
from training.models import AliasMove

pytestmark = pytest.mark.django_db
WORDS = {"one": 1, "two": 2}


def text_of(response) -> str:
    """What a reader sees: no tags, one blank between words."""
    shown = re.sub(
        r"<(style|script).*?</\1>|<[^>]+>",
        " ",
        response.content.decode().replace("<wbr>", ""),
        flags=re.DOTALL,
    )
    return (
        " ".join(shown.split())
        .replace(" .", ".")
        .replace(" ;", ";")
        .replace(" ,", ",")
        .replace("&#x27;", "'")
    )


@pytest.fixture
def tools():
    return {letter: make_tool(f"Pay/Tool{letter}") for letter in "ABCDEFG"}


@pytest.fixture
def clusters(tools):
    """A and B are told apart by a rule; C, D, E and F, G by none."""
    clustering = Clustering.objects.create(domain=tools["A"].domain, version=1, tau=0.8, algorithm="test")
    make_rule(tools["A"], tools["B"], code="A_OR_B")
    return [
        make_cluster(*(tools[letter] for letter in letters), clustering=clustering, label=label)
        for letters, label in (("AB", "told apart"), ("CDE", "open one"), ("FG", "open two"))
    ]


def measure(tools, answers, model, benchmark=None):
    """`answers`: "CD" for a request that C answers and that gets D."""
    rows = [(tools[right], [tools[given].name]) for right, given in answers]
    fields = {"benchmark": benchmark} if benchmark else {}
    decode = "fast" if model else "embedding"
    return make_evaluation(*rows, model=model, decode=decode, **fields)


@pytest.fixture
def champion(tools, clusters):
    """Of ten requests it gets four wrong: two at open pairs (C for D, F for G), one told apart, one elsewhere."""
    model = make_model(run=make_run(retrieval="r+R"))
    AliasMove.objects.create(alias="champion", model=model)
    answers = ["CD", "CC", "DD", "EE", "FG", "FA", "AB", "AA", "BB", "GG"]
    measured = measure(tools, answers, model)
    measure(tools, ["CC", "CC", "DC", "ED", "FF", "FF", "AB", "AB", "BA", "GG"], None, measured.benchmark)
    count_rollups()
    return model


def said(response) -> str:
    return "".join(part.text for part in response.context["headline"])


def day() -> str:
    return f"{timezone.localdate():%-d %b}"


def test_sentence_tells_what_is_told_apart_what_goes_wrong_and_where_most_of_it_is(client_as, champion):
    page = client_as("product_manager").get("/")
    assert said(page) == (
        f"HR, {day()}: 1 of 3 look-alike clusters is told apart; where they are not, 3 of 7 requests go wrong; "
        "2 requests go wrong for lack of a rule, and two gaps hold most of it."
    )
    assert said(page) in text_of(page)


def test_every_number_of_the_sentence_opens_exactly_its_list(client_as, champion):
    client = client_as("product_manager")
    linked = [part for part in client.get("/").context["headline"] if part.href]
    assert len(linked) == 6
    for part in linked:
        number = part.text.split()[0]
        listed = client.get(part.href).context
        shown = listed["gaps"] if "gaps" in listed else listed["rows"]
        assert len(shown) == listed["total"] == (WORDS.get(number) or int(number)), part


def test_every_number_of_a_gap_opens_exactly_its_requests(client_as, champion, clusters):
    client = client_as("expert")
    for line in client.get("/").context["gaps"]:
        assert client.get(line["asked_url"]).context["total"] == line["row"].n
        assert client.get(line["wrong_url"]).context["total"] == line["row"].wrong
        assert client.get(line["missing_url"]).context["total"] == line["row"].wrong_uncovered == 1


def test_numbers_of_pairs_open_exactly_their_pairs(client_as, champion, clusters, tools):
    make_rule(
        tools["C"], tools["D"], code="NAMES_ONLY", text=f"{tools['C'].name} and {tools['D'].name} exist."
    )
    make_rule(tools["F"], make_tool("Far/Away"), code="FAR")
    count_rollups()
    client = client_as("product_manager")
    figures = client.get("/").context["figures"]
    counted = {"all": figures.pairs, "apart": figures.covered, "named": figures.named}
    counted |= {"open": figures.pairs - figures.covered, "outside": figures.pairs_outside}
    assert counted == {"all": 4, "apart": 1, "named": 1, "open": 3, "outside": 1}
    for state, many in counted.items():
        listed = client.get(f"/coverage/hr/pairs/?state={state}")
        assert len(listed.context["page"].rows) == listed.context["total"] == many, state
    assert "Far/ Away" in text_of(client.get("/coverage/hr/pairs/?state=outside"))
    assert client.get("/coverage/hr/pairs/?state=none").status_code == 404


@pytest.mark.parametrize(
    "query", ["rule=1", "cluster=abc", "cluster=1", "tool=abc", "group=none", "wrong=us"]
)
def test_a_list_of_requests_is_never_that_of_something_else(client_as, champion, query):
    assert client_as("product_manager").get(f"/coverage/hr/requests/?{query}").status_code == 404


def test_rows_of_the_figure_open_the_requests_they_count(client_as, champion):
    client = client_as("expert")
    rows = client.get("/").context["recall"].rows
    assert [(row.label, row.n) for row in rows] == [
        ("all requests", 10),
        ("a rule tells the look-alikes apart", 3),
        ("no rule tells the look-alikes apart", 7),
    ]
    for row in rows:
        assert client.get(row.href).context["total"] == row.n
        assert (
            len({round(dot.value * row.n, 6) % 1 for dot in row.dots}) == 1
        )  # both sides over the same requests


def test_counts_of_states_open_exactly_their_clusters(client_as, champion, clusters):
    Cluster.objects.filter(pk=clusters[2].pk).update(dismissed_reason="the names say it")
    count_rollups()
    client = client_as("reviewer")
    parts = client.get("/").context["parts"]
    assert {part["state"] for part in parts} == set(STATES) and sum(part["count"] for part in parts) == 3
    for part in parts:
        assert client.get(part["href"]).context["total"] == part["count"], part


# The sentence in every other state.


def test_an_empty_home_says_how_to_begin(client_as):
    page = text_of(client_as("product_manager").get("/"))
    assert "There is no catalog yet" in page and "Where the assistant chooses the wrong tool" in page


def test_a_domain_that_was_not_counted_yet_says_so(client_as, tools):
    page = client_as("product_manager").get("/")
    assert "HR: nothing is counted yet" in text_of(page) and "headline" not in page.context


def test_a_domain_whose_look_alikes_nobody_looked_for_says_so(client_as, tools):
    count_rollups()
    page = client_as("admin").get("/")
    assert said(page) == f"HR, {day()}: nobody has looked for look-alikes among its 7 tools yet."
    assert "The look-alikes are not known yet" in text_of(page)


def test_a_domain_without_look_alikes_says_so(client_as, tools):
    Clustering.objects.create(domain=tools["A"].domain, version=1, algorithm="test")
    count_rollups()
    page = client_as("admin").get("/")
    assert said(page) == f"HR, {day()}: no look-alikes are left to tell apart."
    assert "no gap is left to close" in text_of(page)


def test_without_measurements_no_cost_is_claimed(client_as, clusters):
    count_rollups()
    page = client_as("product_manager").get("/")
    assert said(page).endswith(
        "1 of 3 look-alike clusters is told apart; how often requests go wrong is not measured."
    )
    shown = text_of(page)
    assert "how alike they are, which is no cost" in shown and "No model is evaluated yet" in shown
    assert "No labelled request of this domain was asked yet" in shown and "costliest" not in shown


def test_without_a_model_the_figures_are_the_embeddings_and_say_so(client_as, tools, clusters):
    measure(tools, ["CD", "CC", "FF"], None)
    count_rollups()
    client = client_as("product_manager")
    page = client.get("/")
    assert "where they are not, 1 of 3 requests goes wrong; 1 request goes wrong for lack of a rule" in said(
        page
    )
    assert "what goes wrong is what plain embedding search gets wrong" in text_of(page)
    linked = [part for part in page.context["headline"] if "requests/" in part.href]
    assert [client.get(part.href).context["total"] for part in linked] == [1, 3, 1]


def test_where_everything_is_told_apart_the_sentence_tells_what_still_goes_wrong(
    client_as, tools, clusters, champion
):
    make_rule(tools["C"], tools["D"], tools["E"])
    make_rule(tools["F"], tools["G"])
    count_rollups()
    page = client_as("product_manager").get("/")
    assert (
        said(page) == f"HR, {day()}: all 3 look-alike clusters are told apart; "
        "where rules decide, 4 of 10 requests still go wrong."
    )
    assert "no gap is left to close" in text_of(page)


def test_a_cluster_that_is_told_apart_but_for_one_tool_is_no_contradiction(client_as, tools):
    make_cluster(*(tools[letter] for letter in "ABCDEF"))
    make_rule(*(tools[letter] for letter in "ABCDE"))
    measure(tools, ["FE", "FF", "AA"], None)
    count_rollups()
    page = client_as("admin").get("/")
    assert said(page) == (
        f"HR, {day()}: the 1 look-alike cluster is told apart; where a tool is not, 1 of 2 requests goes wrong; "
        "1 request goes wrong for lack of a rule, and one gap holds most of it."
    )


def test_no_wrong_answer_for_want_of_a_rule_is_said(client_as, tools, clusters):
    measure(tools, ["CC", "DA"], None)
    count_rollups()
    assert said(client_as("admin").get("/")).endswith(
        "where they are not, 1 of 2 requests goes wrong; no request goes wrong for lack of a rule."
    )


def test_figures_of_another_model_than_the_champion_say_so(client_as, champion):
    promoted = make_model(run=make_run(snapshot=champion.run.snapshot))
    AliasMove.objects.create(alias="champion", model=promoted)
    page = text_of(client_as("admin").get("/"))
    assert f"Model {promoted.pk} is champion since" in page and f"still of model {champion.pk}" in page


def test_a_champion_that_is_worse_than_the_embedding_is_told_in_red(client_as, tools, clusters):
    model = make_model()
    AliasMove.objects.create(alias="champion", model=model)
    measured = measure(tools, ["CD"] * 8 + ["AA"] * 3, model)
    measure(tools, ["CC"] * 8 + ["AA"] * 3, None, measured.benchmark)
    count_rollups()
    client = client_as("product_manager")
    page = client.get("/")
    sentence = (
        "The champion is worse than plain embedding search where no rule tells look-alikes apart: "
        "it gets 8 of 8 wrong, the embedding 0."
    )
    assert sentence in text_of(page) and 'tone-bad worse"' in page.content.decode()
    for part in page.context["warnings"][-1]:
        if part.href:
            assert client.get(part.href).context["total"] == int(part.text)


# Who may act, and who sees why not.


@pytest.mark.parametrize(
    ("role", "assigns", "drafts", "why"),
    [
        ("product_manager", True, False, "a domain expert or admin drafts rules and dismisses gaps."),
        ("expert", True, True, ""),
        ("admin", True, True, ""),
        ("reviewer", False, False, "a domain expert or admin or product manager assigns them"),
    ],
)
def test_who_may_not_act_sees_why(client_as, champion, clusters, role, assigns, drafts, why):
    page = client_as(role).get("/")
    html = page.content.decode()
    assert (f'hx-get="/clusters/{clusters[1].pk}/assign/' in html) == assigns
    assert (f'hx-get="/clusters/{clusters[1].pk}/dismiss/' in html) == ("Draft a rule" in html) == drafts
    assert why in text_of(page)


@pytest.mark.parametrize("form", ["assign", "dismiss"])
def test_the_form_of_a_gap_is_the_same_in_lists_and_on_the_page_of_its_cluster(
    client_as, champion, clusters, form, user_with
):
    erin = user_with("expert", username="erin")
    cluster_assign(cluster=clusters[1], owner=erin, due=None, actor=None)
    client, place = client_as("expert"), f"/clusters/{clusters[1].pk}/"
    asked = re.search(rf'hx-get="({place}{form}/[^"]*)"', client.get("/?domain=hr").content.decode())
    alone = client.get(unescape(asked[1])).content.decode()
    assert f'action="{place}{form}/"' in alone and 'name="back" value="/?domain=hr"' in alone
    assert ("selected>erin" in alone) == (form == "assign")

    def fields(html):
        return re.findall(r'name="(\w+)"', html.split(f'action="{place}{form}/"')[1].split("</form>")[0])

    assert fields(alone) == fields(client.get(place).content.decode())


def test_expert_is_sent_to_the_editor_with_the_gap_filled_in(client_as, champion, clusters):
    page = client_as("expert").get("/").content.decode()
    ids = "%2C".join(str(pk) for pk in clusters[1].tool_ids)
    assert f"/rules/new/?domain=hr&amp;tools={ids}" in page


def test_gap_shows_the_failing_request_to_those_who_may_read_it(client_as, champion, tools):
    page = text_of(client_as("expert").get("/"))
    assert "“query 0” gets Pay/ ToolD instead of Pay/ ToolC" in page


def test_a_gap_is_given_to_somebody_who_is_told(client_as, champion, clusters, user_with):
    erin, due = user_with("expert", username="erin"), timezone.localdate() + timedelta(days=3)
    client, path = client_as("product_manager"), f"/clusters/{clusters[1].pk}/assign/"
    sent = client.post(path, {"owner": erin.pk, "due": due, "back": "/?domain=hr"})
    assert sent["Location"] == "/?domain=hr"
    assert f"erin, by {due:%-d %b}" in text_of(client.get("/"))
    notice = Notice.objects.get(recipient=erin)
    assert notice.text == f"product_manager asks you for a rule that tells open one apart by {due:%-d %b}."
    entry = AuditEntry.objects.get(action="cluster.assigned")
    assert (entry.actor.username, entry.detail) == ("product_manager", {"owner": "erin", "due": str(due)})
    assert client.get("/clusters/?owner=erin").context["total"] == 1
    assert client.get("/clusters/?owner=nobody").context["total"] == 2
    client.post(path, {"owner": "", "due": ""})
    assert Cluster.objects.get(pk=clusters[1].pk).owner is None
    assert Notice.objects.get(recipient=erin).text == "product_manager took back the gap open one."


def test_a_gap_goes_to_nobody_who_writes_no_rules_and_to_no_day_that_is_over(
    client_as, champion, clusters, user_with
):
    client, path = client_as("product_manager"), f"/clusters/{clusters[1].pk}/assign/"
    refused = client.post(path, {"owner": user_with("reviewer").pk, "back": "/?domain=hr"})
    assert refused.status_code == 422 and "Choose somebody who writes rules" in text_of(refused)
    assert 'name="back" value="/?domain=hr"' in refused.content.decode()
    yesterday = timezone.localdate() - timedelta(days=1)
    refused = client.post(path, {"owner": user_with("expert").pk, "due": yesterday})
    assert refused.status_code == 422 and "The day is over already." in text_of(refused)
    assert Cluster.objects.get(pk=clusters[1].pk).owner is None


def test_a_form_leads_back_to_no_other_site(client_as, champion, clusters):
    client, place = client_as("expert"), f"/clusters/{clusters[1].pk}/"
    for back in ("https://elsewhere.example/", "//elsewhere.example/", "javascript:1"):
        assert client.post(f"{place}assign/", {"back": back})["Location"] == place


def test_overdue_gaps_are_listed(client_as, champion, clusters, user_with):
    Cluster.objects.filter(pk=clusters[2].pk).update(
        owner=user_with("expert"), due=timezone.localdate() - timedelta(days=2)
    )
    client = client_as("reviewer")
    assert [line["cluster"] for line in client.get("/clusters/?due=overdue").context["gaps"]] == [clusters[2]]
    assert "overdue" in text_of(client.get("/"))


def test_an_owner_stays_with_most_of_the_tools_when_clusters_are_found_anew(tools, clusters, user_with):
    erin, rui = user_with("expert", username="erin"), user_with("admin", username="rui")
    today = timezone.localdate()
    cluster_assign(cluster=clusters[1], owner=erin, due=today + timedelta(days=9), actor=rui)
    cluster_assign(cluster=clusters[2], owner=rui, due=today + timedelta(days=3), actor=rui)
    ids = {letter: tool.pk for letter, tool in tools.items()}

    def found(*parts):
        rows = [
            Cluster(
                position=at, label=part, tool_ids=[ids[one] for one in part], edges=[], mean_similarity=0.9
            )
            for at, part in enumerate(parts, start=1)
        ]
        last = Clustering.objects.order_by("-version").first()
        _store_clustering(last.domain, last, rows)
        return {row.label: (row.owner, row.due) for row in rows if row.owner}

    nine, three = (erin, today + timedelta(days=9)), (rui, today + timedelta(days=3))
    assert found("AB", "CD", "EFG") == {"CD": nine, "EFG": three}  # two of three went to CD
    assert found("ABCDEFG") == {"ABCDEFG": three}  # two meet: who is due first
    assert found("ABC", "DE", "FG") == {}  # nowhere more than half


def test_an_older_cluster_is_given_to_nobody(clusters, user_with):
    Clustering.objects.create(domain=clusters[0].clustering.domain, version=2, algorithm="test")
    with pytest.raises(TraceError, match="belongs to an older clustering"):
        cluster_assign(cluster=clusters[1], owner=user_with("expert"), due=None, actor=None)


def test_who_had_a_gap_is_told_when_it_goes_to_somebody_else(clusters, user_with):
    ann, bob = user_with("expert"), user_with("admin")
    for owner in (ann, bob):
        cluster_assign(cluster=clusters[1], owner=owner, due=None, actor=None)
    told = Notice.objects.filter(recipient=ann).order_by("pk").last()
    assert told is not None and "took back the gap" in told.text


# Misses, rules, trend, report, CSV, API.


def report_wrong(owner, tool, expected=(), text="where is my pay"):
    return RetrievalRequest.objects.create(
        key=uuid4(),
        at=timezone.now() - timedelta(days=1),
        owner=owner,
        via="fast",
        outcome="answered",
        query=text,
        tools=[tool.name],
        verdict="wrong",
        expected=[one.name for one in expected],
        reported_at=timezone.now(),
    )


def test_misses_are_counted_by_domain_and_their_texts_kept_from_who_may_not_read_them(
    client_as, champion, tools
):
    owner = User.objects.create(username="copilot")
    report_wrong(owner, tools["C"], [tools["D"]])
    report_wrong(owner, make_tool("Other/Tool", domain=Domain.objects.create(slug="it", title="IT")))
    client = client_as("product_manager")
    page = client.get("/?domain=hr")
    assert "1 answer to programs was reported wrong" in text_of(page) and "where is my pay" in text_of(page)
    assert len(client.get("/coverage/hr/misses/").context["rows"]) == page.context["missed"] == 1
    hidden = text_of(client_as("expert").get("/?domain=hr"))
    assert "1 answer to programs" in hidden and "where is my pay" not in hidden


def test_rules_are_listed_the_weakest_first_and_lead_to_their_requests(client_as, champion, tools):
    make_rule(tools["C"], tools["D"], code="C_OR_D")
    count_rollups()
    client = client_as("product_manager")
    rows = client.get("/coverage/hr/rules/").context["rows"]
    assert [(row.version.rule.code, row.n, row.wrong) for row in rows] == [("A_OR_B", 3, 1), ("C_OR_D", 3, 1)]
    for row in rows:
        address = f"/coverage/hr/requests/?rule={row.version.rule_id}"
        assert client.get(address).context["total"] == row.n
    part = client.get("/coverage/hr/rules/", headers={"HX-Request": "true"})
    assert "<html" not in part.content.decode()
    assert "The champion has not learned 2 of 2 published rules" in text_of(part)
    assert client.get("/coverage/hr/rules/?show=untaught").context["rows"] == rows
    assert client.get("/coverage/hr/rules/?samples=0-0").context["rows"] == rows
    assert client.get("/coverage/hr/rules/?show=weak").context["rows"] == []


def test_weak_rules_are_those_with_more_than_half_wrong(client_as, champion, tools):
    make_rule(tools["F"], tools["G"], code="F_OR_G")
    measured = Evaluation.objects.get(model=champion)
    measure(
        tools,
        ["GA", "GA", "GA"],
        champion,
        Benchmark.objects.create(name="more", kind="prb", hash="m", count=3),
    )
    count_rollups()
    assert measured.benchmark.name != "more"
    page = client_as("admin").get("/coverage/hr/rules/?show=weak")
    assert [(row.version.rule.code, row.weak) for row in page.context["rows"]] == [("F_OR_G", ["recall"])]
    assert "1 of 2 published rules is weak" in text_of(page)


def test_trend_names_the_rules_and_models_that_moved_it(client_as, champion, tools):
    make_rule(tools["C"], tools["D"], code="C_OR_D")
    count_rollups()
    promoted = make_model(run=make_run(snapshot=champion.run.snapshot))
    AliasMove.objects.create(alias="champion", model=promoted)
    count_rollups()
    page = client_as("product_manager").get("/")
    told = [[change.text for change in row.changes] for row in page.context["trend"].rows]
    assert told == [[f"model {promoted.pk} is champion"], ["C_OR_D v1"], ["first count"]]
    assert "Is it getting better? Since" in text_of(page) and "from 25 % to 50 %" in text_of(page)


def test_page_report_csv_and_api_say_the_same(client_as, champion, clusters):
    client = client_as("product_manager")
    page = client.get("/?domain=hr")
    told = client.get("/api/v1/coverage/hr").json()
    assert told["said"] == said(page) == said(client.get("/coverage/hr/report/"))
    assert told == client.get("/api/v1/coverage").json()["results"][0] | {"trend": told["trend"]}
    figures = page.context["figures"]
    assert (told["pairs"], told["gaps"], told["expected_wrong"]) == (figures.pairs, 2, figures.score)
    listed = client.get("/api/v1/coverage/hr/gaps?gaps=true").json()["results"]
    text = client.get("/coverage/hr.csv?gaps=yes").content.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["cluster"] for row in rows] == [one["label"] for one in listed]
    assert [one["cluster"] for one in listed] == [line["row"].pk for line in page.context["gaps"]]
    assert [float(row["expected_wrong"]) for row in rows] == pytest.approx(
        [one["expected_wrong"] for one in listed], rel=1e-4
    )


def test_gaps_are_read_page_by_page_over_the_api(client_as, champion):
    client, found, after = client_as("expert"), [], ""
    while after is not None:
        page = client.get(f"/api/v1/coverage/hr/gaps?limit=1&after={after}").json()
        found += [row["rank"] for row in page["results"]]
        after = page["next"]
    assert found == [1, 2, 3]
    wrong = client.get("/api/v1/coverage/hr/gaps?after=abc")
    assert wrong.status_code == 400 and "is no key of a page" in wrong.json()["message"]


def test_domains_are_read_page_by_page_over_the_api_with_as_many_queries_for_more(
    client_as, champion, django_assert_num_queries
):
    client, found, after = client_as("expert"), [], ""
    with CaptureQueriesContext(connection) as asked:
        client.get("/api/v1/coverage")
    for slug in ("aa", "bb", "cc"):
        other = make_tool(f"{slug}/Tool", domain=Domain.objects.create(slug=slug, title=slug))
        make_cluster(other, make_tool(f"{slug}/Other", domain=other.domain))
    count_rollups()
    with django_assert_num_queries(len(asked)):
        client.get("/api/v1/coverage")
    while after is not None:
        page = client.get(f"/api/v1/coverage?limit=2&after={after}").json()
        found.append([row["domain"] for row in page["results"]])
        after = page["next"]
    assert found == [["aa", "bb"], ["cc", "hr"]]
    assert client.get("/api/v1/coverage?limit=abc").status_code == 400


def test_the_start_page_shows_the_domain_with_the_most_wrong_answers_expected(client_as, champion):
    other = make_tool("Aa/Tool", domain=Domain.objects.create(slug="aa", title="Aa"))
    make_cluster(other, make_tool("Aa/Other", domain=other.domain))
    count_rollups()
    client = client_as("product_manager")
    assert client.get("/").context["domain"].slug == "hr"
    assert client.get("/?domain=aa").context["domain"].slug == "aa"
    assert client.get("/?domain=none").status_code == 404


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/", 23),
        ("/clusters/", 17),
        ("/coverage/hr/rules/", 36),
        ("/coverage/hr/report/", 36),
        ("/coverage/hr/requests/", 36),
    ],
)
def test_page_needs_the_same_queries_for_little_and_for_much(
    client_as, champion, tools, path, most, django_assert_num_queries
):
    client = client_as("admin")
    owner, clustering = User.objects.create(username="copilot"), Clustering.objects.get()

    def add(count):
        for _ in range(count):
            more = [make_tool() for _ in range(3)]
            make_cluster(*more, clustering=clustering, position=Cluster.objects.count())
            make_rule(*more[:2])
            report_wrong(owner, more[0], more[1:2], text=f"where is {more[0].name}")
        many = dict(enumerate(Tool.objects.filter(name__startswith="Payroll")))
        measured = measure(many, [(one, (one + 1) % len(many)) for one in many], champion)
        measure(many, [(one, one) for one in many], None, measured.benchmark)
        count_rollups()
        client.get(path)

    add(1)
    with CaptureQueriesContext(connection) as asked:
        client.get(path)
    few = len(asked)
    add(8)
    with django_assert_num_queries(few):
        client.get(path)
    assert 5 < few <= most


def test_first_load_of_a_page_with_many_clusters_stays_small(client_as, champion, tools):
    clustering = Clustering.objects.get()
    for _ in range(60):
        make_cluster(
            *(make_tool() for _ in range(4)), clustering=clustering, position=Cluster.objects.count()
        )
    count_rollups()
    client = client_as("expert")
    assert client.get("/").context["map"] is None
    client.get("/clusters/map/hr.json")
    page = client.get("/")
    assert page.context["map"].paths and len(page.content) < 60_000
    assert len(gaps.narrowed("hr", gaps.GAPS)) == 62 and len(page.context["gaps"]) == 5
