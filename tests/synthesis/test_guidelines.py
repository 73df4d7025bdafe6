"""Guidelines: every save is a version, nobody overwrites another's, and a decided sample becomes an example."""

import threading

import pytest
from django.db import DatabaseError, connection, transaction

from synthesis.models import Guideline
from synthesis.review import services as review_services
from synthesis.team.guidelines import applying_to, current, example_copy, guideline_save
from tests.factories import make_domain, make_rule, make_sample, make_tool
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
EXAMPLE = {"verdict": "approve", "query": "my slip?", "trace": "", "answer": ["New/GetSlip"], "why": "plain"}


@pytest.fixture
def alma(user_with):
    make_domain("hr"), make_domain("finance")
    return user_with("admin", username="alma")


def save(author, domain="", style="", text="Read it.", base=0, **more) -> Guideline:
    return guideline_save(domain=domain, style=style, text=text, author=author, base=base, **more)


def test_every_save_is_a_new_version_and_an_equal_one_is_none(alma):
    first = save(alma)
    second = save(alma, text="Read it twice.", base=1)
    assert (first.number, second.number) == (1, 2)
    assert save(alma, text="Read it twice.\r\n", base=2) == second and Guideline.objects.count() == 2
    assert [row.number for row in current()] == [2]


def test_an_edit_of_an_old_version_is_refused_with_who_was_faster(alma, user_with):
    save(alma)
    save(user_with("admin", username="bea"), text="other", base=1)
    with pytest.raises(TraceError, match="bea saved version 2 meanwhile") as error:
        save(alma, text="mine", base=1)
    assert error.value.code == "edited_meanwhile" and error.value.extra["current"] == 2


@pytest.mark.django_db(transaction=True)
def test_two_saves_at_once_make_one_version(alma):
    results = []

    def work(text):
        try:
            results.append(save(alma, text=text).text)
        except TraceError as error:
            results.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(text,)) for text in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "edited_meanwhile" in results and Guideline.objects.count() == 1


def test_the_most_specific_comes_first_and_others_do_not_show(alma):
    for domain, style in (("", ""), ("hr", ""), ("", "exception"), ("hr", "exception"), ("finance", "")):
        save(alma, domain, style, text=f"{domain}/{style}")
        save(alma, domain, style, text=f"{domain}/{style} v2", base=1)
    found = [row.text for row in applying_to("hr", "exception")]
    assert found == ["hr/exception v2", "hr/ v2", "/exception v2", "/ v2"]
    assert [row.text for row in applying_to("finance", "explicit")] == ["finance/ v2", "/ v2"]
    assert len(current()) == 5


def test_the_pane_costs_one_query(alma, django_assert_num_queries):
    for style in ("", "explicit", "implicit"):
        save(alma, "hr", style)
    with django_assert_num_queries(1):
        assert len(applying_to("hr", "explicit")) == 2


def test_a_decided_sample_becomes_an_example_of_its_domain_and_style_once(alma):
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools)
    good, bad, waiting = (make_sample(rule=rule, tools=tools) for _ in range(3))
    review_services.approve(sample=good, reviewer=alma)
    review_services.reject(sample=bad, reviewer=alma, reason="unnatural", note="too stiff")
    for sample in (good, bad):
        sample.refresh_from_db()
        row = example_copy(sample=sample, actor=alma)
    assert (row.domain_id, row.style, row.number) == ("hr", "explicit", 2)
    assert [example["verdict"] for example in row.examples] == ["approve", "reject"]
    assert row.examples[1] == {
        "verdict": "reject",
        "query": bad.query,
        "trace": bad.trace,
        "answer": bad.answer,
        "why": "nobody would type this: too stiff",
        "sample": bad.pk,
    }
    assert example_copy(sample=good, actor=alma) == row
    with pytest.raises(TraceError, match="not decided"):
        example_copy(sample=waiting, actor=alma)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"text": " "}, "text"),
        ({"text": "x" * 20_001}, "text"),
        ({"style": "violation"}, "style"),
        ({"domain": "nowhere"}, "domain"),
        ({"examples": [{**EXAMPLE, "verdict": "maybe"}]}, "example 1"),
        ({"examples": [EXAMPLE, {**EXAMPLE, "query": ""}]}, "example 2"),
        ({"examples": [{**EXAMPLE, "why": "x" * 501}]}, "example 1"),
        ({"examples": [EXAMPLE] * 31}, "examples"),
    ],
)
def test_what_is_no_guideline_is_refused(alma, given, where):
    with pytest.raises(TraceError) as error:
        save(alma, **given)
    assert error.value.where == where and not Guideline.objects.exists()


def test_versions_stay_as_they_are_and_are_audited(alma):
    save(alma, examples=[EXAMPLE])
    for statement in ("UPDATE synthesis_guideline SET text = 'y'", "DELETE FROM synthesis_guideline"):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    assert AuditEntry.objects.filter(action="guideline.saved").count() == 1
    assert AuditChange.objects.filter(table_name="synthesis_guideline").count() == 1
