"""What is sent to each address that takes something: a form of a page, or JSON to the API."""

import json
from types import SimpleNamespace
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from catalog.services import tool_block

TEXT = "Requests of one person go to Loose/One from 2024 on, those of a group to Loose/Two, in every country."
RULE = {"tool_name": "Loose/One", "confusables": ["Loose/Two"], "rule_text": TEXT}
FORM = {
    "target": "Loose/One",
    "confusables": ["Loose/Two"],
    "text": TEXT,
    "code": "LOOSE_ONE",
    "domain": "hr",
}
RUN = {"branch": "rule", "writer": "offline", "domain": "hr", "rule": "PAYSLIP_PERIOD", "per_rule": 2}
CELL = {"base": "pocket", "format": "a", "memo": "none", "retrieval": "r", "seed": "1"}
TOOLS = '{"name": "Leave/New", "description": "New leave."}\n'
PASSWORD = "three plain words, 7 of them"
QUERIES = ["could you tell me when the next holiday of my region is"]
TOKEN = {"name": "copilot", "scopes": ["retrieve"], "days": "30", "holds": "these"}
HOOK = {"url": "https://two.example/in", "events": ["rule.published"]}
NOTHING = """
    logout account-token-revoke account-session-end account-sessions-end password-set
    jobs:cancel jobs:retry catalog:import_undo catalog:refresh
    cluster-restore rules:propose rules:withdraw rules:suggestions_start rules:suggestion_restore
    api-rule-suggestion-restore
    synthesis:cancel synthesis:resume synthesis:regenerate synthesis:review_next synthesis:undo synthesis:skip
    synthesis:batch_withdraw synthesis:take_back synthesis:calibration_withdraw synthesis:team_release
    synthesis:guideline_example synthesis:snapshot_rebuild synthesis:saved_view_delete
    training:cancel training:resume training:grid_cancel training:grid_resume training:policy_start
    training:retention catalog:query_remove evaluation:start_rule_tests evaluation:gate_start
    evaluation:loop_evaluate
    people:reset people:deactivate people:activate people:token_revoke account-service-token-revoke
    webhooks:test webhooks:pause webhooks:resume webhooks:rotate webhooks:delete webhooks:again
    api-import-undo api-query api-change api-change-rebase api-synthesis-run-cancel
    api-synthesis-run-resume api-review-claims api-review-claim api-review-heartbeat api-review-undo api-assignment
    api-training-run-cancel api-training-run-resume api-training-promote api-training-rollback
    api-evaluation-gate
    api-webhook api-webhook-test api-webhook-secret api-webhook-send
"""


def queries(w: SimpleNamespace) -> dict[str, dict[str, Any]]:
    """The query strings of addresses that say little or nothing without one."""
    two = {"run": [w.trained.pk, w.training.pk]}
    return {
        "clusters-map-search": {"q": "pay"},
        "clusters-map-tools": {"ids": w.cluster.pk},
        "rules:compare_chosen": {"from": 1, "to": 2},
        "rules:tool-search": {"q": "pay"},
        "synthesis:rule_counts": {"rules": w.rule.pk},
        "synthesis:estimate": RUN,
        "synthesis:saved_views": {"page": "samples"},
        "synthesis:snapshot_preview": {"strategy": "append", "per_rule": 2, "branches": "rule", "seed": 0},
        "synthesis:batch_preview": {"rule": w.rule.code, "level": "II", "aql": "1.0"},
        "synthesis:few_shot_counts": {"queries": w.query.pk},
        "training:compare": two,
        "training:estimate": CELL | {"snapshot": w.snapshot.pk},
        "training:grid_preview": grid(w),
        "evaluation:what_if": {"domain": "hr", "gap": w.cluster.pk},
        "evaluation:what_if_csv": {"domain": "hr", "gap": w.cluster.pk},
        "api-what-if": {"domain": "hr", "gap": w.cluster.pk},
        "evaluation:compare": {"a": w.evaluation.pk, "b": w.before.pk},
        "evaluation:rule_test_counts": {"rules": w.rule.pk},
        "evaluation:answer": {"q": "my payslip of March 2024", "mode": "fast", "model": w.model.pk},
        "evaluation:answer_stream": {
            "q": "my payslip of March 2024",
            "mode": "trace",
            "model": w.model.pk,
        },
        "evaluation:playground": {"q": "my payslip of March 2024"},
        "api-rule-diff": {"from": 1, "to": 2},
        "api-prompt-preview": {"rule": w.rule.code, "kind": "explicit"},
        "api-snapshot-diff": {"a": w.snapshot.pk, "b": w.snapshot.pk},
    }


def grid(w: SimpleNamespace) -> dict[str, Any]:
    axes = {"formats": ["a"], "memos": ["none"], "retrievals": ["n"], "seeds": "3", "base": "pocket"}
    return {"name": "small", "snapshots": [w.snapshot.pk], "recipe": "", **axes}


