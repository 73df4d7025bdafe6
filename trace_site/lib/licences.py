"""The licence of data as people state it: an SPDX identifier, or a few words of their own."""

import json

from trace_site.lib.errors import TraceError

LONGEST = 100
# how dataset cards name what SPDX names otherwise only by its capitals
CARD_NAMES = frozenset(
    {"apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "mpl-2.0", "gpl-3.0", "agpl-3.0", "cc0-1.0", "odbl"}
    | {"cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nd-4.0", "cc-by-nc-sa-4.0", "cc-by-nc-nd-4.0"}
)


def licence_of(text: str, where: str = "licence") -> str:
    """The text on one line; empty: not recorded. Raises TraceError "bad_licence"."""
    said = " ".join(text.split())
    if len(said) > LONGEST or not said.isprintable():
        raise TraceError(
            f"a licence has at most {LONGEST} plain characters.",
            code="bad_licence",
            where=where,
            hint="Write its SPDX identifier, such as CC-BY-4.0, or a few words.",
        )
    return said


def card_lines(licence: str) -> list[str]:
    """The licence in the YAML of a dataset card: a name its readers know, else `other` with the words."""
    if not licence:
        return ["license: unknown"]
    if licence.lower() in CARD_NAMES:
        return [f"license: {licence.lower()}"]
    return ["license: other", f"license_name: {json.dumps(licence)}"]
