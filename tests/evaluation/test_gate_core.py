"""The gate's statistics agree with scipy and naive loops, and its verdicts err as rarely as it says."""

import json
import random
from collections import Counter
from math import log, sqrt

import numpy as np
import pytest

from evaluation.core import gate
from evaluation.core.gate import (
    CHAMPION,
    EMBEDDING,
    FAIL,
    MARGIN,
    PASS,
    ChangedRule,
    Gate,
    judge,
    known_weakness,
    overall,
    rules_row,
)
from evaluation.core.paired import ALPHA, CANNOT_TELL, Asked, Z, score_interval, smallest_shown

DIFFER = 0.2  # share of queries on which two equally good models differ
REGRESSIONS = (0.0, 0.03, 0.06, 0.12)
SIZES = (125, 2000)


def asked(ours, theirs, *, domains=None, groups=None, name="prb v1", metric="hit@1", queries=None):
    n = len(ours)
    return Asked(
        *("prb", name, "fast", metric, queries or list(range(n))),
        *(domains or ["hr"] * n, groups or [""] * n, list(map(float, ours)), list(map(float, theirs))),
    )


def drawn(generator, n, loss=0.0):
    """Scores of n queries: the candidate loses `loss` in expectation, and DIFFER of the queries differ."""
    draw = generator.random(n)
    lost, won = draw < (DIFFER + loss) / 2, draw > 1 - (DIFFER - loss) / 2
    return asked(won, lost)


def one(*args, **options):
    rows, _ = judge([asked(*args, **options)], CHAMPION, flips=999)
    return rows[0]


# The interval


