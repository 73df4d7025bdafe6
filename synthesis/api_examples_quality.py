"""An example of /api/v1/review/quality: two reviewers, the offline judge, one domain and style."""

from typing import Any


def coefficient(value: float, low: float, high: float, n: int, verdict: str) -> dict[str, Any]:
    drawn = {"draws": 1000, "seed": 0, "undefined": 0, "why": ""}
    return {"value": value, "low": low, "high": high, "n": n, **drawn, "verdict": verdict}


def rate(hits: float, n: float, low: float, high: float) -> dict[str, Any]:
    return {"hits": hits, "n": n, "value": round(hits / n, 3), "low": low, "high": high}


NAMED = {
    "n": 120,
    "alpha": coefficient(0.71, 0.57, 0.83, 120, "cannot tell"),
    "same_verdict": rate(108, 120, 0.833, 0.942),
    "same_outcome": rate(104, 120, 0.794, 0.916),
}
PAIR = {
    "one": "rosa",
    "other": "sam",
    "n": 120,
    "kappa": coefficient(0.71, 0.57, 0.83, 120, "cannot tell"),
    "collapsed": coefficient(0.86, 0.74, 0.96, 120, "tentative"),
    "same_verdict": rate(108, 120, 0.833, 0.942),
}
SLICE = {
    "domain": "hr",
    "kind": "explicit",
    "accepted": {
        "approved": 540,
        "edited": 30,
        "rejected": 30,
        "read": 600,
        "effective": 600.0,
        "samples": 2400,
    },
    "refused": {"approved": 9, "edited": 1, "rejected": 40, "read": 50, "effective": 50.0, "samples": 310},
    "false_accept": rate(30, 600, 0.035, 0.07),
    "false_refuse": rate(10, 50, 0.112, 0.33),
    "proposal": {
        "share": 0.716,
        "percent": 72,
        "upper": 0.07,
        "target": 0.02,
        "floor": 0.05,
        "n": 600,
        "why": "1 - 0.020 / 0.070 = 0.716",
    },
}
JUDGE = {
    "judge": "offline",
    "kappa": coefficient(0.67, 0.58, 0.76, 650, "cannot tell"),
    "raw_kappa": coefficient(0.63, 0.53, 0.73, 650, "cannot tell"),
    "overall": {**SLICE, "domain": "", "kind": ""},
    "domains": [{**SLICE, "kind": ""}],
    "kinds": [{**SLICE, "domain": ""}],
    "cells": [SLICE],
}
REVIEWER = {
    "name": "rosa",
    "readings": 410,
    "adjudicated": rate(9, 16, 0.332, 0.769),
    "reversed": rate(7, 120, 0.029, 0.116),
    "rejected": rate(41, 410, 0.075, 0.133),
    "expected": 0.08,
    "compared": 410,
    "taken_back": rate(5, 415, 0.005, 0.028),
    "stands_out": "",
}
QUALITY = {
    "agreement": {
        "overall": {"name": "all", **NAMED},
        "domains": [{"name": "hr", **NAMED}],
        "styles": [{"name": "explicit", **NAMED}],
        "pairs": [PAIR],
        "more_pairs": 0,
    },
    "judges": [JUDGE],
    "reviewers": [REVIEWER],
}
