"""What a run would write, until estimates are counted for good."""

from typing import Any

from synthesis.sources import published_rules


def estimate(**options: Any) -> dict[str, Any]:
    rules = published_rules(options["domain"], options["rule"])
    planned = len(rules) * options["per_rule"] if options["branch"] == "rule" else options["anchors"]
    return {"planned": planned}