def naive_interval(won, lost, n):
    """Tango's: the differences that a score test does not reject, the likeliest share of lost queries by search."""
    optimize = pytest.importorskip("scipy.optimize")

    def score(at):
        def against(q):
            cells = ((won, q + at), (lost, q), (n - won - lost, 1 - 2 * q - at))
            return -sum(count * log(max(share, 1e-300)) for count, share in cells if count)

        bounds = (max(0.0, -at), (1 - at) / 2)
        q = optimize.minimize_scalar(against, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        return (won - lost - n * at) / sqrt(n * (2 * q + at - at * at))

    middle = (won - lost) / n
    low = optimize.brentq(lambda at: score(at) - Z, -0.999, middle - 1e-9)
    high = optimize.brentq(lambda at: score(at) + Z, middle + 1e-9, 0.999)
    return low, high


@pytest.mark.parametrize(
    ("won", "lost", "n"), [(9, 4, 60), (150, 86, 1600), (0, 3, 40), (7, 0, 50), (1, 1, 30), (12, 40, 125)]
)
def test_the_interval_is_that_of_the_score_test_found_by_search(won, lost, n):
    low, high = score_interval(*np.array([[won], [lost], [n]], float))
    assert (low[0], high[0]) == pytest.approx(naive_interval(won, lost, n), abs=2e-4)


def test_equal_answers_leave_room_for_a_loss_that_shrinks_with_n():
    z = Z**2
    for n in (10, 125, 2000):
        row = one([1] * n, [1] * n)
        assert (row.low, row.high) == pytest.approx((-z / (n + z), z / (n + z)), abs=1e-6)
    assert one([1] * 10, [1] * 10).verdict == CANNOT_TELL and one([1] * 2000, [1] * 2000).verdict == PASS


def test_turning_the_sides_turns_the_interval():
    ours, theirs = [1] * 30 + [0] * 20, [0] * 10 + [1] * 40
    a, b = one(ours, theirs), one(theirs, ours)
    assert (a.low, a.high, a.won, a.lost) == pytest.approx((-b.high, -b.low, b.lost, b.won), abs=1e-6)


def test_half_a_query_lost_counts_as_half_and_its_interval_holds_the_bootstraps():
    from evaluation.core.stats import bootstrap

    chance = random.Random(5)
    ours, theirs = ([chance.choice((0, 0.5, 1)) for _ in range(200)] for _ in range(2))
    row = one(ours, theirs)
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    plain = bootstrap(gaps, seed=1)
    assert row.difference == pytest.approx(plain.mean) and row.won - row.lost == pytest.approx(sum(gaps))
    assert row.low < plain.low < plain.high < row.high


# The test


def test_p_of_one_slice_is_the_sign_tests_and_scipys_permutation_test():
    stats = pytest.importorskip("scipy.stats")
    ours, theirs = [0] * 12 + [1] * 4 + [1] * 30, [1] * 12 + [0] * 4 + [1] * 30
    row = judge([asked(ours, theirs)], CHAMPION)[0][0]
    exact = stats.binomtest(4, 16, alternative="less").pvalue
    gaps = np.array(ours) - np.array(theirs)
    flipped = stats.permutation_test(
        (gaps,), np.sum, permutation_type="samples", alternative="less", n_resamples=9_999, rng=3
    )
    assert row.p == pytest.approx(exact, abs=0.01) and flipped.pvalue == pytest.approx(exact, abs=0.01)
    assert row.p_adjusted == row.p  # nothing else was asked


def test_adjusted_p_is_that_of_a_naive_loop_over_all_slices():
    chance, n, flips = random.Random(2), 60, 1500
    domains = [("hr", "tax", "it")[at % 3] for at in range(n)]
    both = [
        asked(
            *([float(chance.random() < share) for _ in range(n)] for share in (0.5, 0.62)),
            domains=domains,
            metric=metric,
        )
        for metric in ("hit@1", "recall@gen")
    ]
    rows, _ = judge(both, CHAMPION, flips=flips)

    def statistic(signs, one, domain):
        gaps = [
            signs[at] * (one.ours[at] - one.theirs[at])
            for at in range(n)
            if domain in ("all", one.domains[at])
        ]
        size = sqrt(sum(gap * gap for gap in gaps))
        return sum(gaps) / size if size else 0.0

    places = [(one, domain) for one in both for domain in ("all", "hr", "it", "tax")]
    found = [statistic([1] * n, *place) for place in places]
    lowest = []
    for _ in range(flips):
        signs = [chance.choice((-1, 1)) for _ in range(n)]
        lowest.append(min(statistic(signs, *place) for place in places))
    expected = [(1 + sum(low <= at + 1e-9 for low in lowest)) / (flips + 1) for at in found]
    assert [row.domain for row in rows] == [domain for _, domain in places]
    assert [row.p_adjusted for row in rows] == pytest.approx(expected, abs=0.05)
    assert all(row.p <= row.p_adjusted for row in rows)


def test_slices_of_the_same_queries_cost_little_and_others_much():
    generator = np.random.default_rng(1)
    plain = drawn(generator, 300, 0.06)
    alone = judge([plain], CHAMPION)[0][0].p_adjusted
    again = [asked(plain.ours, plain.theirs, metric=f"m{at}") for at in range(20)]
    apart = [
        asked(*(side.ours, side.theirs), metric=f"m{at}", queries=[(at, query) for query in side.queries])
        for at in range(20)
        if (side := drawn(generator, 300))
    ]
    assert judge(again, CHAMPION)[0][0].p_adjusted == alone
    assert judge([plain, *apart], CHAMPION)[0][0].p_adjusted > 4 * alone


def test_five_losses_never_fail_and_six_do():
    for lost, verdict in ((5, CANNOT_TELL), (6, FAIL)):  # 1 / 2**5 > ALPHA > 1 / 2**6
        rows, _ = judge([asked([0] * lost + [1] * 20, [1] * (lost + 20))], CHAMPION)
        assert rows[0].verdict == verdict


def test_worse_by_less_than_the_margin_is_worse():
    row = one([0] * 20 + [1] * 4980, [1] * 5000)
    assert row.low > -MARGIN and row.verdict == FAIL


def test_what_n_can_show_is_shown_four_times_in_five():
    generator = np.random.default_rng(4)
    for n in SIZES:
        loss = smallest_shown(n, DIFFER)
        failed = sum(one_drawn(generator, n, loss) == FAIL for _ in range(60))
        assert 0.65 < failed / 60 < 0.95
    assert smallest_shown(4, 0.5) is None and smallest_shown(125, 0) == pytest.approx(
        (Z + 0.8416) ** 2 / 125, abs=1e-4
    )


def one_drawn(generator, n, loss):
    rows, _ = judge([drawn(generator, n, loss)], CHAMPION, seed=int(generator.integers(2**31)), flips=999)
    return rows[0].verdict


# The error rates, by simulation: how often each planted regression gets each verdict


def rates(n, loss, runs):
    generator = np.random.default_rng([n, int(1000 * loss)])
    found = Counter(one_drawn(generator, n, loss) for _ in range(runs))
    return {verdict: found[verdict] / runs for verdict in (PASS, FAIL, CANNOT_TELL)}


def at_most(rate, runs):
    return rate + 3 * sqrt(rate * (1 - rate) / runs)


def hold_error_rates(runs):
    for n in SIZES:
        for loss in REGRESSIONS:
            found = rates(n, loss, runs)
            if loss >= MARGIN:
                assert found[PASS] <= at_most(ALPHA, runs), (n, loss, found)
            else:
                assert found[FAIL] <= at_most(ALPHA, runs), (n, loss, found)
            if loss >= (smallest_shown(n, DIFFER) or 1):
                assert found[FAIL] >= 2 * 0.8 - at_most(0.8, runs), (n, loss, found)
            elif loss:
                assert found[CANNOT_TELL] > 0.5, (n, loss, found)


def test_planted_regressions_get_the_verdicts_at_the_stated_rates():
    hold_error_rates(25)


@pytest.mark.long
def test_planted_regressions_get_the_verdicts_at_the_stated_rates_in_500_runs():
    hold_error_rates(500)


def family(generator, n, losses=None):
    """A benchmark as gates see it: two decodings, three metrics, domains and groups over the same queries."""
    domains = [("hr", "tax", "it")[at % 3] for at in range(n)]
    groups = [("covered", "uncovered", "outside")[at % 5 % 3] for at in range(n)]
    base = generator.random(n)
    found = []
    for metric in ("hit@1", "recall@gen", "precision@gen"):
        draw = np.where(
            generator.random(n) < 0.7, base, generator.random(n)
        )  # metrics of a query go together
        loss = np.array([(losses or {}).get(domain, 0.0) for domain in domains])
        lost, won = draw < (DIFFER + loss) / 2, draw > 1 - (DIFFER - loss) / 2
        found.append(asked(won, lost, domains=domains, groups=groups, metric=metric))
    return found


def whole(generator, n, losses=None):
    rows, _ = judge(family(generator, n, losses), CHAMPION, seed=int(generator.integers(2**31)), flips=999)
    return overall(row.verdict for row in rows), rows


@pytest.mark.parametrize("runs", [40, pytest.param(500, marks=pytest.mark.long)])
def test_a_model_that_is_no_worse_anywhere_fails_rarely_however_many_slices_there_are(runs):
    generator = np.random.default_rng(11)
    found = [whole(generator, 300) for _ in range(runs)]
    assert len(found[0][1]) == 48
    assert sum(verdict == FAIL for verdict, _ in found) / runs <= at_most(ALPHA, runs)


@pytest.mark.parametrize("runs", [15, pytest.param(500, marks=pytest.mark.long)])
def test_a_model_that_is_worse_in_one_domain_alone_never_passes_and_mostly_fails(runs):
    generator = np.random.default_rng(12)
    found = [whole(generator, 1200, {"tax": 0.12}) for _ in range(runs)]
    verdicts = Counter(verdict for verdict, _ in found)
    assert verdicts[PASS] / runs <= at_most(ALPHA, runs) and verdicts[FAIL] / runs > 0.8
    worst = min(found[0][1], key=lambda row: row.difference)
    assert worst.domain == "tax"


def test_the_same_seed_gives_the_same_report():
    both = [family(np.random.default_rng(3), 90) for _ in range(2)]
    assert judge(both[0], CHAMPION, seed=7) == judge(both[1], CHAMPION, seed=7)


# The whole


def test_one_failed_slice_fails_the_model_and_one_unsure_slice_leaves_it_open():
    assert overall([PASS, PASS]) == PASS and overall([PASS, CANNOT_TELL]) == CANNOT_TELL
    assert overall([PASS, FAIL, CANNOT_TELL]) == FAIL and overall([]) == CANNOT_TELL


def test_a_slice_of_all_queries_is_not_asked_twice():
    rows, _ = judge([asked([1] * 8, [1] * 8, groups=["covered"] * 8)], CHAMPION, flips=99)
    assert [(row.domain, row.group) for row in rows] == [("all", "all")]
    rows, _ = judge([asked([1] * 4, [1] * 4, domains=["hr", "tax"] * 2)], CHAMPION, flips=99)
    assert [(row.domain, row.group) for row in rows] == [("all", "all"), ("hr", "all"), ("tax", "all")]


def test_a_loss_to_the_embedding_that_the_champion_shares_binds_nobody():
    worse, equal = asked([0] * 40, [1] * 40), asked([1] * 40, [1] * 40)
    ours, theirs, better = (judge([side], EMBEDDING, flips=999)[0] for side in (worse, worse, equal))
    (shared,), (new,) = known_weakness(ours, theirs), known_weakness(ours, better)
    assert (shared.verdict, shared.binds, "champion" in shared.note) == (FAIL, False, True)
    assert new.binds and Gate((shared,)).verdict == CANNOT_TELL and Gate((new,)).verdict == FAIL


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        ([(3, 3, 0)], PASS),
        ([(3, 1, 0), (3, 2, 2)], PASS),
        ([(3, 3, 3)], PASS),  # nothing was left to improve
        ([(3, 1, 1)], FAIL),
        ([(3, 2, 1), (3, 0, 2)], FAIL),
        ([(3, 3, 0), (3, 1, 2)], CANNOT_TELL),  # what one rule wins does not hide what another loses
    ],
)
def test_tests_of_changed_rules_must_improve(tests, verdict):
    rules = [ChangedRule(at, f"R{at}", 2, *numbers) for at, numbers in enumerate(tests)]
    row = rules_row(rules)
    assert (row.verdict, row.n, row.binds) == (verdict, 3 * len(tests), True)


