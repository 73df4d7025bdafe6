"""What differs between two snapshots, on the page and in the API; and files and card to take away."""

import io
import threading
import zipfile

import pytest
from django.db import IntegrityError, connection, transaction
from rest_framework.test import APIClient

from catalog.models import Tool
from synthesis.datasets.diff import SnapshotPair, _changes
from synthesis.datasets.files import jsonl, snapshot_dir
from synthesis.models import Sample, Snapshot, SnapshotSample
from tests.factories import make_snapshot, make_tool
from tests.synthesis.rows import make_book, make_sample, publish, run_job
from tests.synthesis.test_snapshots import build
from tests.tokens import token_of

SLOT = "rule:hr:PAYSLIP_PERIOD:exception:{}"


def frozen(**options) -> Snapshot:
    return Snapshot.objects.get(pk=run_job(build(**{"per_rule": 9, **options}))["id"])


def approved(version, number: int, **overrides) -> Sample:
    made_from = {"index": number}
    return make_sample(version, human="approved", slot=SLOT.format(number), made_from=made_from, **overrides)


@pytest.fixture
def pair(db) -> SnapshotPair:
    """b: the rule's second version, one sample written anew, one gone, one new, a tool edited and a tool added."""
    version = make_book()
    approved(version, 1, query="my pay slip of march")
    approved(version, 2, query="the slip that goes away")
    a = frozen()
    Tool.objects.filter(name="PayOne/GetPayslip").update(description="Reads a pay slip, anew.")
    make_tool("Zeta/New")
    second = publish(2)
    approved(second, 1, query="my pay slip of april")
    approved(second, 3, query="a slip that comes in")
    return SnapshotPair(a, frozen(per_rule=7, budgets={"hr": {"rule": 6}}))


def test_samples_are_changed_in_place_added_or_removed(pair):
    assert pair.counts() == {"changed": 1, "added": 1, "removed": 1, "rules": 1, "tools": 2}
    (changed,) = pair.page("changed").rows
    assert (changed.before["query"], changed.after["query"]) == (
        "my pay slip of march",
        "my pay slip of april",
    )
    (added,), (removed,) = pair.page("added").rows, pair.page("removed").rows
    assert (added.before, added.after["query"]) == (None, "a slip that comes in")
    assert (removed.before["query"], removed.after) == ("the slip that goes away", None)


def test_rules_tools_options_and_totals_are_compared(pair):
    (rule,) = pair.page("rules").rows
    assert (rule.kind, rule.name) == ("changed", "hr/PAYSLIP_PERIOD")
    assert (rule.before["version"], rule.after["version"]) == (1, 2)
    tools = [(change.kind, change.name) for change in pair.page("tools").rows]
    assert tools == [("changed", "PayOne/GetPayslip"), ("added", "Zeta/New")]
    assert {row["option"] for row in pair.options()} == {"per_rule", "budgets"}
    (total,) = pair.totals()
    assert (total["before"], total["after"], total["style"]) == (2, 2, "exception")


def test_rule_that_only_gained_clauses_is_no_change():
    rule = {"domain": "hr", "code": "R", "text": "Use A/b"}
    left, right = (
        jsonl([rule, rule | {"code": "S"}]),
        jsonl([rule | {"statements": []}, rule | {"code": "T"}]),
    )
    found = _changes(left, right, lambda row: row["code"])
    assert [(change.kind, change.name) for change in found] == [("removed", "S"), ("added", "T")]


def test_the_cards_part_for_programs_is_folded_away(pair, client_as):
    client = client_as("admin")
    page = client.get(f"/synthesis/snapshots/{pair.a.pk}/card/").content.decode()
    people, _, programs = page.partition("<details")
    assert "# TRACE snapshot" in people and "pretty_name" not in people and "pretty_name" in programs
    files = client.get(f"/synthesis/snapshots/{pair.a.pk}/").content.decode().partition(">README.md</a>")[2]
    assert files.partition("</dd>")[0].count("lines") == 1


def test_a_snapshot_does_not_differ_from_itself(pair):
    same = SnapshotPair(pair.a, pair.a)
    assert set(same.counts().values()) == {0} and same.options() == []


def test_pages_follow_each_other_without_loss_or_repeat(pair):
    version = Sample.objects.order_by("-pk").first().rule_version
    for number in range(10, 17):
        approved(version, number, query=f"one more slip {number}")
    wider = SnapshotPair(pair.b, frozen(per_rule=99))
    seen, after = [], ""
    for _ in range(9):
        page = wider.page("added", after, size=3)
        seen += [change.after["query"] for change in page.rows]
        if page.next_key is None:
            break
        after = page.next_key
    assert seen == [f"one more slip {number}" for number in range(10, 17)]
    tools = pair.page("tools", size=1)
    assert pair.page("tools", tools.next_key, size=1).rows[0].name == "Zeta/New"


def test_the_diff_asks_as_many_queries_for_many_changes_as_for_few(pair, django_assert_max_num_queries):
    with django_assert_max_num_queries(11):
        pair.counts()
        pair.page("changed")
        pair.page("tools")


