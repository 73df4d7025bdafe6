"""Writes on rules that change control is made of: versions, publishing, withdrawing. Versions are immutable.

Each writes what the checks say about the rules it changed, and about those whose findings change with them, into
RuleHealth, so that no list ever checks 5,000 rules. What is kept there is what checking everything anew would give.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from catalog.core.tokens import clause_token
from catalog.models import TokenUnit, Tool
from catalog.services import catalog_lock, clause_tokens_add
from rules.book import (
    CatalogNames,
    cached_book,
    content_problems,
    newest_rules,
    refused_content,
    rule_key,
    rules_as_of,
    version_contents,
)
from rules.core.check import Finding, check_reading, check_rule, has_errors
from rules.core.pairs import READER, apart, kept, read_pairs
from rules.core.reading import Reading
from rules.core.rule import PLAIN, RuleContent
from rules.core.rule_book import RuleBook, RuleKey
from rules.core.text_clauses import TextClause, text_clauses
from rules.models import Rule, RuleClause, RuleHealth, RuleReading, RuleVersion
from rules.selectors import newest_readings
from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.webhooks.services import emit, emit_all

LONGEST_REASON = 500
BATCH = 1000  # versions read at once
MANY = 200  # changed rules from which on checking everything costs no more


@transaction.atomic
def rule_withdraw(*, rule: Rule, actor: Any = None, detail: dict[str, Any] | None = None) -> Rule:
    """Take a rule out of what is taught; its versions stay. `detail` is added to the audit entry."""
    catalog_lock()
    rule = Rule.objects.select_for_update().get(pk=rule.pk)
    if rule.published_id is not None:
        withdrawn = rule.published_id
        rule.published = None
        rule.save(update_fields=["published"])
        what = {"version_id": withdrawn} | (detail or {})
        audit_models.record(actor=actor, action="rule.withdrawn", obj=rule, detail=what)
        emit("rule.withdrawn", _told(rule) | what)
        clauses_publish([rule.pk])
        recheck([rule.pk], before=[withdrawn])
    return rule


@transaction.atomic
def rule_wait(*, rule: Rule, waits: bool, actor: Any) -> Rule:
    """Whether the clauses of a rule wait until a model has learned them."""
    rule = Rule.objects.select_for_update().get(pk=rule.pk)
    if rule.waits != waits:
        rule.waits = waits
        rule.save(update_fields=["waits"])
        action = "rule.waits" if waits else "rule.in_force"
        audit_models.record(actor=actor, action=action, obj=rule)
    return rule


def rule_preview(*, content: RuleContent, rule: Rule | None, book: RuleBook) -> list[Finding]:
    """The findings that a content would get; writes nothing. Raises TraceError code `bad_rule`."""
    code, domain = (rule.code, rule.domain_id) if rule else ("", "")
    names = CatalogNames(name for _, name in content.names())
    if problems := content_problems(content, names, code=code, domain=domain):
        raise refused_content(problems)
    return check_rule(content, book, rule_key(rule) if rule else None)


def versions_save(
    drafts: Sequence[tuple[Rule, RuleContent, str, Any]], detail: dict[str, Any] | None = None
) -> list[RuleVersion]:
    """For every (rule, content, note, author) the rule's newest version where it says the same, else the next one.

    The caller holds the rules; the number of queries does not grow with them. `detail` is added to the audit entries.
    """
    rows = RuleVersion.objects.filter(rule__in=[rule.pk for rule, *_ in drafts])
    newest = {version.rule_id: version for version in rows.order_by("rule_id", "-number").distinct("rule_id")}
    names = {name for _, content, *_ in drafts for name in content.tools}
    ids: dict[str, int] = dict(Tool.objects.filter(name__in=names).values_list("name", "pk"))
    made, versions = [], []
    for rule, content, note, author in drafts:
        version, said = newest.get(rule.pk), content.content_hash()
        if version is None or version.content_hash != said:
            version = RuleVersion(
                number=version.number + 1 if version else 1,
                target_id=ids[content.target],
                confusable_ids=[ids[name] for name in content.confusables],
                text=content.text,
                clauses=list(content.clauses),
                tests=list(content.tests),
                **{name: getattr(content, name) for name in PLAIN},
                content_hash=said,
                note=note[:300],
                author=author,
            )
            made.append(version)
        version.rule = rule
        versions.append(version)
    RuleVersion.objects.bulk_create(made, batch_size=500)
    versions_read(made)
    for author in {version.author for version in made}:
        saved = [
            (version.rule, {"version": version.number, "note": version.note, **(detail or {})})
            for version in made
            if version.author == author
        ]
        audit_models.record_all(actor=author, action="rule.saved", objects=saved)
    return versions


def publish_checked(versions: Iterable[RuleVersion], actor: Any, detail: dict[str, Any] | None = None) -> int:
    """Set `published` of each version's rule; the caller has checked the findings and holds the catalog and the rules.

    `detail` is added to the audit entries: {"via": "import"} or {"request": id}.
    """
    moved: list[tuple[Rule, dict[str, Any]]] = []
    for version in versions:
        rule = version.rule
        if rule.published_id != version.pk:
            change = {"version": version.number, "version_id": version.pk, "before": rule.published_id}
            rule.published = version
            moved.append((rule, change | (detail or {})))
    Rule.objects.bulk_update([rule for rule, _ in moved], ["published"], batch_size=500)
    audit_models.record_all(actor=actor, action="rule.published", objects=moved)
    emit_all("rule.published", [_told(rule) | what for rule, what in moved])
    if moved:
        clauses_publish([rule.pk for rule, _ in moved])
        before = [change["before"] for _, change in moved if change["before"]]
        recheck((rule.pk for rule, _ in moved), before)
    return len(moved)


def clauses_publish(rules: Collection[int]) -> None:
    """Bring into force exactly the clauses of what these rules have published; the caller holds the catalog.

    What a rule says in the words of an earlier version keeps its token, or gets it back; what it says anew gets a token
    of its own; the tokens of what it no longer says retire.
    """
    versions = list(
        RuleVersion.objects.filter(rule__in=rules, rule__published=F("pk")).select_related("rule")
    )
    contents = version_contents(versions)
    rows = RuleClause.objects.filter(rule__in=rules).select_related("token")
    tokens = {(row.rule_id, row.clause): row.token for row in rows}
    numbers = Counter(rule for rule, _ in tokens)
    said: set[tuple[int, TextClause]] = set()
    fresh: list[tuple[Rule, int, TextClause]] = []
    for version in versions:
        for clause in text_clauses(contents[version.pk]):
            said.add((version.rule_id, clause))
            if (version.rule_id, clause) not in tokens:
                numbers[version.rule_id] += 1
                fresh.append((version.rule, numbers[version.rule_id], clause))
    active, retired = TokenUnit.State.ACTIVE, TokenUnit.State.RETIRED
    moved: list[TokenUnit] = []
    for key, token in tokens.items():
        state = active if key in said else retired
        if token.state != state:
            token.state = state
            moved.append(token)
    TokenUnit.objects.bulk_update(moved, ["state"], batch_size=500)
    made = clause_tokens_add([clause_token(rule.domain_id, rule.code, number) for rule, number, _ in fresh])
    RuleClause.objects.bulk_create(
        [
            RuleClause(
                rule=rule,
                number=number,
                token=token,
                text=clause.text,
                stance=clause.stance,
                tools=list(clause.tools),
            )
            for (rule, number, clause), token in zip(fresh, made, strict=True)
        ],
        batch_size=500,
    )


def _told(rule: Rule) -> dict[str, Any]:
    """What a webhook learns of a rule whatever happened to it."""
    return {"rule": rule.pk, "code": rule.code, "domain": rule.domain_id}


def versions_read(versions: Sequence[RuleVersion]) -> None:
    """Read which pairs these versions tell apart, and keep it. What people corrected stays where the version has a
    reading already, or where an earlier one of its rule says the same in the same words."""
    if not versions:
        return
    contents = version_contents(versions)
    corrected = _corrected([version.rule_id for version in versions])
    newest = dict(newest_readings(versions).values_list("version", "number"))
    rows = []
    for version in versions:
        content = contents[version.pk]
        ids = dict(zip(content.tools, version.tool_ids, strict=True))
        said, pairs = kept(read_pairs(Reading(content)), ids)
        held = set(version.tool_ids)
        corrections = [one for one in corrected.get(_words_of(version), ()) if held.issuperset(one["pair"])]
        rows.append(
            RuleReading(
                version=version,
                number=newest.get(version.pk, 0) + 1,
                reader=READER,
                said=said,
                pairs=pairs,
                corrections=corrections,
                apart=apart(pairs, corrections),
            )
        )
    # another process may have read the same versions at the same time, with the same outcome
    RuleReading.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)


def _corrected(rules: Iterable[int]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """What people corrected, by rule and by what the version says; of versions that say the same the newest counts."""
    ever = RuleReading.objects.filter(version__rule__in=set(rules)).exclude(corrections=[])
    rows = RuleReading.objects.filter(version__rule__in=ever.order_by().values("version__rule"))
    newest = rows.order_by("version_id", "-number").distinct("version_id").select_related("version")
    return {_words_of(row.version): row.corrections for row in newest.defer("said", "pairs", "apart")}


def _words_of(version: RuleVersion) -> tuple[int, str]:
    return version.rule_id, content_hash([version.text, version.clauses])


def read_missing() -> int:
    """Read the versions that this edition of the reading has not read: written by SQL, or before it. Published rules
    get their clauses then, as those do that were published before clauses had tokens."""
    ids = list(
        RuleVersion.objects.exclude(readings__reader=READER).order_by("pk").values_list("pk", flat=True)
    )
    for start in range(0, len(ids), BATCH):
        versions_read(list(RuleVersion.objects.filter(pk__in=ids[start : start + BATCH]).order_by("pk")))
    behind = Rule.objects.filter(Q(published__in=ids) | Q(published__isnull=False, text_clauses=None))
    if rules := set(behind.values_list("pk", flat=True)):
        with transaction.atomic():
            catalog_lock()
            clauses_publish(rules)
    return len(ids)


@transaction.atomic
def pair_correct(
    *, version: RuleVersion, pair: Sequence[int], is_apart: bool | None, reason: str, actor: Any
) -> RuleReading:
    """Say that a version tells two of its tools apart, or does not, whatever the reading found; None: as it was read.

    Changes what coverage counts and nothing that is taught. Raises TraceError `reason_missing`, `bad_tool`.
    """
    reason = " ".join(reason.split())
    if not reason:
        raise TraceError("The reason is missing.", code="reason_missing", hint="One sentence is enough.")
    wanted = sorted(set(pair))
    if len(wanted) != 2 or not set(wanted) <= set(version.tool_ids):
        raise TraceError("These are not two tools of the rule's set.", code="bad_tool", where="pair")
    Rule.objects.select_for_update(no_key=True).get(pk=version.rule_id)
    if not version.readings.exists():
        versions_read([version])
    old = newest_readings([version]).get()
    corrections = [one for one in old.corrections if sorted(one["pair"]) != wanted]
    if is_apart is not None:
        told = {"reason": reason[:LONGEST_REASON], "author": actor.pk if actor else None}
        at = database_now().isoformat()
        corrections.append({"pair": wanted, "apart": is_apart, **told, "at": at})
    reading = RuleReading.objects.create(
        version=version,
        number=old.number + 1,
        reader=old.reader,
        said=old.said,
        pairs=old.pairs,
        corrections=corrections,
        apart=apart(old.pairs, corrections),
        author=actor,
    )
    names = dict(Tool.objects.filter(pk__in=wanted).values_list("pk", "name"))
    detail = {
        "version": version.number,
        "pair": [names[pk] for pk in wanted],
        "apart": is_apart,
        "reason": reason,
    }
    audit_models.record(actor=actor, action="rule.pair_corrected", obj=version.rule, detail=detail)
    return reading


@transaction.atomic
def recheck(rules: Iterable[int] | None, before: Iterable[int] = ()) -> int:
    """Check the rules with these ids and all that depends on them; None: every rule. Returns how many were checked.

    Call it after the versions are saved and the rules published or withdrawn, in the same transaction; `before` are
    the versions that were published until then.
    """
    book = cached_book()
    newest, versions = newest_rules()
    ids = None if rules is None else sorted(set(rules))
    if ids is None or len(ids) > MANY:
        return _write(newest, versions, book, newest.rules.keys())
    changed = set(Rule.objects.filter(pk__in=ids).values_list("domain_id", "code"))
    live = [book.rules[key] for key in changed & book.rules.keys()]
    old = rules_as_of(sorted(set(before)))
    touched = changed | newest.concerned_by(live, book, len(live) + len(old))
    if old:
        touched |= newest.concerned_by(old, book.changed((), old), len(live) + len(old))
    return _write(newest, versions, book, touched)


def recheck_missing() -> int:
    """Check and read the rules that never were: those written before there was a table for it, or by SQL."""
    if not (ids := list(Rule.objects.filter(health=None).values_list("pk", flat=True))):
        return 0
    read_missing()
    return recheck(ids)


@transaction.atomic
def recheck_tools(ids: list[int]) -> None:
    """Check the rules that name one of the tools, or in whose text its API is named."""
    if not Rule.objects.exists():
        return
    names = set(Tool.objects.filter(pk__in=ids).values_list("name", flat=True))
    apis = {f"{name.partition('/')[0]}/".casefold() for name in names}
    newest, versions = newest_rules()
    touched = newest.holding(names)
    for key, rule in newest.rules.items():
        text = rule.content.text.casefold()
        if key not in touched and "/" in text and any(api in text for api in apis):
            touched.add(key)
    _write(newest, versions, cached_book(), touched)


def check_all(domain: str = "") -> Iterator[tuple[RuleKey, list[Finding]]]:
    """Every rule's newest version, checked anew; writes nothing."""
    book, (newest, _) = cached_book(), newest_rules()
    for key in sorted(newest.rules):
        if domain in ("", key[0]):
            yield key, check_reading(newest.rules[key].reading, book, key)