def test_superiority_on_changed_rules_is_the_exact_sign_test():
    stats = pytest.importorskip("scipy.stats")
    row = rules_row([ChangedRule(1, "A", 1, 9, 8, 1), ChangedRule(2, "B", 1, 3, 1, 3)])
    assert (row.won, row.lost) == (7, 2)
    assert row.p == pytest.approx(stats.binomtest(7, 9, alternative="greater").pvalue)
    assert rules_row([]) is None and rules_row([ChangedRule(1, "A", 1, 3, 3, None)]) is None


def test_what_was_not_measured_keeps_a_model_from_passing():
    passed = one([1] * 2000, [1] * 2000)
    lacking = gate.unmeasured("prb", "prb v1", "hard", "trace", "the candidate was not measured so")
    assert Gate((passed,)).verdict == PASS and Gate((passed, lacking)).verdict == CANNOT_TELL


def test_a_report_is_stored_and_read_back_whole():
    rows, critical = judge(family(np.random.default_rng(1), 60), CHAMPION, flips=99)
    made = Gate(
        tuple(rows), (ChangedRule(1, "A", 2, 3, 3, 1),), ("a note",), {CHAMPION: critical}, flips=99, seed=4
    )
    assert Gate.of(json.loads(json.dumps(made.as_dict()))) == made
    assert sum(made.counts.values()) == len(rows)


def test_more_tests_of_changed_rules_than_before_are_better_and_not_worse():
    row = rules_row([ChangedRule(n, f"R{n}", 2, 4, 3, 0) for n in range(5)])
    assert (row.verdict, row.answer) == (PASS, "better")
    fewer = rules_row([ChangedRule(1, "R", 2, 4, 1, 3)])
    assert (fewer.verdict, fewer.answer) == (FAIL, CANNOT_TELL)
