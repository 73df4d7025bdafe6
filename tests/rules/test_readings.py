"""What is kept of a version's reading: made when it is saved, corrected by people with a reason, counted as it is."""

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from catalog.models import Clustering
from evaluation.coverage.grouped import sorting_now
from evaluation.coverage.selectors import coverage, definition_now
from rules.apps import read_versions
from rules.core import pairs as core
from rules.core.rule import make_content
from rules.models import Rule, RuleReading, RuleVersion
from rules.selectors import newest_readings
from rules.services import pair_correct, read_missing, versions_save
from tests.factories import count_rollups, make_cluster, make_domain, make_tool
from tests.rules.saving import rule_save
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
NAMES = ("Pay/new", "Pay/old", "Pay/third")
BOTH = "Payslips from 2024 on are read with Pay/new, earlier ones with Pay/old"


@pytest.fixture
def tools():
    """Three look-alikes, each joined with each; and two of another cluster."""
    made = [make_tool(name) for name in (*NAMES, "Leave/a", "Leave/b")]
    clustering = Clustering.objects.create(domain=make_domain(), version=1, tau=0.8, algorithm="test")
    a, b, c = (tool.pk for tool in made[:3])
    make_cluster(*made[:3], clustering=clustering, edges=[[a, b, 0.9], [b, c, 0.9], [a, c, 0.9]])
    make_cluster(*made[3:], clustering=clustering)
    return made


def publish(text, clauses=(), **fields):
    given = {"target": NAMES[0], "confusables": NAMES[1:], "text": text, "clauses": clauses}
    return rule_save(**{**given, "publish": True, **fields}).version


def cells():
    """{pair of names: told apart | named only | open} of both clusters, and the states of the clusters."""
    found, states = {}, {}
    for row in coverage("hr")[0].clusters:
        names = {tool.id: tool.name for tool in row.tools}
        states[row.tools[0].name] = row.state
        for a, b, _ in row.coverage.cluster.edges:
            edge = (a, b)
            state = (
                "apart" if edge in row.coverage.covered else "named" if edge in row.coverage.named else "open"
            )
            found[tuple(sorted((names[a], names[b])))] = state
    return found, states


OPEN = {
    ("Pay/new", "Pay/old"): "open",
    ("Pay/old", "Pay/third"): "open",
    ("Pay/new", "Pay/third"): "open",
    ("Leave/a", "Leave/b"): "open",
}
NAMED = {pair: "open" if "Leave/a" in pair else "named" for pair in OPEN}


def when(*routes):
    return [{"when": words, "route_to": tool} for words, tool in routes]


@pytest.mark.parametrize(
    ("text", "clauses", "moved", "state"),
    [
        ("Pay/new, Pay/old and Pay/third read the payslips of every year.", (), {}, "named"),
        (f"{BOTH}. There is Pay/third as well.", (), {("Pay/new", "Pay/old"): "apart"}, "touched"),
        (
            "Pay/new, Pay/old and Pay/third read the payslips of every year.",
            when(("from 2024 on", "Pay/new"), ("before 2024", "Pay/third")),
            {("Pay/new", "Pay/third"): "apart"},
            "touched",
        ),
        (
            f"{BOTH}; Pay/third is deprecated and gives old figures.",
            (),
            dict.fromkeys([pair for pair in OPEN if "Leave/a" not in pair], "apart"),
            "resolved",
        ),
    ],
)
def test_planted_rule_moves_exactly_its_cells(tools, text, clauses, moved, state):
    assert cells() == (OPEN, {"Pay/new": "no_rule", "Leave/a": "no_rule"})
    publish(text, clauses)
    assert cells() == (NAMED | moved, {"Pay/new": state, "Leave/a": "no_rule"})


def test_reading_is_made_with_the_version_and_not_before_it_is_published_counted(tools):
    version = publish(f"{BOTH}. There is Pay/third as well.", publish=False)
    reading = version.readings.get()
    assert (reading.number, reading.reader, reading.author, reading.corrections) == (1, core.READER, None, [])
    assert reading.apart == [sorted([tools[0].pk, tools[1].pk])]
    assert cells()[0] == OPEN


def test_correction_counts_at_once_and_is_kept_with_who_and_why(tools, user_with):
    erin = user_with("expert", username="erin")
    version = publish(f"{BOTH}. There is Pay/third as well.")
    before = definition_now()
    pair_correct(
        version=version,
        pair=[tools[2].pk, tools[0].pk],
        is_apart=True,
        reason="third  is our partner's",
        actor=erin,
    )
    assert cells()[0] == NAMED | {("Pay/new", "Pay/old"): "apart", ("Pay/new", "Pay/third"): "apart"}
    pair_correct(version=version, pair=[tools[0].pk, tools[1].pk], is_apart=False, reason="no", actor=erin)
    assert cells()[0] == NAMED | {("Pay/new", "Pay/third"): "apart"}
    reading = newest_readings([version]).get()
    assert (reading.number, reading.author) == (3, erin)
    assert [(one["apart"], one["reason"]) for one in reading.corrections] == [
        (True, "third is our partner's"),
        (False, "no"),
    ]
    told = AuditEntry.objects.filter(action="rule.pair_corrected").order_by("pk").first()
    assert told.actor == erin and told.detail["pair"] == ["Pay/new", "Pay/third"]
    pair_correct(version=version, pair=[tools[0].pk, tools[1].pk], is_apart=None, reason="yes", actor=erin)
    assert cells()[0][("Pay/new", "Pay/old")] == "apart"
    assert definition_now().hash != before.hash
    assert sorting_now().by.group([tools[2].pk]) == "covered"


