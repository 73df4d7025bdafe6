"""Writing a change request: what the editor autosaves, and nobody's work is overwritten.

Every edit raises the revision of the request, and of the change it touches. After submission it also clears the
approvals and brings the request back to review.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from rules.book import refused_entry, version_contents
from rules.changes.permits import State, not_a_writer, refusal, words_on
from rules.changes.proposals import change_label
from rules.core.draft import draft_of, draft_problems, fill_draft
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.lib.files import storable
from trace_site.webhooks.services import emit

# What every verb on a change request begins and ends with: the lock, the permit, the audit entry.


LONGEST = 5000
LENGTHS = {"title": 200, "description": 5000, "code": 80, "domain": 60, "note": 300}


def locked(request: ChangeRequest | int, revision: int | None = None) -> ChangeRequest:
    """The row as it is now, held until the transaction ends.

    Raises TraceError `not_found`, or `stale_revision` when it is not the revision that the caller saw.
    """
    pk = request if isinstance(request, int) else request.pk
    found = ChangeRequest.objects.select_for_update(of=("self",)).select_related("author").filter(pk=pk)
    row = found.first()
    if row is None:
        raise TraceError(f"There is no change request {pk}.", code="not_found")
    if revision is not None and row.revision != revision:
        raise TraceError(
            f"The request was edited since you opened it: you saw revision {revision}, now it is {row.revision}.",
            code="stale_revision",
            hint="Read what changed, then decide again.",
            extra={"revision": row.revision},
        )
    return row


def possible(verb: str, request: ChangeRequest, actor: Any) -> None:
    """Raise what `refusal` says, if anything. The request is locked by the caller."""
    if error := refusal(verb, request, actor, words_on(request)):
        raise error


def writer(actor: Any) -> None:
    """Raise TraceError `not_allowed` unless the actor may write rules."""
    if error := not_a_writer(actor):
        raise error


def audit_request(
    action: str, request: ChangeRequest, actor: Any, *, before: str = "", **detail: Any
) -> None:
    """One entry `request.<action>` with the revision and the states before and after."""
    facts = {"revision": request.revision, "before": before or None, "after": request.state, **detail}
    audit_models.record(actor=actor, action=f"request.{action}", obj=request, detail=facts)


def tell(event: str, request: ChangeRequest, actor: Any, **facts: Any) -> None:
    """Tell the webhooks `request.<event>`."""
    payload = {
        "request": request.pk,
        "title": request.title,
        "state": request.state,
        "revision": request.revision,
        "author": request.author.username,
        "by": actor.username if actor else None,
    }
    emit(f"request.{event}", payload | facts)


def said(text: str, *, what: str, needed: bool = False) -> str:
    """A reason or comment, trimmed. Raises TraceError `reason_missing`, or `bad_text` when it cannot be kept."""
    text = text.strip()
    if needed and not text:
        raise TraceError(f"The {what} is missing.", code="reason_missing", hint="Say it in one sentence.")
    if len(text) > LONGEST:
        raise TraceError(
            f"The {what} has {len(text):,} characters; at most {LONGEST:,} fit.",
            code="bad_text",
            hint="Shorten it, or link to the long version.",
        )
    if not storable(text):
        raise TraceError(f"The {what} holds a NUL or half a character.", code="bad_text")
    return text


def checked_draft(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with every field. Raises TraceError `bad_rule` for wrong types and sizes."""
    if problems := draft_problems(content):
        raise refused_entry(problems)
    return fill_draft(content)


def short_texts(**given: str) -> dict[str, str]:
    """The short fields, refused when too long for their column."""
    for name, text in given.items():
        if len(text) > LENGTHS[name]:
            raise TraceError(
                f"The {name} has {len(text):,} characters; at most {LENGTHS[name]:,} fit.",
                code="bad_rule",
                where=f"/{name}",
                hint="Shorten it.",
            )
        if not storable(text):
            raise TraceError(
                f"The {name} holds a NUL or half a character.", code="bad_rule", where=f"/{name}"
            )
    return given