def headers(w: SimpleNamespace, route: str, who: str) -> dict[str, str]:
    if route == "api-change":
        return {"If-Match": f'"{own(w.changes, who).revision}"'}
    if route == "api-change-rebase":
        return {"If-Match": f'"{w.behind.revision}"'}
    if route == "api-change-request":
        return {"If-Match": f'"{own(w.drafts, who).revision}"'}
    return {}


def ticket(w: SimpleNamespace, who: str, route: str) -> str:
    """What the preview of this person's file gives to apply it by."""
    page = w.clients[who].post(reverse(route), bodies(w, who)[route]) if who in "EA" else None
    return page.context["ticket"] if page else "none"


def own(kept: Any, who: str) -> Any:
    """What is this person's own, or somebody's."""
    return kept.get(who) or next(iter(kept.values())) if isinstance(kept, dict) else kept


def file(name: str, content: str | bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content if isinstance(content, bytes) else content.encode())


def bodies(w: SimpleNamespace, who: str) -> dict[str, Any]:
    """{route, or "PUT route" where a method sends something of its own: what is sent}."""
    claimed, draft = own(w.claimed, who), own(w.drafts, who)
    held = {"claim": str(claimed.claim), "seen": own(w.seen, who), "seconds": "4"}
    items = {"items": json.dumps({str(claimed.pk): str(claimed.claim)})}
    texts = {"query": f"{claimed.sample.query} please", "trace": claimed.sample.trace}
    edited = {**held, **texts, "answer": claimed.sample.answer}
    policy = {**CELL, "approved_samples": 40, "changed_rules": 2, "quiet_minutes": 15, "per_rule": 6}
    policy |= {"strategy": "append", "branches": ["rrb", "rule"], "snapshot_seed": 0}
    change = own(w.changes, who)
    api_run = {**RUN, "budget": {"calls": 2000}}
    api_cell = {**CELL, "seed": 1, "snapshot": w.snapshot.pk}
    revision = {"revision": draft.revision}
    sent = {
        "login": {"username": "expert", "password": "pass"},
        "account-password": {
            "old_password": "pass",
            **dict.fromkeys(["new_password1", "new_password2"], PASSWORD),
        },
        "notices:read": {"notice": own(w.notices, who).pk},
        "notices:mail": {"kinds": ["assignment"]},
        "catalog:import": {"file": file("new.jsonl", TOOLS), "domain": "leave", "format": "auto"},
        "catalog:apply": lambda: {"ticket": ticket(w, who, "catalog:import"), "choice": "apply"},
        "catalog:queries_import": {"collection": "desk", "pasted": "\n".join(QUERIES)},
        "catalog:queries_apply": {"collection": "desk", "text-1": QUERIES[0]},
        "catalog:block": {"because": "down until Monday"},
        "cluster-dismiss": {"reason": "the descriptions are enough"},
        "evaluation:what_if_assign": {"domain": "hr", "gap": w.cluster.pk},
        "evaluation:what_if_draft": {"domain": "hr", "gap": w.cluster.pk},
        "cluster-assign": {"owner": w.people["E"].pk, "due": timezone.localdate()},
        "rules:suggestion_dismiss": {"reason": "the descriptions are enough"},
        "rules:fields": FORM,
        "rules:wait": {"waits": "yes"},
        "rules:pair_correct": {
            "pair": "-".join(map(str, w.version.tool_ids[:2])),
            "apart": "no",
            "reason": "one case for both",
        },
        "rules:sentence_fix": FORM,
        "rules:check": FORM,
        "rules:confusables": FORM,
        "rules:affected": {"names": w.tool.name},
        "rules:create": {**FORM, "do": "save"},
        "rules:update": {**FORM, "do": "save", "code": w.rule.code, "began": w.version.number},
        "rules:change": {**FORM, "do": "save", "change": change.pk, "revision": change.revision},
        "rules:change_save": {**FORM, "do": "save"},
        "rules:import": {"file": file("rules.json", json.dumps([{**RULE, "code": "LOOSE", "domain": "hr"}]))},
        "rules:import_request": lambda: {"ticket": ticket(w, who, "rules:import"), "title": "Loose ones"},
        "rules:request_action": {"revision": w.request.revision, "text": "Does this hold for all?"},
        "synthesis:create": RUN,
        "synthesis:editor_preview": FORM,
        "synthesis:review_heartbeat": items,
        "synthesis:review_release": items,
        "synthesis:approve": held,
        "synthesis:reject": {**held, "reason": "unnatural", "note": "nobody says so"},
        "synthesis:edit": edited,
        "synthesis:check": edited,
        "synthesis:bulk_take": {"rule": w.rule.code},
        "synthesis:bulk_approve": {"rule": w.rule.code, "token": own(w.bulk_tokens, who)},
        "synthesis:bulk_keep": {"rule": w.rule.code},
        "synthesis:bulk_release": {"rule": w.rule.code},
        "synthesis:batch_create": {"rule": w.rule.code, "level": "II", "aql": "1.0", "seed": 3},
        "synthesis:calibration_draw": {"count": 1, "seed": 1},
        "synthesis:assign": {"count": 1, "note": "by Friday"},
        "synthesis:reassign": {"assignee": w.other.pk},
        "synthesis:second_shares": {"share||": "10", "was||": ""},
        "synthesis:guideline_edit": {"text": "Be plain and short.", "base": 0},
        "synthesis:sample_comments": {"text": "Is the year meant?"},
        "synthesis:saved_views": {"page": "samples", "name": "new", "query": "machine=ready"},
        "synthesis:saved_view_change": {"name": "renamed"},
        "synthesis:snapshot_create": {"strategy": "append", "per_rule": 1, "branches": ["rule"], "seed": 5},
        "training:create": {**CELL, "snapshot": w.snapshot.pk},
        "training:recipe_download": {**CELL, "snapshot": w.snapshot.pk},
        "training:grid_create": grid(w),
        "training:import_adopt": {"folder": "delivered"},
        "training:policy_create": {**policy, "name": "tax line"},
        "training:policy_edit": {**policy, "name": "hr line"},
        "training:policy_switch": {"active": "on"},
        "training:promote": {"note": "better where rules are"},
        "training:rollback": {"note": "worse on HR"},
        "training:challenger": {"note": "to be watched"},
        "training:keep": {"note": "in the report"},
        "evaluation:loop_settings": {"write": "on", "per_rule": 12, "most_load": "0.75"},
        "evaluation:run_rule_tests": {**FORM, "test-0-query": "my leave", "test-0-tools": "Loose/One"},
        "people:list": {"username": "ida", "roles": ["expert"]},
        "people:person": {"email": "olga@example.org", "roles": ["reviewer"]},
        "account-token": {"holds": "all", "password": "pass"},
        "people:token": {**TOKEN, "password": "pass"},
        "people:token_rotate": {"password": "pass"},
        "people:token_permit": {"holds": "these", "permissions": "pay.read"},
        "webhooks:list": HOOK,
        "webhooks:detail": HOOK,
        "api-imports": {"domain": "leave", "filename": "new.jsonl", "content": TOOLS},
        "DELETE api-tool-block": lambda: tool_block(tool=w.tool, because="down", actor=w.other) and {},
        "POST api-tool-block": {"because": "down until Monday"},
        "api-queries": {"collection": "desk", "queries": QUERIES},
        "api-rules-check": RULE,
        "api-rule-suggestion-dismiss": {"reason": "the descriptions are enough"},
        "api-rules-import": [{**RULE, "code": "LOOSE", "domain": "hr"}],
        "api-change-requests": {
            "title": "Loose ones",
            "changes": [{**RULE, "code": "LOOSE", "domain": "hr"}],
        },
        "api-change-request": {"description": "Why it is so."},
        "api-change-request-submit": revision,
        "api-change-request-approve": {"revision": w.in_review.revision, "comment": "Checked."},
        "api-change-request-reject": {"revision": w.in_review.revision, "reason": "It was moved."},
        "api-change-request-schedule": {"at": "2100-01-01T00:00:00Z"},
        "api-change-request-unschedule": {"revision": w.planned.revision},
        "api-change-request-cancel": {"reason": "settled"},
        "api-change-request-reopen": {"revision": own(w.cancelled, who).revision},
        "api-change-request-apply": {"revision": w.agreed.revision},
        "api-change-request-bypass": {"reason": "It closes tonight and sends people to a dead tool."},
        "api-change-request-comments": {"text": "Does this hold for all?"},
        "api-change-request-changes": {**RULE, "code": "LOOSE_TWO", "domain": "hr"},
        "PUT api-change": RULE,
        "api-synthesis-estimate": api_run,
        "api-synthesis-runs": api_run,
        "api-review-decisions": {"claim": str(claimed.claim), "verdict": "approve", "seen": own(w.seen, who)},
        "api-assignments": {"filters": {}, "count": 1},
        "api-sample-comments": {"text": "Is the year meant?"},
        "api-training-estimate": api_cell,
        "api-training-runs": api_cell,
        "api-training-promote": {"note": "better where rules are"},
        "api-training-rollback": {"note": "worse on HR"},
        "evaluation:requests_policy": {"share": "5", "days": "7", "keeps_texts": "on"},
        "evaluation:requests_erase": {"caller": "employee 4711"},
        "api-retrieve": {"query": "my payslip of March 2024", "mode": "fast"},
        "api-retrieve-batch": {"requests": [{"query": "my payslip of March 2024"}]},
        "api-retrieve-feedback": {"verdict": "wrong", "query": "my payslip", "tools": ["Loose/One"]},
        "api-webhooks": HOOK,
        "PATCH api-webhook": {"active": False},
    }
    return dict.fromkeys(NOTHING.split(), {}) | sent
