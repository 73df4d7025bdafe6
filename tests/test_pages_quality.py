"""The quality pages: what they show, to whom, and the second-reading shares."""

import csv
import io

import pytest

from synthesis.models import ReviewItem, SecondShare, SynthesisRun
from synthesis.quality import calibration
from synthesis.quality.second import share_of, share_table, shares_set
from synthesis.review import services as review_services
from tests.factories import make_domain, make_rule, make_sample, make_tool
from tests.synthesis.readings import read, read_by_two
from tests.synthesis.test_calibration import refused
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
PARTS = ("", "judge/", "reviewers/")


@pytest.fixture
def texts():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return {"rule": rule, "tools": tools, "run": SynthesisRun.objects.create(branch="rule", writer="offline")}


@pytest.fixture
def people(user_with):
    return [user_with("reviewer", username=name) for name in ("ada", "bob", "cyd")]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("role", "status"), [("expert", 403), ("product_manager", 403), ("reviewer", 200)])
def test_reviewers_and_admins_read_and_others_are_told_who_may(client_as, part, role, status):
    page = client_as(role).get(f"/synthesis/quality/{part}")
    assert page.status_code == status
    if status == 403:
        assert "reviewer or admin" in page.content.decode()


def test_empty_pages_say_what_to_do(client_as):
    client = client_as("admin")
    assert "Set a share" in client.get("/synthesis/quality/").content.decode()
    assert "Start a run" in client.get("/synthesis/quality/judge/").content.decode()
    assert "Open the queue" in client.get("/synthesis/quality/reviewers/").content.decode()


def test_a_reviewer_is_told_to_whom_to_turn_for_second_readings(client_as):
    page = client_as("reviewer").get("/synthesis/quality/").content.decode()
    assert "An admin sets what share" in page and "/quality/second/" not in page


def test_agreement_is_shown_with_its_number_and_says_when_it_cannot_tell(client_as, texts, people):
    ada, bob, _ = people
    read_by_two()
    for verdicts in (("approve", "approve"), ("reject", "reject"), ("approve", "reject")):
        read(None, (ada, verdicts[0]), (bob, verdicts[1]), **texts)
    page = client_as("admin").get("/synthesis/quality/").content.decode()
    assert "cannot tell" in page and "ada and bob" in page
    assert "seed 0" in page and "1,000 draws" in page


def test_a_reviewer_sees_own_pairs_and_own_row_and_nobody_elses(client, texts, people):
    ada, bob, cyd = people
    read_by_two()
    read(None, (ada, "approve"), (bob, "approve"), **texts)
    read(None, (bob, "approve"), (cyd, "approve"), **texts)
    client.force_login(ada)
    for address in ("", "reviewers/", "pairs.csv", "reviewers.csv"):
        page = client.get(f"/synthesis/quality/{address}").content.decode()
        assert "ada" in page and "cyd" not in page, address
    assert client.get("/synthesis/quality/").context["report"]["overall"]["n"] == 2


def test_the_judges_page_shows_matrix_rates_and_the_arithmetic_of_the_proposal(client_as, texts, people):
    ada, _, _ = people
    for verdict in ("approve", "edit", "reject"):
        read(None, (ada, verdict), **texts)
    refused(**texts)
    client = client_as("admin")
    page = client.get("/synthesis/quality/judge/", {"target": "5", "floor": "10"})
    (judge,) = page.context["judges"]
    assert judge["overall"]["false_accept"].value == pytest.approx(1 / 3)
    text = page.content.decode()
    assert "1 - 0.050 / 0.792 = 0.937" in text and "94 %" in text
    assert "nothing the judge refused was read" in text and "Draw from 1" in text and "AQL 4.0" in text
    strict = client.get("/synthesis/quality/judge/", {"edits": "reject"}).context["judges"][0]
    assert strict["overall"]["false_accept"].value == pytest.approx(2 / 3)


@pytest.mark.parametrize("given", ["target=x", "target=-1", "target=nan", "floor=1e9", "edits=perhaps"])
def test_a_setting_that_cannot_be_is_ignored(client_as, texts, given):
    make_sample(**texts)
    page = client_as("reviewer").get(f"/synthesis/quality/judge/?{given}")
    assert page.status_code == 200 and page.context["target"] == "2"


def test_a_draw_puts_refused_samples_into_the_queue_and_can_be_taken_back(client_as, texts):
    refused(**texts), refused(**texts)
    client = client_as("admin")
    page = client.post(
        "/synthesis/quality/judge/draw/", {"count": 1, "seed": 5}, follow=True
    ).content.decode()
    assert "1 of 2 refused samples" in page and "seed 5" in page and "1 of earlier draws waits" in page
    assert ReviewItem.objects.get().calibration
    page = client.post("/synthesis/quality/judge/withdraw/", follow=True).content.decode()
    assert "1 items that nobody had opened" in page
    for given in ({"count": 0}, {"count": "many"}, {"count": 5, "domain": "none"}):
        client.post("/synthesis/quality/judge/draw/", given, follow=True)
    assert not ReviewItem.objects.exists()


def test_a_drawn_item_looks_like_any_other_and_its_verdict_is_hidden_until_the_decision(client_as, texts):
    sample = refused(**texts)
    client = client_as("admin")
    client.post("/synthesis/quality/judge/draw/", {"count": 1})
    page = client.get(f"/synthesis/review/{sample.pk}/").content.decode()
    assert sample.query in page and 'data-key="a"' in page
    for told in ("judged out", "dropped", "alibration"):
        assert told not in page, told
    assert "people who have not seen its verdict" in page


