"""Snapshots: reproducible, frozen, free of benchmark queries and of what has become stale."""

import json

import pytest
from django.db import IntegrityError, transaction

from catalog.models import Tool
from synthesis.core.snapshot import DERIVED_FILES, FILES, Entry, compose
from synthesis.datasets.build import preview, snapshot_start
from synthesis.datasets.files import catalog_now, snapshot_dir
from synthesis.models import Sample, Snapshot
from tests.synthesis.rows import make_benchmark_query, make_book, make_sample, publish, run_job
from trace_site import jobs
from trace_site.lib.files import read_jsonl, sha256_file


def build(**options):
    return snapshot_start(**{"strategy": "append", "per_rule": 2, "seed": 1, "wake": False, **options})


def approved(version=None, **overrides):
    return make_sample(version, human="approved", **overrides)


@pytest.mark.django_db
def test_a_snapshot_is_the_folder_that_training_reads():
    version = make_book()
    for _ in range(3):
        approved(version)
    approved(None)
    make_sample(version)
    result = run_job(build())
    assert result["counts"]["rule"] == 2
    assert result["counts"]["rrb"] == 1
    folder = snapshot_dir(Snapshot.objects.get(pk=result["id"]))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["hash"] == result["hash"]
    assert set(manifest["files"]) == {*FILES, *DERIVED_FILES}
    for name, entry in manifest["files"].items():
        assert sha256_file(folder / name) == entry["sha256"]
        assert name in DERIVED_FILES or len(list(read_jsonl(folder / name))) == entry["rows"]
    samples = [row for _, row in read_jsonl(folder / "samples.jsonl")]
    assert {row["rule"] for row in samples} == {"PAYSLIP_PERIOD", None}
    assert list(samples[0]) == [
        "id", "key", "branch", "tier", "style", "domain", "query", "trace", "answer", "permissions", "writer", "rule",
    ]  # fmt: skip
    tools = [row["name"] for _, row in read_jsonl(folder / "tools.jsonl")]
    assert tools == sorted(tools)
    assert manifest["rules"] == [{"domain": "hr", "code": "PAYSLIP_PERIOD", "version": 1, "hash": "rule-1"}]


@pytest.mark.django_db
def test_rules_carry_their_clauses_and_the_ledger_their_tokens():
    make_book()
    publish(2, text="Never call PayOne/GetPayslip.")
    newest = publish(3)
    approved(newest)
    approved(newest, answer=["PayClassic/GetPayslip"])
    approved(None)
    snapshot = Snapshot.objects.get(pk=run_job(build())["id"])
    folder = snapshot_dir(snapshot)
    ((_, rule),) = read_jsonl(folder / "rules.jsonl")
    assert rule["version"] == 3 and rule["statements"] == [
        {
            "token": "<<hr/PAYSLIP_PERIOD#1>>",
            "text": "Payslips of 2024 or later are read with PayNova/GetPayslip",
            "stance": "use",
            "tools": ["PayNova/GetPayslip"],
        },
        {
            "token": "<<hr/PAYSLIP_PERIOD#2>>",
            "text": "older ones with PayOne/GetPayslip.",
            "stance": "use",
            "tools": ["PayOne/GetPayslip"],
        },
    ]
    tokens = [row for _, row in read_jsonl(folder / "tokens.jsonl") if row["family"] == "clause"]
    assert [(row["slot"], row["state"]) for row in tokens] == [(0, "active"), (1, "active"), (2, "retired")]
    counts = snapshot.counts
    assert (counts["clauses"], counts["with_clause"], counts["without_clause"]) == (2, 1, 1)
    card = (folder / "README.md").read_text()
    assert "1 rule samples have a clause of their rule that leads to their answer; 1 have none" in card


@pytest.mark.django_db
def test_changed_rule_leaves_the_catalog_hash_as_it_is():
    approved(make_book())
    before = Snapshot.objects.get(pk=run_job(build())["id"])
    approved(publish(2, text="Never call PayOne/GetPayslip."))
    after = Snapshot.objects.get(pk=run_job(build())["id"])
    files = [one.manifest["files"]["tokens.jsonl"]["sha256"] for one in (before, after)]
    assert files[0] != files[1] and before.catalog_hash == after.catalog_hash == catalog_now()


@pytest.mark.django_db
def test_the_same_content_is_the_same_snapshot():
    version = make_book()
    for _ in range(4):
        approved(version)
    first = run_job(build())
    assert run_job(build())["id"] == first["id"]
    assert run_job(build(seed=2, per_rule=1))["hash"] != first["hash"]
    assert Snapshot.objects.count() == 2


