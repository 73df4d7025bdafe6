"""Changes that begin from the rule page: publish a version again, or withdraw the rule. Both go through review."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from rules.book import version_contents
from rules.core.draft import draft_of
from rules.drafts import change_add, request_create
from rules.models import Rule, RuleChange, RuleVersion
from rules.selectors_permits import State
from trace_site.lib.errors import TraceError


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
            f"{rule.code} says already what v{version.number} says: v{rule.published.number} is published.",
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