@transaction.atomic
def request_create(*, actor: Any, title: str = "", description: str = "") -> ChangeRequest:
    """An empty draft."""
    writer(actor)
    texts = short_texts(title=title.strip(), description=description.strip())
    request = ChangeRequest.objects.create(author=actor, **texts)
    audit_request("created", request, actor)
    return request


@transaction.atomic
def request_describe(
    *, request: ChangeRequest, actor: Any, title: str, description: str, revision: int | None = None
) -> ChangeRequest:
    """Change what the request says about itself; counts as an edit."""
    request = locked(request, revision)
    possible("edit", request, actor)
    texts = short_texts(title=title.strip(), description=description.strip())
    before = {name: getattr(request, name) for name in texts}
    if before != texts:
        request.title, request.description = texts["title"], texts["description"]
        _edited(request, actor, {"was": before["title"], "now": texts["title"]})
    return request


@transaction.atomic
def change_add(
    *,
    request: ChangeRequest,
    actor: Any,
    rule: Rule | None = None,
    action: str = RuleChange.Action.SAVE,
    content: Mapping[str, Any] | None = None,
    domain: str = "",
    code: str = "",
    note: str = "",
    base: RuleVersion | None = None,
    revision: int | None = None,
) -> RuleChange:
    """Add a rule to the request; without `content` the draft begins from the rule's newest version.

    Raises TraceError `conflict` when the request changes that rule already, `bad_state` when there is nothing to
    withdraw, `not_found` when `base` is no version of the rule.
    """
    request = locked(request, revision)
    possible("edit", request, actor)
    if rule is not None and request.changes.filter(rule=rule).exists():
        raise TraceError(
            f"The request already changes {rule.code}.", code="conflict", hint="Edit that change."
        )
    began = _beginning(rule, action, base)
    domain, code = ("", "") if rule else (domain.strip(), code.strip())
    if content is None:
        content = draft_of(version_contents([began])[began.pk]) if began and action == "save" else {}
    change = RuleChange.objects.create(
        request=request,
        action=RuleChange.Action(action),
        rule=rule,
        content=checked_draft(content) if action == "save" else {},
        base=began,
        base_published=rule.published if rule else None,
        edited_by=actor,
        **short_texts(domain=domain, code=code, note=note.strip()),
    )
    _edited(request, actor, {"added": _words(change), "change": change.pk})
    return change


def _beginning(rule: Rule | None, action: str, base: RuleVersion | None) -> RuleVersion | None:
    """The version a change begins from; refuses what cannot begin."""
    if action not in RuleChange.Action.values:
        raise TraceError(f"'{action}' is no action.", code="bad_rule", hint="Use save or withdraw.")
    if rule is None:
        if action == RuleChange.Action.WITHDRAW or base is not None:
            raise TraceError("A new rule has no versions.", code="bad_rule", hint="Name the rule.")
        return None
    rule.refresh_from_db(fields=["published"])
    if action == RuleChange.Action.WITHDRAW and rule.published_id is None:
        raise TraceError(f"{rule.code} is not published.", code="bad_state", hint="Nothing to withdraw.")
    if base is not None and base.rule_id != rule.pk:
        raise TraceError(f"{base} is no version of {rule.code}.", code="not_found")
    return base or rule.versions.order_by("-number").first()


@transaction.atomic
def change_draft(
    *,
    actor: Any,
    rule: Rule | None = None,
    content: Mapping[str, Any] | None = None,
    domain: str = "",
    code: str = "",
) -> RuleChange:
    """The actor's open draft of `rule` as it is, else a new request with one change that begins from `content`."""
    writer(actor)
    if rule is not None:
        # two first saves of one person at once must not make two drafts
        rule = Rule.objects.select_for_update(no_key=True).get(pk=rule.pk)
        mine = RuleChange.objects.filter(
            rule=rule, action=RuleChange.Action.SAVE, request__state=State.DRAFT, request__author=actor
        )
        if found := mine.select_related("request", "rule").order_by("-id").first():
            return found
    request = request_create(actor=actor)
    return change_add(request=request, actor=actor, rule=rule, content=content, domain=domain, code=code)


