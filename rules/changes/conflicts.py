"""What stands against applying a change request: what happened since it began, and what the checks say about it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q

from catalog.models import Tool
from rules.book import rule_book
from rules.changes.permits import OPEN
from rules.core.check import Finding, check_rule
from rules.core.draft import content_of
from rules.core.rule import RuleContent, schema_problems, to_json
from rules.core.rule_book import OtherRule, RuleBook, RuleKey
from rules.core.rules_file import KnownRule, RuleEntry, find_codes
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion

OTHERS = 20  # other open requests that are shown


@dataclass(frozen=True, slots=True)
class Conflict:
    """One sentence about a change. What does not block is only shown: another open request may still give way."""

    change: RuleChange
    sentence: str
    other_version: RuleVersion | None = None
    other_request: ChangeRequest | None = None
    blocks: bool = True
    since: bool = False  # the rule moved on; the change can be put on top of what it is now


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that publishes something: what it would say, under which code and in which domain."""

    change: RuleChange
    content: RuleContent
    domain: str
    code: str
    problems: tuple[tuple[str, str], ...]  # (JSON pointer, sentence): why it is no complete rule yet

    @property
    def key(self) -> RuleKey:
        return (self.domain, self.code)


def changes_of(request: ChangeRequest) -> list[RuleChange]:
    """The changes in the order they were added, with their rule and versions."""
    rows = request.changes.select_related(
        "rule__published", "rule__domain", "base", "version", "edited_by", "base_published"
    )
    return list(rows.order_by("id"))


def change_label(change: RuleChange) -> str:
    """What people call a change: the rule's code, else what is known of the new rule."""
    if change.rule:
        return change.rule.code
    target = change.content.get("target", "")
    return change.code or (f"new rule for {target}" if target else "new rule")


def named_tools(contents: Iterable[RuleContent]) -> dict[str, Tool]:
    """Every tool that a field of the contents names, by name; one query."""
    names = {name for content in contents for _, name in content.names()}
    rows = Tool.objects.filter(name__in=names).defer("embedding", "search", "words")
    return {tool.name: tool for tool in rows}


def proposals_of(changes: Sequence[RuleChange]) -> list[Proposal]:
    """Every change that publishes a version; new rules get the code that applying would give them. Two queries."""
    saves = [change for change in changes if change.action == RuleChange.Action.SAVE]
    contents = {change.pk: content_of(change.content) for change in saves}
    tools = named_tools(contents.values())
    homes = {change.pk: _home(change, tools) for change in saves}
    taken: defaultdict[str, set[str]] = defaultdict(set)
    nameless = {domain for domain, code in homes.values() if not code}
    rules = Rule.objects.filter(domain__in=nameless).values_list("domain_id", "code")
    for domain, code in [*(rules if nameless else ()), *homes.values()]:
        taken[domain].add(code)
    found = []
    for change in saves:
        content, (domain, code) = contents[change.pk], homes[change.pk]
        problems = tuple(_problems(content, code, domain, tools))
        if not code and not problems:
            code = _fresh_code(content, domain, taken[domain])
            taken[domain].add(code)
        found.append(Proposal(change, content, domain, code, problems))
    return found


def _home(change: RuleChange, tools: dict[str, Tool]) -> tuple[str, str]:
    """(domain, code) of the change's rule; a new rule without a domain belongs to its target's."""
    if change.rule:
        return change.rule.domain_id, change.rule.code
    target = tools.get(content_of(change.content).target)
    return change.domain or (target.domain_id if target else ""), change.code


def _fresh_code(content: RuleContent, domain: str, taken: set[str]) -> str:
    entry = RuleEntry(content, "", domain, "")
    return find_codes([entry], [KnownRule(code, "", frozenset()) for code in taken])[0]


def _problems(
    content: RuleContent, code: str, domain: str, tools: dict[str, Tool]
) -> Iterable[tuple[str, str]]:
    item = to_json(content, code=code, domain=domain)
    yield from schema_problems({key: value for key, value in item.items() if value != ""})
    for pointer, name in content.names():
        if name and name not in tools:
            yield pointer, f"'{name}' is not in the catalog."


def request_findings(
    changes: Sequence[RuleChange], proposals: Sequence[Proposal] | None = None
) -> dict[int, list[Finding]]:
    """Change id -> findings, against the book in which every change of the request is done; complete changes only.

    `proposals` are those of the changes, when they are known already.
    """
    known = proposals_of(changes) if proposals is None else proposals
    proposals = [proposal for proposal in known if not proposal.problems]
    if not proposals:
        return {}
    book = _book_with(proposals, changes)
    return {proposal.change.pk: check_rule(proposal.content, book, proposal.key) for proposal in proposals}


