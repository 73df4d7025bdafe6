"""Batch pages: the plan before it is made, how far it is, who read what; and how each sample was approved."""

import pytest
from django.urls import reverse

from synthesis.batches import services as batches_services
from synthesis.batches.services import batch_create
from synthesis.generate.imports import samples_import
from synthesis.models import Batch, Sample
from synthesis.review import services as review_services
from tests.synthesis.rows import make_benchmark_query, make_book, make_sample, publish
from trace_site.lib.files import write_jsonl

pytestmark = pytest.mark.django_db


@pytest.fixture
def version():
    version = make_book()
    for _ in range(30):
        make_sample(version)
    return version


@pytest.fixture
def batch(version, user_with):
    return batch_create(rule=version.rule.code, actor=user_with("reviewer", username="ada"), seed=1).batch


def drawn(batch):
    return list(batch.items.exclude(state="held").order_by("pk").values_list("sample", flat=True))


def asked(version, **options):
    return {"rule": version.rule.code, "style": "", "level": "II", "aql": "1.0", "seed": "", **options}


def test_the_preview_follows_the_form(client_as, version):
    client = client_as("reviewer")
    page = client.get(reverse("synthesis:batch_preview"), asked(version))
    plan = page.context["plan"]
    assert (plan.lot_size, plan.letter, plan.size, plan.accept) == (30, "E", 13, 0)
    text = " ".join(page.content.decode().split())
    assert "<b>13</b> of 30 are read" in text and "How often a lot is accepted" in text
    plan = client.get(reverse("synthesis:batch_preview"), asked(version, aql="10.0")).context["plan"]
    assert (plan.size, plan.accept) == (8, 2)
    assert "Choose a published rule" in client.get(reverse("synthesis:batch_preview")).content.decode()
    none = client.get(reverse("synthesis:batch_preview"), asked(version, style="implicit"))
    assert "No sample of it waits" in none.content.decode()


def test_two_failed_batches_of_the_last_five_are_told_before_the_next(client_as, version, user_with):
    ada = user_with("reviewer", username="ada")
    client = client_as("reviewer")
    for told in (False, False, True):
        for _ in range(30):
            make_sample(version)
        text = client.get(reverse("synthesis:batch_preview"), asked(version)).content.decode()
        assert ("The standard asks for tightened inspection" in text) is told
        batch = batch_create(rule=version.rule.code, actor=ada).batch
        review_services.reject(sample=drawn(batch)[0], reviewer=ada, reason="leak")


def test_a_batch_made_on_the_page_opens_it(client_as, version):
    client = client_as("reviewer")
    answer = client.post(reverse("synthesis:batch_create"), asked(version, seed="4"))
    batch = Batch.objects.get()
    assert answer.url == reverse("synthesis:batch", args=[batch.pk])
    page = client.get(answer.url)
    assert f"/synthesis/review/?batch={batch.pk}" in page.content.decode()
    assert (batch.seed, batch.created_by.username) == (4, "reviewer")


def test_what_stands_in_the_way_is_told_beside_the_form(client_as, version):
    client = client_as("reviewer")
    answer = client.post(reverse("synthesis:batch_create"), asked(version, rule="NOT_THERE"))
    assert answer.status_code == 422
    assert "no rule &#x27;NOT_THERE&#x27; is published" in answer.content.decode()


def test_the_page_says_who_read_what_and_how_it_ended(client_as, batch):
    ada = batch.created_by
    for pk in drawn(batch)[:3]:
        review_services.approve(sample=pk, reviewer=ada)
    client = client_as("expert")  # the rule's author is told of a failed batch, and may look
    text = client.get(reverse("synthesis:batch", args=[batch.pk])).content.decode()
    assert '<b>3</b> <span class="of">of 13</span>' in text
    assert "Read this batch" not in text
    review_services.reject(sample=drawn(batch)[3], reviewer=ada, reason="leak")
    text = client.get(reverse("synthesis:batch", args=[batch.pk])).content.decode()
    assert "failed: all of it is read" in text and "leak" in text and "1 defect was found" in text


