"""Writing a change request: what the editor autosaves, and nobody's work is overwritten.

Every edit raises the revision of the request, and of the change it touches. After submission it also clears the
approvals and brings the request back to review.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from catalog.selectors import as_stored
from rules.book import refused_content, version_contents
from rules.changes.permits import audit_request, fitting, held, not_a_writer
from rules.changes.proposals import change_label
from rules.core.draft import draft_of, draft_problems, fill_draft
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion, State
from trace_site.audit_context import token_maker
from trace_site.lib.errors import TraceError

LENGTHS = {"title": 200, "description": 5000, "code": 80, "domain": 60, "note": 300}


def checked_draft(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with every field. Raises TraceError `bad_rule` for wrong types and sizes."""
    content = as_stored(content)
    if problems := draft_problems(content):
        raise refused_content(problems)
    return fill_draft(content)


def short_texts(**given: str) -> dict[str, str]:
    """The short fields, trimmed; refused when too long for their column."""
    return {
        name: fitting(name, text.strip(), LENGTHS[name], code="bad_rule", where=f"/{name}")
        for name, text in given.items()
    }


@transaction.atomic
def request_create(*, actor: Any, title: str = "", description: str = "") -> ChangeRequest:
    """An empty draft."""
    if error := not_a_writer(actor):
        raise error
    texts = short_texts(title=title, description=description)
    request = ChangeRequest.objects.create(author=actor, editor_ids=_new_writers(actor, [actor.pk]), **texts)
    audit_request("created", request, actor)
    return request


@transaction.atomic
def request_describe(
    *, request: ChangeRequest, actor: Any, title: str, description: str, revision: int | None = None
) -> ChangeRequest:
    """Change what the request says about itself; counts as an edit."""
    request = held(request.pk, "edit", actor, revision)
    texts = short_texts(title=title, description=description)
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
    request = held(request.pk, "edit", actor, revision)
    if rule is not None and request.changes.filter(rule=rule).exists():
        raise TraceError(
            f"The request already changes {rule.code}.", code="conflict", hint="Edit that change."
        )
    began = _beginning(rule, action, base)
    if rule is not None:
        domain = code = ""
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
        **short_texts(domain=domain, code=code, note=note),
    )
    _edited(request, actor, {"added": _words(change), "change": change.pk})
    return change


def _beginning(rule: Rule | None, action: str, base: RuleVersion | None) -> RuleVersion | None:
    """The version a change begins from; refuses what cannot begin."""
    if action not in RuleChange.Action.values:
        raise TraceError(f"'{action}' is not an action.", code="bad_rule", hint="Use save or withdraw.")
    if rule is None:
        if action == RuleChange.Action.WITHDRAW or base is not None:
            raise TraceError("A new rule has no versions.", code="bad_rule", hint="Name the rule.")
        return None
    rule.refresh_from_db(fields=["published"])
    if action == RuleChange.Action.WITHDRAW and rule.published_id is None:
        raise TraceError(f"{rule.code} is not published.", code="bad_state", hint="Nothing to withdraw.")
    if base is not None and base.rule_id != rule.pk:
        raise TraceError(f"{base} is not a version of {rule.code}.", code="not_found")
    return base or rule.versions.order_by("-number").first()


def open_draft(rule: Rule, actor: Any) -> RuleChange | None:
    """The actor's own, the one that a first save is written into."""
    mine = RuleChange.objects.filter(
        rule=rule, action=RuleChange.Action.SAVE, request__state=State.DRAFT, request__author=actor
    )
    return mine.select_related("request", "rule").order_by("-id").first()


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
    if error := not_a_writer(actor):
        raise error
    if rule is not None:
        # two first saves of one person at once must not make two drafts
        rule = Rule.objects.select_for_update(no_key=True).get(pk=rule.pk)
        if found := open_draft(rule, actor):
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
    if change.rule:
        domain = code = ""
    texts = short_texts(domain=domain, code=code, note=note)
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
    request = held(change.request_id, "edit", actor)
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
    request.editor_ids += _new_writers(actor, [request.author_id, *request.editor_ids])
    if before != State.DRAFT:
        request.state = State.IN_REVIEW
    request.apply_at, request.blocked = None, ""
    request.save()
    if detail is not None:
        audit_request("edited", request, actor, before=before, **detail)


def _new_writers(actor: Any, known: Sequence[int]) -> list[int]:
    """Who writes now and is not known yet: the actor, and who made the token that the actor works through. The maker
    holds its text, so what a program writes is theirs as well, and not theirs to approve."""
    return [pk for pk in dict.fromkeys((actor.pk, token_maker())) if pk is not None and pk not in known]


# Changes that begin from the rule page: publish a version again, or withdraw the rule. Both go through review.


@transaction.atomic
def version_propose(*, version: RuleVersion, actor: Any) -> RuleChange:
    """A draft that publishes what `version` says: rolling back makes a new version with that content.

    Raises TraceError `bad_state` when exactly this is published already.
    """
    rule = (
        Rule.objects.select_for_update(no_key=True, of=("self",))
        .select_related("published")
        .get(pk=version.rule_id)
    )
    if rule.published and rule.published.content_hash == version.content_hash:
        raise TraceError(
            f"{rule.code} already says what v{version.number} says: v{rule.published.number} is published.",
            code="bad_state",
            hint="There is nothing to change.",
        )
    newest = rule.versions.order_by("-number").first()
    again = newest is not None and newest.pk != version.pk
    note = f"roll back to v{version.number}" if again else f"publish v{version.number}"
    return _propose(
        rule, actor, RuleChange.Action.SAVE, draft_of(version_contents([version])[version.pk]), note
    )


@transaction.atomic
def withdrawal_propose(*, rule: Rule, actor: Any) -> RuleChange:
    """A draft that takes the rule out of what is taught. Raises TraceError `bad_state` when it is not published."""
    rule = Rule.objects.select_for_update(no_key=True).get(pk=rule.pk)
    return _propose(rule, actor, RuleChange.Action.WITHDRAW, {}, "")


def _propose(rule: Rule, actor: Any, action: str, content: Mapping[str, Any], note: str) -> RuleChange:
    """The actor's draft that says so already (a second click), else a new one."""
    mine = RuleChange.objects.filter(request__state=State.DRAFT, request__author=actor.pk)
    same = mine.filter(rule=rule, action=action, content=dict(content)).select_related("request").first()
    if same is not None:
        return same
    request = request_create(actor=actor)
    return change_add(request=request, actor=actor, rule=rule, action=action, content=content, note=note)