def _book_with(proposals: Sequence[Proposal], changes: Sequence[RuleChange]) -> RuleBook:
    book = rule_book(OtherRule(*proposal.key, proposal.content) for proposal in proposals)
    gone = {
        (change.rule.domain_id, change.rule.code)
        for change in changes
        if change.rule and change.action == RuleChange.Action.WITHDRAW
    }
    return book.changed(gone, ())


def request_conflicts(request: ChangeRequest, changes: Sequence[RuleChange] | None = None) -> list[Conflict]:
    """Everything that happened beside the request, per change; the number of queries does not grow with it."""
    changes = changes_of(request) if changes is None else changes
    newest = _newest([change.rule_id for change in changes if change.rule_id])
    contents = {change.pk: content_of(change.content) for change in changes}
    tools = named_tools(contents.values())
    homes = {change.pk: _home(change, tools) for change in changes}
    codes = {homes[change.pk][1] for change in changes if not change.rule_id} - {""}
    taken = {(rule.domain_id, rule.code): rule for rule in Rule.objects.filter(code__in=codes)}
    others = _others(request, changes, codes)
    found: list[Conflict] = []
    for place, change in enumerate(changes):
        if change.rule_id:
            found += _since(change, newest.get(change.rule_id))
        elif homes[change.pk] in taken:
            found.append(_taken(change, homes[change.pk]))
        elif any(homes[change.pk] == homes[earlier.pk] for earlier in changes[:place] if change.code):
            found.append(Conflict(change, f"Two changes of this request propose the code {change.code}."))
        found += _beside(change, homes[change.pk], others)
        if change.action == RuleChange.Action.SAVE:
            found += _retired(change, contents[change.pk], tools)
    return found


def _newest(rule_ids: Sequence[int]) -> dict[int, RuleVersion]:
    rows = RuleVersion.objects.filter(rule__in=rule_ids).select_related("rule", "author")
    return {version.rule_id: version for version in rows.order_by("rule_id", "-number").distinct("rule_id")}


def _since(change: RuleChange, newest: RuleVersion | None) -> Iterable[Conflict]:
    rule = change.rule
    assert rule is not None
    if newest and newest.pk != change.base_id and (not change.base or newest.number > change.base.number):
        who = newest.author.username if newest.author else "the command line"
        began = f"v{change.base.number}" if change.base else "an empty rule"
        yield Conflict(
            change,
            f"{who} made v{newest.number} of {rule.code} on {newest.created_at:%-d %b %Y, %H:%M} UTC; "
            f"this change began from {began}.",
            newest,
            since=True,
        )
    elif rule.published_id not in (change.base_published_id, change.base_id):
        now = f"v{rule.published.number}" if rule.published else "withdrawn"
        was = f"v{change.base_published.number}" if change.base_published else "not published"
        yield Conflict(
            change,
            f"{rule.code} was {was} when this change began and is {now} now.",
            rule.published,
            since=True,
        )


def _taken(change: RuleChange, home: RuleKey) -> Conflict:
    domain, code = home
    return Conflict(
        change, f"The code {code} is taken: the domain '{domain}' has a rule of that name by now."
    )


def _others(request: ChangeRequest, changes: Sequence[RuleChange], codes: set[str]) -> list[RuleChange]:
    """Changes of other open requests on the same rules, or new rules with the same codes, newest first."""
    rules = [change.rule_id for change in changes if change.rule_id]
    same = Q(rule__in=rules) | Q(rule=None, code__in=codes)
    rows = RuleChange.objects.filter(same, request__state__in=OPEN).exclude(request=request)
    shown = rows.defer("content").select_related("request__author", "rule").order_by("-request_id", "id")
    return list(shown[:OTHERS])


def _beside(change: RuleChange, home: RuleKey, others: Sequence[RuleChange]) -> Iterable[Conflict]:
    for other in others:
        theirs = other.request
        who = f"Request {theirs.pk} of {theirs.author.username} ({theirs.get_state_display().lower()})"
        if change.rule_id and other.rule_id == change.rule_id:
            does = "withdraws" if other.action == RuleChange.Action.WITHDRAW else "also changes"
            label = change.rule.code if change.rule else ""
            yield Conflict(change, f"{who} {does} {label}.", other_request=theirs, blocks=False)
        elif not change.rule_id and not other.rule_id and home[1] and other.code == home[1]:
            yield Conflict(
                change, f"{who} proposes the code {home[1]} too.", other_request=theirs, blocks=False
            )


def _retired(change: RuleChange, content: RuleContent, tools: dict[str, Tool]) -> Iterable[Conflict]:
    for name in dict.fromkeys(content.tools):
        tool = tools.get(name)
        if tool is not None and tool.status != Tool.Status.ACTIVE:
            target = name == content.target
            what = "The target" if target else "The look-alike"
            yield Conflict(change, f"{what} {name} is retired in the catalog by now.", blocks=target)