def test_the_page_marks_words_and_leads_from_page_to_page(pair, client_as):
    client = client_as("expert")
    page = client.get("/synthesis/snapshots/diff/", {"a": pair.a.pk, "b": pair.b.pk})
    text = page.content.decode()
    assert page.status_code == 200 and "<mark>april</mark>" in text and "<mark>march</mark>" in text
    for show in ("added", "removed", "rules", "tools", "nonsense"):
        answer = client.get("/synthesis/snapshots/diff/", {"a": pair.a.pk, "b": pair.b.pk, "show": show})
        assert answer.status_code == 200, show
    choosing = client.get("/synthesis/snapshots/diff/").content.decode()
    chosen = [line.partition('"')[0] for line in choosing.split('option value="') if "selected>" in line]
    assert chosen == [str(pair.a.pk)]  # the one before the newest; a list opens at its first, the newest
    assert client.get("/synthesis/snapshots/diff/?a=1&b=999999").status_code == 404
    assert client.get("/synthesis/snapshots/diff/?a=x&b=%27").status_code == 200


def test_texts_are_shown_as_they_are_never_run(client_as):
    version = make_book()
    script = "<script>alert(1)</script>"
    approved(version, 1, query=script, trace=script)
    a = frozen()
    approved(version, 2, query=f"other {script}", trace=script)
    b = frozen()
    client = client_as("expert")
    for path in (
        f"diff/?a={a.pk}&b={b.pk}",
        f"{b.pk}/",
        f"{b.pk}/card/",
        "preview/?strategy=append&per_rule=2",
    ):
        assert script not in client.get(f"/synthesis/snapshots/{path}").content.decode(), path


@pytest.fixture
def api(user_with):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user_with('admin'))}")
    return client


def test_the_api_lists_reads_compares_and_gives_card_and_files(pair, api):
    rows = api.get("/api/v1/snapshots").json()["results"]
    assert [row["id"] for row in rows] == [pair.b.pk, pair.a.pk]
    address = f"/api/v1/snapshots/{pair.b.pk}"
    assert api.get(address).json()["manifest"]["hash"] == pair.b.hash
    assert api.get(f"{address}/card").json()["card"].startswith("---\npretty_name: TRACE snapshot")
    data = b"".join(api.get(f"{address}/files/samples.parquet").streaming_content)
    assert data == (snapshot_dir(pair.b) / "samples.parquet").read_bytes()
    for name in ("store.json", "..%2Fx", "other"):
        assert api.get(f"{address}/files/{name}").status_code == 404
    found = api.get("/api/v1/snapshots/diff", {"a": pair.a.pk, "b": pair.b.pk, "show": "tools", "limit": 1})
    answer = found.json()
    assert answer["counts"]["tools"] == 2 and answer["next"] == "PayOne/GetPayslip"
    assert answer["results"][0]["after"]["description"] == "Reads a pay slip, anew."
    assert api.get("/api/v1/snapshots/diff", {"a": 1}).status_code == 400


def test_every_file_and_the_whole_folder_can_be_taken_away_by_admins(pair, client_as, client, user_with):
    client.force_login(user_with("reviewer"))
    assert "snapshot.zip" not in client.get(f"/synthesis/snapshots/{pair.b.pk}/").content.decode()
    client = client_as("admin")
    address = f"/synthesis/snapshots/{pair.b.pk}/"
    page = client.get(address).content.decode()
    for name in ("samples.parquet", "README.md", "tools.jsonl"):
        assert f"{address}files/{name}" in page
        answer = client.get(f"{address}files/{name}")
        assert b"".join(answer.streaming_content) == (snapshot_dir(pair.b) / name).read_bytes()
    data = b"".join(client.get(f"{address}snapshot.zip").streaming_content)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert len(archive.namelist()) == 8
    assert client.get(f"{address}files/store.json").status_code == 404


def test_the_card_of_a_snapshot_without_one_says_so(client_as):
    old = make_snapshot(manifest={"files": {}, "counts": {}})
    page = client_as("expert").get(f"/synthesis/snapshots/{old.pk}/card/").content.decode()
    assert "before there were cards" in page


@pytest.mark.django_db(transaction=True)
def test_an_edit_that_meets_a_snapshot_being_made_waits_and_is_refused():
    sample = make_sample(make_book(), human="approved")
    names = ("hash", "strategy", "store_key", "store_digest", "catalog_hash")
    ended: list[str] = []

    def edits() -> None:
        try:
            Sample.objects.filter(pk=sample.pk).update(query="too late")
            ended.append("written")
        except IntegrityError as error:
            ended.append(str(error))
        finally:
            connection.close()

    with transaction.atomic():
        held = Snapshot.objects.create(per_rule=1, **dict.fromkeys(names, "x"))
        SnapshotSample.objects.create(snapshot=held, sample=sample, position=0, sample_key=sample.key)
        thread = threading.Thread(target=edits)
        thread.start()
        thread.join(timeout=0.5)
        assert thread.is_alive() and not ended  # it waits for the lock
    thread.join(timeout=10)
    assert "frozen in snapshot" in ended[0]
    assert Sample.objects.get(pk=sample.pk).query != "too late"
