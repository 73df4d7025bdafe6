"""Checks the tool names of a rule against the catalog and says what was probably meant."""

from dataclasses import replace
from difflib import get_close_matches

from catalog.core.words import name_words
from catalog.imports import domain_slug
from catalog.models import Domain, Tool
from rules.core.rule import EntryProblems, RuleEntry

CLOSEST = 3
CANDIDATES = 400
MOST_MEANT = 100  # unknown names of one file that get a suggestion; each costs a look at the whole catalog


class ToolNames:
    """All tools of the catalog: name -> (id, domain, active). Two queries, however many rules are checked."""

    def __init__(self) -> None:
        rows = Tool.objects.values_list("name", "pk", "domain_id", "status")
        self.tools = {name: (pk, domain, status == Tool.Status.ACTIVE) for name, pk, domain, status in rows}
        self.domains = set(Domain.objects.values_list("slug", flat=True))
        self._told: dict[str, str] = {}

    def ids(self) -> dict[str, int]:
        return {name: values[0] for name, values in self.tools.items()}

    def check(self, entry: RuleEntry, problems: EntryProblems) -> None:
        """Unknown names anywhere, and a retired target, are errors at their place."""
        for pointer, name in entry.content.names():
            if name not in self.tools:
                problems.add(entry.pointer + pointer, f"'{name}' is not in the catalog.{self._meant(name)}")
            elif pointer == "/tool_name" and not self.tools[name][2]:
                problems.add(entry.pointer + pointer, f"the target '{name}' is retired.")

    def with_domain(self, entry: RuleEntry, problems: EntryProblems) -> RuleEntry | None:
        """The entry with its domain's slug: the one given, else the target's."""
        known = self.tools.get(entry.content.target)
        if known is None:
            return None
        slug = domain_slug(entry.domain) if entry.domain else known[1]
        if slug != known[1]:
            problems.add(
                f"{entry.pointer}/domain",
                f"the target belongs to the domain '{known[1]}', not to '{entry.domain}'.",
            )
            return None
        return replace(entry, domain=slug)

    def _meant(self, name: str) -> str:
        """The closest names; only names that share most words are compared letter by letter."""
        if name not in self._told and len(self._told) < MOST_MEANT:
            self._told[name] = self._closest(name)
        return self._told.get(name, "")

    def _closest(self, name: str) -> str:
        words = set(name_words(name))
        shared = ((len(words & set(name_words(known))), known) for known in self.tools)
        near = sorted(shared, key=lambda pair: (-pair[0], pair[1]))[:CANDIDATES]
        found = get_close_matches(name, [known for _, known in near], n=CLOSEST, cutoff=0.5)
        return f" Closest: {', '.join(found)}." if found else ""