@transaction.atomic
def change_save(
    *,
    change: RuleChange,
    expected: int,
    actor: Any,
    content: Mapping[str, Any],
    domain: str = "",
    code: str = "",
    note: str = "",
) -> RuleChange:
    """Autosave: `content` may be incomplete. What says the same already keeps its revision, so a retry is harmless.

    Raises TraceError `edited_meanwhile` (extra: revision, by, at) when somebody saved after revision `expected`.
    """
    request, change = _locked_change(change, actor)
    if change.action == RuleChange.Action.WITHDRAW:
        raise TraceError(
            "A withdrawal has no content.", code="bad_state", hint="Remove it, then add an edit."
        )
    domain, code = ("", "") if change.rule else (domain.strip(), code.strip())
    texts = short_texts(domain=domain, code=code, note=note.strip())
    fields = {"content": checked_draft(content), **texts}
    if all(getattr(change, name) == value for name, value in fields.items()):
        return change
    _meanwhile(change, expected)
    before = change.edited_by_id
    for name, value in fields.items():
        setattr(change, name, value)
    _bump(change, actor)
    quiet = before == actor.pk and request.state == State.DRAFT  # an author's own autosaves are not news
    _edited(request, actor, None if quiet else {"edited": _words(change), "change": change.pk})
    change.request = request
    return change


@transaction.atomic
def change_rebase(*, change: RuleChange, expected: int, actor: Any) -> RuleChange:
    """Keep what the change says, on top of what the rule is now: settles a conflict with a newer version."""
    request, change = _locked_change(change, actor)
    _meanwhile(change, expected)
    if change.rule is None:
        raise TraceError("A new rule begins from nothing.", code="bad_state", hint="Choose another code.")
    change.base = _beginning(change.rule, change.action, None)
    change.base_published = change.rule.published
    _bump(change, actor)
    _edited(request, actor, {"rebased": _words(change), "change": change.pk, "onto": str(change.base)})
    change.request = request
    return change


@transaction.atomic
def change_remove(*, change: RuleChange, expected: int, actor: Any) -> ChangeRequest:
    request, change = _locked_change(change, actor)
    _meanwhile(change, expected)
    detail = {"removed": _words(change), "change": change.pk, "content": change.content}
    change.delete()
    _edited(request, actor, detail)
    return request


def _locked_change(change: RuleChange, actor: Any) -> tuple[ChangeRequest, RuleChange]:
    """The request and the change as they are now, held until the transaction ends; refused when not to be edited."""
    request = locked(change.request_id)
    possible("edit", request, actor)
    rows = RuleChange.objects.select_for_update(of=("self",)).select_related("rule__published", "edited_by")
    found = rows.filter(pk=change.pk).first()
    if found is None:
        raise TraceError("The change was removed from its request meanwhile.", code="not_found")
    return request, found


def _meanwhile(change: RuleChange, expected: int) -> None:
    if change.revision == expected:
        return
    who, at = change.edited_by.username, change.edited_at
    when = f"{at:%H:%M:%S} UTC on {at:%-d %b %Y}"
    raise TraceError(
        f"{who} saved this change at {when}, after you opened it; nothing was overwritten.",
        code="edited_meanwhile",
        hint="Compare it with yours, take over what you need, and save again.",
        extra={"revision": change.revision, "by": who, "at": at.isoformat()},
    )


def _words(change: RuleChange) -> str:
    """How the history speaks of the change."""
    withdraws = change.action == RuleChange.Action.WITHDRAW
    return f"the {'withdrawal' if withdraws else 'change'} of {change_label(change)}"


def _bump(change: RuleChange, actor: Any) -> None:
    change.revision += 1
    change.edited_by = actor
    change.save()


def _edited(request: ChangeRequest, actor: Any, detail: dict[str, Any] | None) -> None:
    """Raise the revision, remember the writer, and after submission go back to review; `detail` None: no entry."""
    before = request.state
    request.revision += 1
    if actor.pk != request.author_id and actor.pk not in request.editor_ids:
        request.editor_ids = [*request.editor_ids, actor.pk]
    if before != State.DRAFT:
        request.state = State.IN_REVIEW
    request.apply_at, request.blocked = None, ""
    request.save()
    if detail is not None:
        audit_request("edited", request, actor, before=before, **detail)
