from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from trace_site.access import READERS, ROLES, WRITERS, Area
from trace_site.limits import AROUND_A_FILE, IN_MEMORY, RULES_FILE


def read_versions(apps: Any, **told: Any) -> None:
    """After every migration: what was written before there were readings and clauses, or read by an earlier edition."""
    from rules.services import read_missing

    if "ruleclause" in apps.all_models["rules"]:  # not on the way back
        read_missing()


class RulesConfig(AppConfig):
    name = "rules"
    areas = [
        # what is sent here is checked and answered; nothing is kept
        Area(
            ROLES,
            ROLES,
            """rules:list rules:detail rules:version rules:compare_chosen rules:compare rules:impact
            rules:of_tool rules:tool-search rules:export rules:export_csv rules:sentence_fix rules:check
            rules:confusables rules:affected api-rules api-rules-check api-rule api-rule-versions
            api-rule-version api-rule-diff api-rules-export""",
        ),
        Area(
            ROLES,
            WRITERS,
            """rules:suggestions rules:suggestion rules:suggestions_start rules:suggestion_dismiss
            rules:suggestion_restore api-rule-suggestions api-rule-suggestion api-rule-suggestion-dismiss
            api-rule-suggestion-restore""",
        ),
        Area(
            WRITERS,
            WRITERS,
            """rules:create rules:update rules:fields rules:propose rules:withdraw rules:change
            rules:change_save rules:pair_correct rules:wait rules:import rules:import_request api-rules-import""",
        ),
        Area(
            READERS,
            WRITERS,
            """rules:requests rules:request_count rules:request rules:request_impact rules:request_action
            api-change-requests api-change-request api-change-request-impact api-change-request-submit
            api-change-request-approve api-change-request-reject api-change-request-schedule
            api-change-request-unschedule api-change-request-cancel api-change-request-reopen
            api-change-request-apply api-change-request-bypass api-change-request-comments
            api-change-request-changes api-change api-change-rebase""",
        ),
    ]
    # what the editor holds and what was saved before it, each letter up to nine bytes in a form
    editor = """rules:create rules:update rules:change rules:change_save rules:fields rules:check rules:sentence_fix
        rules:confusables rules:impact"""
    long_views = "rules:import api-rules-import"
    larger_bodies = {
        **dict.fromkeys(("rules:import", "api-rules-import"), RULES_FILE + AROUND_A_FILE),
        **dict.fromkeys(editor.split(), IN_MEMORY),
        "rules:affected": IN_MEMORY,  # every tool that an import changes, by name
    }
    events = {
        "rule.published": "A rule version is now the one that is taught.",
        "rule.withdrawn": "A rule is no longer taught.",
        "request.submitted": "A change request waits for review.",
        "request.approved": "A change request has the approvals it needs.",
        "request.rejected": "A change request was rejected, with a reason.",
        "request.applied": "A change request was applied.",
        "request.blocked": "A scheduled change request could not be applied.",
    }
    audit_pages = {
        "changerequest": "rules:request",
        "rule": "rules:detail",
        "rulesuggestion": "rules:suggestion",
    }
    audit_names = {
        "rules_rulechange": "rule__code",
        "rules_ruleversion": "rule__code",
        "rules_rulereading": "version__rule__code",
        "rules_approval": "request__title",
        "rules_changecomment": "request__title",
    }
    impact = {"tools": "rules.selectors.rules_of_tools"}
    tools_changed = "rules.services.recheck_tools"  # see catalog.services
    ruled_tools = "rules.selectors.ruled_tools"  # see catalog.selectors

    def ready(self) -> None:
        post_migrate.connect(read_versions, sender=self)
