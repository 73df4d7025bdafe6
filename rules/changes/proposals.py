"""What a change request proposes and what stands against it: what happened since it began, and what the checks say."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q

from catalog.imports.services import domain_slug
from rules.book import CatalogNames, Problem, content_problems, refused_content, rule_book
from rules.core.check import Finding, check_rule, has_errors
from rules.core.draft import content_of
from rules.core.rule import RuleContent
from rules.core.rule_book import OtherRule, RuleKey
from rules.core.rules_file import new_code
from rules.models import OPEN, ChangeRequest, Rule, RuleChange, RuleVersion
from trace_site.lib.errors import TraceError

OTHERS = 20  # other open requests that are shown


@dataclass(slots=True)
class Proposal:
    """A change that publishes something: what it would say, under which code and in which domain."""

    change: RuleChange
    content: RuleContent
    domain: str
    code: str
    problems: list[Problem]  # why it is no complete rule yet
    retired: list[str]  # tools of its set

    @property
    def key(self) -> RuleKey:
        return (self.domain, self.code)


@dataclass(frozen=True, slots=True)
class Conflict:
    """One sentence about a change. What does not block is only shown: another open request may still give way."""

    change: RuleChange
    sentence: str
    other_version: RuleVersion | None = None
    other_request: ChangeRequest | None = None
    blocks: bool = True
    since: bool = False  # the rule moved on; the change can be put on top of what it is now


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


def proposals_of(changes: Sequence[RuleChange]) -> list[Proposal]:
    """Every change that publishes a version; new rules get the code that applying would give them."""
    contents = {c.pk: content_of(c.content) for c in changes if c.action == RuleChange.Action.SAVE}
    names = CatalogNames(name for content in contents.values() for _, name in content.names())
    found = []
    for change in changes:
        if change.pk not in contents:
            continue
        content, rule = contents[change.pk], change.rule
        code, domain = (rule.code, rule.domain_id) if rule else (change.code, change.domain)
        problems = content_problems(content, names, code=code, domain=domain)
        if not rule:
            domain = domain_slug(domain) if domain else names.domains.get(content.target, "")
        retired = [name for name in dict.fromkeys(content.tools) if name in names.retired]
        found.append(Proposal(change, content, domain, code, problems, retired))
    nameless = [proposal for proposal in found if not proposal.code and not proposal.problems]
    if nameless:
        taken: defaultdict[str, set[str]] = defaultdict(set)
        domains = {proposal.domain for proposal in nameless}
        rules = Rule.objects.filter(domain__in=domains).values_list("domain_id", "code")
        for domain, code in [*rules, *(proposal.key for proposal in found)]:
            taken[domain].add(code)
        for proposal in nameless:
            proposal.code = new_code(proposal.content.target, taken[proposal.domain])
            taken[proposal.domain].add(proposal.code)
    return found


def check_complete(changes: Sequence[RuleChange], proposals: Sequence[Proposal]) -> None:
    """Refuse a request that holds nothing, an unfinished rule, or a change that changes nothing."""
    if not changes:
        raise TraceError(
            "The request holds no change.", code="bad_state", hint="Edit a rule and add it, or cancel it."
        )
    for proposal in proposals:
        change, label = proposal.change, change_label(proposal.change)
        if proposal.problems:
            error = refused_content(proposal.problems)
            error.where = f"{label}{error.where}"
            error.extra |= {"change": change.pk, "label": label}
            raise error
        base, rule = change.base, change.rule
        live = base is not None and rule is not None and base.pk == rule.published_id
        if base and live and base.content_hash == proposal.content.content_hash():
            raise TraceError(
                f"The change of {label} already says what v{base.number} says.",
                code="bad_state",
                hint="Edit it, or remove it from the request.",
                extra={"change": change.pk},
            )


def check_clear(request: ChangeRequest, changes: Sequence[RuleChange], proposals: Sequence[Proposal]) -> None:
    """Raise TraceError `conflict` or `findings` with the first thing that blocks; extra lists all of them."""
    blocking = [conflict for conflict in request_conflicts(request, changes, proposals) if conflict.blocks]
    if blocking:
        raise TraceError(
            blocking[0].sentence,
            code="conflict",
            hint="Open the change, compare it with what is there now, and save it on top of that.",
            extra={"conflicts": [conflict.sentence for conflict in blocking]},
        )
    told = request_findings(changes, proposals)
    for change in changes:
        findings = told.get(change.pk, [])
        if has_errors(findings):
            first = next(finding for finding in findings if finding.level == "error")
            raise TraceError(
                f"{change_label(change)}: {first.sentence}",
                code="findings",
                hint=first.fix,
                extra={"change": change.pk, "findings": [finding.as_dict() for finding in findings]},
            )


def request_findings(
    changes: Sequence[RuleChange], proposals: Sequence[Proposal]
) -> dict[int, list[Finding]]:
    """Change id -> findings, against the book in which every change of the request is done; complete changes only."""
    complete = [proposal for proposal in proposals if not proposal.problems]
    if not complete:
        return {}
    gone = {
        (change.rule.domain_id, change.rule.code)
        for change in changes
        if change.rule and change.action == RuleChange.Action.WITHDRAW
    }
    book = rule_book(OtherRule(*proposal.key, proposal.content) for proposal in complete).changed(gone, ())
    return {proposal.change.pk: check_rule(proposal.content, book, proposal.key) for proposal in complete}


def request_conflicts(
    request: ChangeRequest, changes: Sequence[RuleChange], proposals: Sequence[Proposal]
) -> list[Conflict]:
    """Everything that happened beside the request, per change; the number of queries does not grow with it."""
    rule_ids = [change.rule_id for change in changes if change.rule_id]
    versions = RuleVersion.objects.filter(rule__in=rule_ids).select_related("rule", "author")
    versions = versions.order_by("rule_id", "-number").distinct("rule_id")
    newest = {version.rule_id: version for version in versions}
    proposed = {proposal.change.pk: proposal for proposal in proposals}
    codes = {change.code for change in changes if not change.rule_id} - {""}
    taken = set(Rule.objects.filter(code__in=codes).values_list("domain_id", "code"))
    # other open requests on the same rules, or on new rules with the same codes, newest first
    same = Q(rule__in=rule_ids) | Q(rule=None, code__in=codes)
    rows = RuleChange.objects.filter(same, request__state__in=OPEN).exclude(request=request)
    rows = rows.defer("content").select_related("request__author", "rule").order_by("-request_id", "id")
    others = list(rows[:OTHERS])
    found: list[Conflict] = []
    keys: set[RuleKey] = set()
    for change in changes:
        proposal = proposed.get(change.pk)
        if change.rule_id:
            found += _since(change, newest.get(change.rule_id))
        elif proposal and change.code:
            domain, code = key = (proposal.domain, change.code)
            if key in taken:
                sentence = f"The code {code} is taken: the domain '{domain}' has a rule of that name now."
                found.append(Conflict(change, sentence))
            elif key in keys:
                found.append(Conflict(change, f"Two changes of this request propose the code {code}."))
            keys.add(key)
        found += _beside(change, others)
        for name in proposal.retired if proposal else ():
            target = proposal is not None and name == proposal.content.target
            what = "The target" if target else "The look-alike"
            found.append(Conflict(change, f"{what} {name} is retired in the catalog now.", blocks=target))
    return found


def _since(change: RuleChange, newest: RuleVersion | None) -> Iterable[Conflict]:
    rule = change.rule
    assert rule is not None
    if newest and newest.pk != change.base_id and (not change.base or newest.number > change.base.number):
        who = newest.author.username if newest.author else "the command line"
        began = f"v{change.base.number}" if change.base else "an empty rule"
        sentence = (
            f"{who} made v{newest.number} of {rule.code} on {newest.created_at:%-d %b %Y, %H:%M} UTC; "
            f"this change began from {began}."
        )
        yield Conflict(change, sentence, newest, since=True)
    elif rule.published_id not in (change.base_published_id, change.base_id):
        now = f"v{rule.published.number}" if rule.published else "withdrawn"
        was = f"v{change.base_published.number}" if change.base_published else "not published"
        sentence = f"{rule.code} was {was} when this change began and is {now} now."
        yield Conflict(change, sentence, rule.published, since=True)


def _beside(change: RuleChange, others: Sequence[RuleChange]) -> Iterable[Conflict]:
    for other in others:
        theirs = other.request
        who = f"Request {theirs.pk} of {theirs.author.username} ({theirs.get_state_display().lower()})"
        if change.rule and other.rule_id == change.rule_id:
            does = "withdraws" if other.action == RuleChange.Action.WITHDRAW else "also changes"
            yield Conflict(change, f"{who} {does} {change.rule.code}.", other_request=theirs, blocks=False)
        elif not change.rule_id and not other.rule_id and change.code and other.code == change.code:
            sentence = f"{who} proposes the code {change.code} too."
            yield Conflict(change, sentence, other_request=theirs, blocks=False)
