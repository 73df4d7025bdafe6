"""Forty requests of `playground_requests.jsonl`, asked of a running site's champion as its playground asks them.

    TRACE_HOME=DIR python -m tests.bench.playground

They were written by a hand that saw tools and rules only, and put away before any model was trained. Prints, for fast
decoding and for traces, how many of the thirty in scope are answered right first and how many of them refused, how
many of the ten outside every tool are refused, and every miss.
"""

import json
import os
from pathlib import Path
from typing import Any

REQUESTS = Path(__file__).with_name("playground_requests.jsonl")
Row = dict[str, Any]


def ask(item: Row, mode: str) -> Row:
    from evaluation.core.asking import Query
    from evaluation.retrieval.retriever import retrieve

    answer = retrieve(Query(item["query"], mode=mode), patience=60)
    first = answer["tools"][0]["name"] if answer["tools"] else ""
    sure, refused = answer["confidence"], answer["fits"] is False
    return {**item, "first": first, "sure": sure, "refused": refused, "trace": answer["trace"]}


def report(mode: str, answers: list[Row]) -> None:
    inside = [one for one in answers if one["scope"] == "in"]
    outside = [one for one in answers if one["scope"] != "in"]
    right = [one for one in inside if one["first"] in one["tools"] and not one["refused"]]
    print(f"## {mode}: {len(right)} of {len(inside)} right first", end=", ")
    print(f"{sum(one['refused'] for one in inside)} of them refused", end=", ")
    print(f"{sum(one['refused'] for one in outside)} of {len(outside)} outside refused")
    for one in answers:
        if one in right or (one in outside and one["refused"]):
            continue
        said = "no tool fits" if one["refused"] else one["first"]
        wanted = " or ".join(one["tools"]) or "no tool fits"
        print(f'- {one["id"]} "{one["query"]}": {said} ({one["sure"] or 0:.2f}), wanted {wanted}')


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    items = [json.loads(line) for line in REQUESTS.read_text().splitlines()]
    for mode in ("fast", "trace"):
        report(mode, [ask(item, mode) for item in items])


if __name__ == "__main__":
    main()
