"""What a changed tool made stale is not counted as ready anywhere; it is counted as stale, with a link to it."""

import pytest
from django.urls import reverse

from catalog.models import Tool
from rules.models import Rule
from synthesis.generate.yields import rule_yields
from synthesis.models import Sample
from synthesis.samples.staleness import stale_filter
from tests.factories import make_sample
from tests.synthesis.test_incremental_runs import make_catalog, run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("every_draft_passes")]


@pytest.fixture
def changed() -> Rule:
    """Three rules with six ready samples each; then a tool of RULE_1 says something else."""
    make_catalog(3)
    run()
    tool = Tool.objects.get(name="LeaveRequest1V3/GetLeaveRequest1")
    tool.description = "Something else."
    tool.save()
    return Rule.objects.get(code="RULE_1")


def test_stale_samples_are_missing_in_the_yield_and_named_with_a_link(changed, client_as):
    client = client_as("expert")
    page = client.get("/synthesis/yield/?target=6")
    rows = [(row.code, row.ready, row.stale, row.missing) for row in page.context["page"].rows]
    assert rows == [("RULE_1", 0, 6, 6), ("RULE_0", 6, 0, 0), ("RULE_2", 6, 0, 0)]
    link = "/synthesis/samples/?rule=RULE_1&domain=hr&machine=ready&stale=content"
    assert link.replace("&", "&amp;") in page.content.decode()
    assert client.get(link).context["found"].total == 6
    fragment = client.get(reverse("synthesis:rule_samples", args=[changed.pk])).content.decode()
    assert link.replace("&", "&amp;") in fragment and "<b>0</b> of 12 ready samples" in fragment
    line = b"".join(client.get("/synthesis/yield/yield.csv?target=6").streaming_content).decode().splitlines()
    assert line[0].split(",")[4:7] == ['"ready"', '"stale"', '"missing"']
    assert line[1].split(",")[4:7] == ['"0"', '"6"', '"6"']
    answer = client.get("/api/v1/synthesis/yield?target=6").json()["results"][0]
    assert (answer["code"], answer["ready"], answer["stale"], answer["missing"]) == ("RULE_1", 0, 6, 6)


def test_samples_from_before_contents_were_kept_are_stale_by_the_tools_of_their_answer(changed):
    rule = Rule.objects.get(code="RULE_2")
    target = rule.published.target
    for mark in (target.content_hash[:12], "other"):
        made = {"tools": {target.name: mark}}
        make_sample(rule=rule, answer=[target.name], tools=[target, target], made_from=made)
    row = next(row for row in rule_yields() if row.code == "RULE_2")
    assert (row.ready, row.stale) == (7, 1)


def test_writing_them_again_makes_the_rule_ready_and_nothing_stale(changed):
    run()
    assert {(row.ready, row.stale) for row in rule_yields()} == {(6, 0)}
    assert stale_filter(Sample.objects.all(), "content").count() == 6  # the old rows, replaced in their slots


def test_the_book_takes_as_many_queries_for_few_rules_as_for_many(
    changed, django_assert_num_queries, django_assert_max_num_queries
):
    for code in ("RULE_1", ""):
        with django_assert_max_num_queries(13):
            rule_yields(code=code)
        with django_assert_num_queries(7):
            rule_yields(code=code)
