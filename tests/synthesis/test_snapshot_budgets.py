"""Budgets of domains: at most so many, or a share; drawn by seed, every rule in turn, and what stays out is said."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.core.budgets import Budget, read_budgets, within
from synthesis.core.snapshot import Entry, compose
from synthesis.datasets.build import preview, snapshot_start
from synthesis.models import Snapshot
from tests.synthesis.rows import make_book, make_sample, run_job
from tests.synthesis.test_snapshots import build
from trace_site.lib.errors import TraceError

DOMAINS = ("hr", "finance", "sales")
limits = st.one_of(st.none(), st.integers(0, 12))
budgets_drawn = st.dictionaries(
    st.sampled_from(DOMAINS),
    st.builds(Budget, rule=limits, rrb=limits, share=st.one_of(st.none(), st.integers(0, 100))),
)


def entries(count: int = 60) -> list[Entry]:
    styles = ("explicit", "implicit", "exception")
    rule = [
        Entry(n, f"r{n}", "rule", styles[n % 3], f"{DOMAINS[n % 2]}/R{n % 6}", domain=DOMAINS[n % 2])
        for n in range(count)
    ]
    rrb = [Entry(1000 + n, f"q{n}", "rrb", domain=DOMAINS[n % 3]) for n in range(count)]
    return rule + rrb


def made(budgets: dict[str, Budget], **options):
    chosen = {"strategy": "append", "per_rule": 12, "rrb": None, "seed": 1, **options}
    return compose(entries(), budgets=budgets, **chosen)


def count_of(found, branch: str) -> Counter[str]:
    return Counter(entry.domain for entry in found.chosen if entry.branch == branch)


def test_a_domain_gets_at_most_what_its_budget_says():
    found = made({"hr": Budget(rule=7, rrb=5)})
    assert count_of(found, "rule") == {"hr": 7, "finance": 30}
    assert count_of(found, "rrb") == {"hr": 5, "finance": 20, "sales": 20}
    assert found.left_out["over_budget", "hr", "rule"] == 23
    assert found.left_out["over_budget", "hr", "rrb"] == 15


def test_a_budget_leaves_every_rule_about_as_many():
    found = made({"hr": Budget(rule=7)})
    rules = Counter(entry.rule for entry in found.chosen if entry.domain == "hr" and entry.rule)
    assert len(rules) == 3 and set(rules.values()) <= {2, 3}


def test_no_style_is_the_one_that_always_falls_away():
    many = [
        Entry(n, f"r{n}", "rule", ("explicit", "implicit", "exception")[n % 3], f"hr/R{n // 9}", domain="hr")
        for n in range(9 * 60)
    ]
    found = compose(many, strategy="append", per_rule=2, rrb=None, seed=1)
    styles = Counter(entry.style for entry in found.chosen)
    assert styles.total() == 120 and min(styles.values()) > 25


def test_a_share_is_of_what_is_taken_in_the_end():
    found = made({"hr": Budget(share=20)})
    rrb = count_of(found, "rrb")
    assert rrb["hr"] == 10 and rrb["finance"] == rrb["sales"] == 20  # 10 of 50
    rule = count_of(found, "rule")
    assert rule["hr"] <= 0.2 * rule.total() < rule["hr"] + 1


def test_the_number_of_rrb_samples_is_filled_from_the_domains_that_have_room():
    found = made({"hr": Budget(share=10)}, rrb=30)
    assert count_of(found, "rrb").total() == 30 and count_of(found, "rrb")["hr"] <= 3
    assert found.left_out["over_rrb", "finance", "rrb"] + found.left_out["over_rrb", "sales", "rrb"] > 0


@settings(max_examples=200)
@given(
    budgets=budgets_drawn, seed=st.integers(0, 50), rrb=limits, per_rule=st.integers(0, 12), data=st.data()
)
def test_budgets_hold_every_sample_is_accounted_for_and_the_order_of_rows_does_not_matter(
    budgets, seed, rrb, per_rule, data
):
    rows = entries(30)
    options = {"strategy": "append", "per_rule": per_rule, "rrb": rrb, "seed": seed, "budgets": budgets}
    found = compose(rows, **options)
    shuffled = rows[:]
    random.Random(data.draw(st.integers(0, 9))).shuffle(shuffled)
    assert compose(shuffled, **options).chosen == found.chosen
    assert len(found.chosen) + found.left_out.total() == len(rows)
    for branch in ("rule", "rrb"):
        counts = count_of(found, branch)
        for domain, budget in budgets.items():
            most = getattr(budget, branch)
            assert most is None or counts[domain] <= most
            assert budget.share is None or counts[domain] * 100 <= budget.share * counts.total()
    assert rrb is None or count_of(found, "rrb").total() <= rrb


def test_shares_that_cannot_be_met_leave_nothing():
    kept, over, _ = within(entries()[60:], dict.fromkeys(DOMAINS, Budget(share=20)), "rrb")
    assert kept == [] and len(over) == 60


def test_budgets_are_read_from_a_command_line():
    assert read_budgets(["hr:rule=100,rrb=50", "finance:share=40"]) == {
        "hr": {"rule": 100, "rrb": 50},
        "finance": {"share": 40},
    }
    for text in ("hr", "hr:rule", "hr:rule=x", "hr:rule=-1", "hr:tools=3", ":rule=3"):
        with pytest.raises(ValueError, match=text):
            read_budgets([text])


@pytest.mark.django_db
@pytest.mark.parametrize("budget", [{"rule": -1}, {"share": 101}, {"tools": 3}, {"rrb": True}, {"rule": "5"}])
def test_a_budget_that_is_none_is_refused_by_name(budget):
    make_book()
    with pytest.raises(TraceError, match=r"budgets\.hr"):
        snapshot_start(strategy="append", per_rule=2, budgets={"hr": budget}, wake=False)


@pytest.mark.django_db
def test_the_preview_the_build_and_the_page_count_alike(client_as):
    version = make_book()
    for _ in range(5):
        make_sample(version, human="approved")
        make_sample(None, human="approved")
    make_sample(version, human="approved", made_from={"tools": {"PayOne/GetPayslip": "other"}})
    budgets = {"hr": {"rule": 3, "rrb": 2}}
    seen = preview(strategy="append", per_rule=4, branches=["rrb", "rule"], budgets=budgets)
    assert (seen["samples"], seen["rule"], seen["rrb"], seen["left"]) == (5, 3, 2, 6)
    assert seen["short"] == [{"domain": "hr", "code": "PAYSLIP_PERIOD", "has": 3}]
    left = {row["reason"]: row["count"] for row in seen["left_out"] if row["branch"] == "rule"}
    assert left == {"beyond_k": 1, "over_budget": 1, "stale": 1}
    manifest = Snapshot.objects.get(pk=run_job(build(per_rule=4, budgets=budgets))["id"]).manifest
    assert manifest["left_out"] == seen["left_out"] and manifest["budgets"] == budgets
    assert manifest["shortfall"] == {"hr/PAYSLIP_PERIOD": 3}
    form = {"strategy": "append", "per_rule": 4, "branches": ["rrb", "rule"], "seed": 0}
    page = client_as("expert").get("/synthesis/snapshots/preview/", {**form, "rule_of_hr": 3, "rrb_of_hr": 2})
    assert page.context["preview"] == seen
    text = page.content.decode()
    assert "1 of 1 rules have fewer than 4" in text and "over its domain&#x27;s budget" in text


@pytest.mark.django_db
def test_the_preview_asks_as_many_queries_for_many_samples_as_for_few(django_assert_max_num_queries):
    version = make_book()
    for _ in range(40):
        make_sample(version, human="approved")
    with django_assert_max_num_queries(13):
        preview(strategy="append", per_rule=12, branches=["rrb", "rule"])