def test_what_was_left_out_is_named_on_the_page(client_as, version, user_with):
    sample = Sample.objects.first()
    make_benchmark_query(sample.query)
    made = batch_create(rule=version.rule.code, actor=user_with("reviewer", username="ada"))
    text = client_as("reviewer").get(reverse("synthesis:batch", args=[made.batch.pk])).content.decode()
    assert "1 sample left out" in text and "near duplicate" in text


def test_withdrawing_is_a_button_until_something_is_read(client_as, batch):
    client = client_as("reviewer")
    page = reverse("synthesis:batch", args=[batch.pk])
    assert "Withdraw it" in client.get(page).content.decode()
    review_services.approve(sample=drawn(batch)[0], reviewer=batch.created_by)
    assert "Withdraw it" not in client.get(page).content.decode()
    client.post(reverse("synthesis:batch_withdraw", args=[batch.pk]))
    batch.refresh_from_db()
    assert batch.state == "sampling"
    assert "read already" in client.get(page).content.decode()


def test_the_list_needs_the_same_queries_for_one_batch_and_for_twenty(
    client_as, version, user_with, django_assert_num_queries
):
    client, ada = client_as("reviewer"), user_with("reviewer", username="ada")
    batches_services.batch_withdraw(batch=batch_create(rule=version.rule.code, actor=ada).batch.pk, actor=ada)
    with django_assert_num_queries(6):
        client.get(reverse("synthesis:batches"))
    for _ in range(19):
        batches_services.batch_withdraw(
            batch=batch_create(rule=version.rule.code, actor=ada).batch.pk, actor=ada
        )
    with django_assert_num_queries(6):
        page = client.get(reverse("synthesis:batches"))
    assert len(page.context["rows"]) == 20


def test_a_batch_whose_rule_is_published_anew_is_withdrawn_on_its_page(client_as, batch):
    publish(2)
    batches_services.sweep()
    text = client_as("reviewer").get(reverse("synthesis:batch", args=[batch.pk])).content.decode()
    assert "It ended before it was decided" in text


def test_every_sample_says_how_it_was_approved(client_as, batch):
    for pk in drawn(batch):
        review_services.approve(sample=pk, reviewer=batch.created_by)
    client = client_as("reviewer")
    unread = Sample.objects.filter(approved_how="batch")[0]
    text = client.get(reverse("synthesis:sample", args=[unread.pk])).content.decode()
    assert "accepted with its batch, not read" in text
    assert f"batch {batch.pk}: 13 of 30 read, 0 defects, AQL 1.0, c 0" in text
    assert client.get(reverse("synthesis:samples"), {"approved_how": "batch"}).context["found"].total == 17
    listed = client.get("/api/v1/synthesis/samples", {"approved_how": "batch"}).json()
    assert {row["approved_how"] for row in listed["results"]} == {"batch"}
    assert client.get(f"/api/v1/synthesis/samples/{unread.pk}").json()["sample"]["approved_how"] == "batch"


def test_an_import_with_approval_says_so(client_as, tmp_path):
    make_book()
    path = tmp_path / "logs.jsonl"
    write_jsonl(path, [{"query": "show me the pay document of May", "tools": ["PayOne/GetPayslip"]}])
    samples_import(path=path, approve=True)
    sample = Sample.objects.get()
    assert sample.approved_how == "import"
    text = client_as("reviewer").get(reverse("synthesis:sample", args=[sample.pk])).content.decode()
    assert "imported as approved" in text


def test_the_form_asks_for_a_rule_before_it_counts(client_as):
    client = client_as("admin")
    page = client.get(reverse("synthesis:batch_create")).content.decode()
    assert "Choose a rule." in page and "Counting." not in page
    assert "Counting." in client.get(reverse("synthesis:batch_create"), {"rule": "PAY"}).content.decode()
