"""Nothing that repeats a benchmark or few-shot query is frozen, however it is spelt; what only looks alike stays."""

import pytest

from catalog.models import LabelledQuery
from synthesis.models import Snapshot
from tests.synthesis.rows import make_book, make_sample, run_job
from tests.synthesis.test_snapshots import build
from trace_site import jobs

pytestmark = pytest.mark.django_db
GUARDED = (
    "Show every approved overtime hour of the night shift team in Hamburg between January and March "
    "with cost centres"
)
PLANTED = {
    "exact": (GUARDED, "exact"),
    "case and punctuation": ("show every approved overtime hour of the night shift team, in HAMBURG: "
                             "between january and march with cost centres!", "exact"),
    "reordered": ("In Hamburg, between January and March, show the night shift team of every approved "
                  "overtime hour with cost centres", "near"),
    "one word changed": (GUARDED.replace("Hamburg", "Bremen"), "near"),
    "politeness": (f"Please, could you {GUARDED} thanks", "near"),
}  # fmt: skip
CLEAN = (
    "Show every rejected travel claim of the night shift team in Hamburg between April and June with receipts",
    "List the cost centres of the Hamburg office",
    "overtime hour",
)


def guard(use: str, text: str = GUARDED, collection: str = "prb-hr") -> None:
    LabelledQuery.objects.create(collection=collection, use=use, text=text, text_key=text[:60], tools=[])


@pytest.mark.parametrize("use", ["benchmark", "few_shot"])
@pytest.mark.parametrize("how", PLANTED)
def test_a_repeated_query_is_kept_out_and_listed_with_both_texts(how, use):
    version = make_book()
    guard(use)
    text, kind = PLANTED[how]
    bad = make_sample(version, human="approved", query=text)
    kept = [make_sample(version, human="approved", query=query) for query in CLEAN]
    result = run_job(build(per_rule=9))
    snapshot = Snapshot.objects.get(pk=result["id"])
    (row,) = snapshot.manifest["contaminated"]
    assert (row["sample"], row["text"], row["query"]) == (bad.pk, text, GUARDED)
    assert (row["use"], row["collection"], row["kind"]) == (use, "prb-hr", kind)
    assert 0.85 <= row["similarity"] <= 1
    members = snapshot.members.order_by("position").values_list("sample", flat=True)
    assert list(members) == [sample.pk for sample in kept]
    assert {"reason": use, "domain": "hr", "branch": "rule", "count": 1} in snapshot.manifest["left_out"]


def test_the_snapshot_page_lists_both_texts_the_kind_and_the_similarity(client_as):
    version = make_book()
    guard("few_shot", collection="tone")
    bad = make_sample(version, human="approved", query=PLANTED["one word changed"][0])
    make_sample(version, human="approved")
    pk = run_job(build())["id"]
    page = client_as("reviewer").get(f"/synthesis/snapshots/{pk}/").content.decode()
    assert bad.query in page and GUARDED in page and "tone" in page
    assert "1 kept out for repeating a benchmark or few-shot query" in page
    assert "few shot" in page and "near" in page


@pytest.mark.parametrize("use", ["benchmark", "few_shot"])
def test_strict_refuses_the_build_and_names_the_first(use):
    guard(use)
    bad = make_sample(make_book(), human="approved", query=GUARDED.upper())
    job = jobs.run(build(strict=True).pk)
    assert (job.state, job.error_code) == ("failed", "contaminated")
    assert f"sample {bad.pk}" in job.error and not Snapshot.objects.exists()


def test_a_query_of_both_kinds_is_told_as_a_repeated_benchmark():
    version = make_book()
    guard("few_shot", GUARDED, "tone")
    guard("benchmark", GUARDED.replace("Hamburg", "Bremen"), "prb-hr")
    make_sample(version, human="approved", query=GUARDED)
    make_sample(version, human="approved")
    (row,) = Snapshot.objects.get(pk=run_job(build())["id"]).manifest["contaminated"]
    assert (row["use"], row["collection"], row["kind"]) == ("benchmark", "prb-hr", "near")


def test_a_query_that_comes_later_counts_at_the_next_build():
    version = make_book()
    make_sample(version, human="approved", query=GUARDED)
    make_sample(version, human="approved")
    assert run_job(build())["contaminated"] == 0
    guard("benchmark")
    assert run_job(build())["contaminated"] == 1


def test_imported_queries_are_guarded_against_nothing_of_their_own():
    version = make_book()
    guard("import")
    make_sample(version, human="approved", query=GUARDED)
    assert run_job(build())["contaminated"] == 0