@pytest.mark.parametrize(
    ("pair", "reason", "code"),
    [((0, 1), " ", "reason_missing"), ((0, 3), "why", "bad_tool"), ((0, 0), "why", "bad_tool")],
)
def test_correction_needs_a_reason_and_two_tools_of_the_set(tools, pair, reason, code):
    version = publish(f"{BOTH}. There is Pay/third as well.")
    ids = [tools[place].pk for place in pair]
    with pytest.raises(TraceError) as refused:
        pair_correct(version=version, pair=ids, is_apart=False, reason=reason, actor=None)
    assert refused.value.code == code and version.readings.count() == 1


def test_correction_stays_while_the_rule_says_the_same_and_goes_with_the_words(tools):
    text = f"{BOTH}. There is Pay/third as well."
    version = publish(text)
    pair = [tools[0].pk, tools[2].pk]
    pair_correct(version=version, pair=pair, is_apart=True, reason="why", actor=None)
    tests = [{"query": "march slip", "tools": [NAMES[0]]}]
    same = publish(text, tests=tests, rule=version.rule)
    assert same.number == 2 and newest_readings([same]).get().corrections[0]["pair"] == sorted(pair)
    other = publish(text.replace("2024", "2025"), rule=version.rule)
    assert newest_readings([other]).get().corrections == []
    # rolled back: the words are those that were corrected
    again = publish(text, rule=version.rule)
    assert (again.number, newest_readings([again]).get().corrections[0]["reason"]) == (4, "why")


def test_versions_that_sql_wrote_and_those_an_earlier_edition_read_are_read(tools, monkeypatch):
    version = publish(f"{BOTH}. There is Pay/third as well.")
    pair_correct(version=version, pair=[tools[0].pk, tools[2].pk], is_apart=True, reason="why", actor=None)
    copied = RuleVersion.objects.get(pk=version.pk)
    copied.pk, copied.number = None, 2
    copied.save(force_insert=True)
    read_versions(apps)  # as after every migration
    assert newest_readings([copied]).get().corrections[0]["reason"] == "why"
    assert read_missing() == 0
    monkeypatch.setattr("rules.services.READER", core.READER + 1)
    assert read_missing() == 2
    newest = newest_readings([version]).get()
    assert (newest.number, newest.reader, len(newest.corrections)) == (3, core.READER + 1, 1)


def test_reading_is_frozen(tools):
    publish(f"{BOTH}. There is Pay/third as well.")
    for sql in ("UPDATE rules_rulereading SET apart = '[]'", "DELETE FROM rules_rulereading"):
        with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
            connection.cursor().execute(sql)


def test_saving_many_rules_reads_them_in_the_same_number_of_queries(tools, django_assert_max_num_queries):
    def drafts(count, prefix):
        rules = [Rule.objects.create(domain_id="hr", code=f"{prefix}{n}") for n in range(count)]
        content = make_content(target=NAMES[0], confusables=NAMES[1:], text=f"{BOTH}. There is Pay/third.")
        return [(rule, content, "", None) for rule in rules]

    few, many = drafts(1, "FEW"), drafts(20, "MANY")
    with CaptureQueriesContext(connection) as asked:
        versions_save(few)
    with django_assert_max_num_queries(len(asked)):
        versions_save(many)
    assert RuleReading.objects.count() == 21


def page_of(client, version):
    return " ".join(client.get(f"/rules/{version.rule_id}/").content.decode().split())


def test_rule_page_says_which_pairs_are_apart_by_which_words_and_what_to_add(client_as, tools):
    version = publish(f"{BOTH}. There is Pay/third as well.")
    page = page_of(client_as("reviewer"), version)
    assert "1 of 3 pairs told apart, 2 only named" in page
    assert "<li>Payslips from 2024 on are read with Pay/new</li>" in page
    assert "Say when Pay/third is right." in page and "Correct…" not in page


def test_expert_corrects_a_pair_on_the_rule_page(client_as, tools):
    version = publish(f"{BOTH}. There is Pay/third as well.")
    client = client_as("expert")
    address = f"/rules/{version.rule_id}/versions/1/pair/"
    given = {"pair": f"{tools[0].pk}-{tools[2].pk}", "apart": "yes", "reason": "third is our partner's"}
    assert client.post(address, given).status_code == 302
    page = page_of(client, version)
    assert "2 of 3 pairs told apart, 1 only named, 1 by a person's word" in page
    assert "third is our partner&#x27;s" in page and "As it was read" in page
    assert client.post(address, {**given, "reason": ""}).status_code == 400
    assert client_as("reviewer").post(address, given).status_code == 403


def test_rule_page_of_a_version_that_was_never_read_says_so(client_as, tools):
    version = publish(f"{BOTH}. There is Pay/third as well.", publish=False)
    copied = RuleVersion.objects.get(pk=version.pk)
    copied.pk, copied.number = None, 2
    copied.save(force_insert=True)
    assert "is not read yet" in page_of(client_as("expert"), copied)


def test_cluster_page_and_list_tell_named_only_from_told_apart(client_as, tools):
    version = publish(f"{BOTH}. There is Pay/third as well.")
    row = coverage("hr")[0].clusters[0]
    client = client_as("product_manager")
    page = client.get(f"/clusters/{row.id}/").content.decode()
    assert "1 of 3 pairs are told apart, 2 only named" in page and page.count("named only") == 2
    count_rollups()
    assert "2 only named" in client.get("/clusters/?domain=hr").content.decode()
    told = client.get("/coverage/hr.csv").content.decode()
    assert "pairs_named_only" in told
    answer = client.get(f"/clusters/map/hr/tools.json?ids={row.id}").json()[str(row.id)]["edges"]
    assert sorted(state for _, _, state in answer) == [1, 2, 2]
    fragment = client.get(f"/coverage/rules/{version.rule_id}/").content.decode()
    assert "1 of 3 pairs told apart by this rule, 2 only named" in fragment