def test_of_other_items_the_verdict_is_hidden_by_lot_so_that_hiding_it_tells_nothing(texts, monkeypatch):
    rows = [make_sample(**texts) for _ in range(60)]
    items = {item.sample_id: item for item in ReviewItem.objects.all()}
    monkeypatch.setattr(calibration, "CONTROLS", 0.5)
    hidden = [row for row in rows if calibration.verdict_hidden(items[row.pk], row)]
    assert 15 < len(hidden) < 45
    assert hidden == [row for row in rows if calibration.verdict_hidden(items[row.pk], row)]


def test_tables_are_files_whose_cells_run_no_formula(client_as, texts, user_with):
    eve, bob = user_with("reviewer", username="@SUM(A1)"), user_with("reviewer", username="bob")
    read_by_two()
    read(None, (eve, "approve"), (bob, "approve"), **texts)
    client = client_as("admin")
    for table in ("agreement", "pairs", "judge", "reviewers"):
        answer = client.get(f"/synthesis/quality/{table}.csv")
        rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
        assert rows and "attachment" in answer["Content-Disposition"], table
        assert not any(cell.startswith(("@", "=", "+")) for row in rows for cell in row.values())
    assert client.get("/synthesis/quality/other.csv").status_code == 404


def test_pages_cost_the_same_however_much_was_read(client_as, texts, people, django_assert_max_num_queries):
    ada, bob, cyd = people
    client = client_as("admin")
    read_by_two()

    def queries() -> list[int]:
        found = []
        for part in PARTS:
            with django_assert_max_num_queries(20) as asked:
                client.get(f"/synthesis/quality/{part}")
            found.append(len(asked))
        return found

    read(None, (ada, "approve"), (bob, "approve"), **texts)
    few = queries()
    for one, other in ((ada, bob), (bob, cyd), (cyd, ada)):
        read(None, (one, "approve"), (other, "reject"), **{**texts, "style": "implicit"})
        refused(**texts)
    assert queries() == few


# shares of second readings


def test_shares_are_an_admins_and_the_most_specific_counts(client_as):
    make_domain("hr"), make_domain("it")
    client = client_as("admin")
    given = {"share||": "10", "share|hr|": "20", "share|hr|explicit": "50", "share||implicit": "5,5"}
    page = client.post("/synthesis/quality/second/", given, follow=True).content.decode()
    assert "4 shares changed" in page
    asked = [("it", "explicit"), ("hr", "implicit"), ("hr", "explicit"), ("it", "implicit")]
    assert [share_of(*place) for place in asked] == pytest.approx([0.1, 0.2, 0.5, 0.055])
    assert AuditEntry.objects.filter(action="review.second_share").count() == 4
    client.post("/synthesis/quality/second/", {"share|hr|": "", "was|hr|": "20"})
    assert share_of("hr", "implicit") == pytest.approx(0.055)
    entry = AuditEntry.objects.filter(action="review.second_share").first()
    assert entry.detail == {"domain": "hr", "style": "all", "before": 0.2, "after": None}


@pytest.mark.parametrize("share", ["-1", "101", "many", "nan", "inf"])
def test_a_share_that_is_none_is_refused_and_nothing_is_saved(client_as, share):
    make_domain("hr")
    given = {"share||": "10", "share|hr|": share}
    page = client_as("admin").post("/synthesis/quality/second/", given)
    assert page.status_code == 422
    assert f'value="{share}"' in page.content.decode() and "Nothing was saved" in page.content.decode()
    assert not SecondShare.objects.exists()


def test_what_another_admin_set_meanwhile_stays(client_as):
    make_domain("hr")
    client = client_as("admin")
    SecondShare.objects.create(share=0.3)
    client.post("/synthesis/quality/second/", {"share||": "", "was||": "", "share|hr|": "10", "was|hr|": ""})
    assert (share_of("it", ""), share_of("hr", "")) == (0.3, 0.1)


@pytest.mark.parametrize("place", [("none", ""), ("", "sung")])
def test_a_share_needs_a_domain_and_a_style_that_exist(user_with, place):
    with pytest.raises(TraceError, match="there is no"):
        shares_set(shares={place: 0.5}, actor=user_with("admin"))


def test_setting_the_same_share_again_changes_nothing(user_with):
    admin = user_with("admin")
    assert shares_set(shares={("", ""): 0.5}, actor=admin) == 1
    assert shares_set(shares={("", ""): 0.5}, actor=admin) == 0
    assert shares_set(shares={("", ""): None}, actor=admin) == 1
    assert AuditEntry.objects.filter(action="review.second_share").count() == 2


def test_the_table_says_how_many_readings_a_week_a_share_means(user_with, texts):
    ada = user_with("reviewer", username="ada")
    for _ in range(4):
        read(None, (ada, "approve"), **texts)
    read(None, (ada, "approve"))
    review_services.policy_approve(count=None)
    shares_set(shares={("", ""): 0.2, ("hr", "explicit"): 0.5}, actor=ada)
    rows = share_table()
    everywhere, hr = rows[0]["cells"], rows[1]["cells"]
    assert (everywhere[0]["first"], everywhere[0]["second"]) == (5, pytest.approx(4 * 0.5 + 1 * 0.2))
    assert (hr[1]["style"], hr[1]["share"], hr[1]["first"]) == ("explicit", 0.5, 4)
    assert hr[1]["second"] == pytest.approx(2.0)