@pytest.mark.django_db
def test_a_snapshot_refuses_change():
    approved(make_book())
    snapshot = Snapshot.objects.get(pk=run_job(build())["id"])
    for change in (
        lambda: Snapshot.objects.update(per_rule=5),
        snapshot.members.all().delete,
        lambda: Snapshot.objects.filter(pk=snapshot.pk)._raw_delete("default"),
    ):
        with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
            change()


@pytest.mark.django_db
def test_what_repeats_a_benchmark_query_is_left_out_and_listed(client_as):
    version = make_book()
    bad = approved(version, query="where is my pay document from May 2021 please")
    approved(version)
    make_benchmark_query("Where is my pay document from May 2021, please?")
    result = run_job(build())
    assert (result["contaminated"], result["counts"]["rule"]) == (1, 1)
    listed = Snapshot.objects.get(pk=result["id"]).manifest["contaminated"]
    assert [(row["sample"], row["collection"], row["kind"]) for row in listed] == [(bad.pk, "prb", "exact")]
    job = jobs.run(build(strict=True).pk)
    assert (job.state, job.error_code) == ("failed", "contaminated")
    options = {"strategy": "append", "per_rule": 12, "branches": "rule", "seed": 0}
    page = client_as("admin").get("/synthesis/snapshots/preview/", options).content.decode()
    assert "1 repeat a benchmark or few-shot query" in page and f"/synthesis/samples/{bad.pk}/" in page


@pytest.mark.django_db
def test_samples_of_an_old_rule_version_or_a_changed_tool_stay_out():
    version = make_book()
    approved(version)
    approved(version, made_from={"tools": {"PayOne/GetPayslip": "other"}})
    assert run_job(build())["counts"]["stale"] == {"tool changed": 1}
    publish(2)
    approved(None)
    result = run_job(build())
    assert result["counts"]["stale"] == {"rule changed": 2}
    assert (result["counts"]["rule"], result["counts"]["rrb"]) == (0, 1)
    Tool.objects.filter(name="PayOne/GetPayslip").update(status="retired")
    assert jobs.run(build().pk).error_code == "empty_snapshot"


@pytest.mark.django_db
def test_the_preview_counts_what_the_build_makes():
    version = make_book()
    for _ in range(3):
        approved(version)
    approved(None)
    seen = preview(strategy="replace", per_rule=2, branches=["rrb", "rule"])
    assert (seen["samples"], seen["rule"], seen["rrb"], seen["removed"]) == (2, 2, 0, 1)
    counts = run_job(build(strategy="replace"))["counts"]
    assert (counts["samples"], counts["removed"]) == (2, 1)
    assert Sample.objects.count() == 4


def entries():
    rule = [
        Entry(
            n,
            f"r{n}",
            "rule",
            ("explicit", "implicit", "exception")[n % 3],
            f"hr/R{n % 2}",
            ("A/x",),
            frozenset({"A/x", "A/y"}),
        )
        for n in range(24)
    ]
    rrb = [Entry(100 + n, f"q{n}", "rrb", answer=("A/y" if n < 10 else "B/z",)) for n in range(30)]
    return rule + rrb


def test_replace_swaps_as_many_out_of_the_rules_pools():
    made = compose(entries(), strategy="replace", per_rule=3, rrb=None, seed=1)
    assert [len(made.removed), sum(entry.branch == "rule" for entry in made.chosen)] == [6, 6]
    assert all(entry.answer == ("A/y",) for entry in made.removed)
    assert len(made.chosen) == 30


def test_per_rule_takes_every_style_in_turn():
    made = compose(entries(), strategy="append", per_rule=3, rrb=5, seed=1)
    for rule in ("hr/R0", "hr/R1"):
        styles = sorted(entry.style for entry in made.chosen if entry.rule == rule)
        assert styles == ["exception", "explicit", "implicit"]
    assert sum(entry.branch == "rrb" for entry in made.chosen) == 5


def test_the_choice_depends_on_the_seed_not_on_the_order_of_rows():
    ids = [entry.id for entry in compose(entries(), strategy="append", per_rule=3, rrb=5, seed=1).chosen]
    again = compose(reversed(entries()), strategy="append", per_rule=3, rrb=5, seed=1).chosen
    other = compose(entries(), strategy="append", per_rule=3, rrb=5, seed=2).chosen
    assert [entry.id for entry in again] == ids
    assert [entry.id for entry in other] != ids