def light_of(findings: list[Finding]) -> str:
    if has_errors(findings):
        return RuleHealth.Light.ERROR
    return RuleHealth.Light.WARNING if findings else RuleHealth.Light.OK


def _write(newest: RuleBook, versions: dict[RuleKey, int], book: RuleBook, keys: Iterable[RuleKey]) -> int:
    wanted = sorted(key for key in keys if key in newest.rules)
    named = (
        Rule.objects.all()
        if len(wanted) > MANY
        else Rule.objects.filter(code__in=[code for _, code in wanted])
    )
    ids = {(domain, code): pk for pk, domain, code in named.values_list("pk", "domain_id", "code")}
    rows = []
    for key in wanted:
        rule = newest.rules[key]
        findings = check_reading(rule.reading, book, key)
        rows.append(
            RuleHealth(
                rule_id=ids[key],
                version_id=versions[key],
                light=light_of(findings),
                findings=[finding.as_dict() for finding in findings],
                words=f"{rule.code} {rule.content.target} {rule.content.text}".casefold(),
                checked_at=Now(),
            )
        )
    RuleHealth.objects.bulk_create(
        rows,
        batch_size=500,
        update_conflicts=True,
        unique_fields=["rule"],
        update_fields=["version", "light", "findings", "words", "checked_at"],
    )
    return len(rows)
