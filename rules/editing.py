"""Saving from the editor: nothing that somebody else saved meanwhile is overwritten."""

from typing import Any

from django.db import transaction

from rules.forms import RuleForm
from rules.models import Rule, RuleVersion
from rules.services import SavedRule, rule_save


class EditedMeanwhile(Exception):
    """Somebody saved `newest` after this form was opened."""

    def __init__(self, newest: RuleVersion) -> None:
        super().__init__(str(newest))
        self.newest = newest


@transaction.atomic
def rule_form_save(*, form: RuleForm, rule: Rule | None, publish: bool, actor: Any) -> SavedRule:
    """Save the form as the next version; raises EditedMeanwhile when somebody saved one since it was opened."""
    if rule is not None:
        Rule.objects.select_for_update().get(pk=rule.pk)
        newest = rule.versions.select_related("author", "rule").order_by("-number").first()
        if newest is not None and newest.number != form.base:
            raise EditedMeanwhile(newest)
    return rule_save(
        **form.content(),
        domain=form.domain,
        code=form.code,
        note=form.note,
        rule=rule,
        actor=actor,
        publish=publish,
    )
