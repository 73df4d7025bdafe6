"""Who may send what to every address of the site: the test's own copy of the decision, read line by line.

A line: the route; the parts of its path as names in the world (world.py) or as they stand; then each method with the
people it is for and, where it is not 200, the status they get. N: nobody signed in, -: an account without a role,
E: domain expert, R: reviewer, A: admin, P: product manager. Who is not named is refused; a method that is not named
does nothing for anybody.
"""

import re
from dataclasses import dataclass, field

METHOD = re.compile(r"(GET|POST|PUT|PATCH|DELETE) ([-NERAP]+)(?: (\d{3}))?$")


@dataclass
class Row:
    """`answers`: {(method, letter): status}."""

    parts: dict[str, str] = field(default_factory=dict)
    answers: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def methods(self) -> set[str]:
        return {method for method, _ in self.answers}


def read(table: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in table.strip().splitlines():
        if not line or line.startswith("#"):
            continue
        head, *methods = re.split(r"  +", line)
        name, *parts = head.split(" ")
        assert name not in rows, f"{name} stands in the table twice"
        row = rows[name] = Row(dict(part.split("=") for part in parts))
        for method in methods:
            found = METHOD.fullmatch(method)
            assert found, f"{line}: {method!r} is no method with its people"
            row.answers |= {(found[1], letter): int(found[3] or 200) for letter in found[2]}
    return rows


TABLE = read("""
# public
login  GET N  GET -ERAP 302  POST N 302  POST -ERAP 302
logout  GET N 302  GET -ERAP  POST N 302  POST -ERAP 302
healthz  GET N-ERAP
api-schema  GET N-ERAP
api-docs  GET N-ERAP
password-set uidb64=invited token=invitation  GET N-ERAP 302  POST N-ERAP 302
# own
account  GET -ERAP
account-token  POST -ERAP
account-token-revoke  POST -ERAP 302
account-service-token-revoke token=own_tokens  POST -ERAP 302
account-password  GET -ERAP  POST -ERAP 302
account-session-end mark=none  POST -ERAP 302
account-sessions-end  POST -ERAP 302
# site
jobs:list  GET ERAP
jobs:detail pk=job  GET ERAP
jobs:card pk=job  GET ERAP
jobs:cancel pk=job  POST A 302
jobs:retry pk=ended_job  POST A 302
notices:list  GET ERAP
notices:unread  GET ERAP
notices:read  POST ERAP 302
notices:mail  POST ERAP 302
notices:open pk=notices  GET ERAP 302
# catalog
catalog:list  GET ERAP
catalog:apis  GET ERAP
catalog:detail pk=tool  GET ERAP
catalog:named name=tool_name  GET ERAP 302
catalog:imports  GET ERAP
catalog:import_detail pk=catalog_import  GET ERAP
catalog:import_undo pk=catalog_import  GET ERAP  POST EA 302
catalog:refresh  POST EA 302
api-tools  GET ERAP
api-tool pk=tool  GET ERAP
api-tool-named name=tool_name  GET ERAP
api-tool-neighbours pk=tool  GET ERAP
api-tool-twins pk=tool  GET ERAP
api-tool-revisions pk=tool  GET ERAP
api-domains  GET ERAP
api-clusters  GET ERAP
api-cluster pk=cluster  GET ERAP
api-imports  GET ERAP  POST EA 201
api-import pk=catalog_import  GET ERAP
api-import-undo pk=catalog_import  GET ERAP  POST EA
# import
catalog:import  GET EA  POST EA
catalog:apply  POST EA 302
catalog:queries_import  GET EA  POST EA
catalog:queries_apply  POST EA 302
# blocking
catalog:block pk=loose  POST A 302
api-tool-block pk=tool  POST A  DELETE A
# coverage
home  GET ERAP  GET - 302
coverage-csv domain=hr  GET ERAP
coverage-requests domain=hr  GET ERAP
coverage-misses domain=hr  GET ERAP
coverage-pairs domain=hr  GET ERAP
coverage-rules domain=hr  GET ERAP
coverage-report domain=hr  GET ERAP
rule-coverage pk=rule  GET ERAP
clusters  GET ERAP
clusters-map  GET ERAP
clusters-map-data domain=hr  GET ERAP
clusters-map-tools domain=hr  GET ERAP
clusters-map-search domain=hr  GET ERAP
cluster pk=cluster  GET ERAP
cluster-panel pk=cluster  GET ERAP
cluster-dismiss pk=cluster  GET EA  POST EA 302
cluster-restore pk=gone_cluster  POST EA 302
cluster-assign pk=cluster  GET EAP  POST EAP 302
api-coverage-list  GET ERAP
api-coverage domain=hr  GET ERAP
api-coverage-gaps domain=hr  GET ERAP
# rules
rules:list  GET ERAP
rules:detail pk=rule  GET ERAP
rules:version pk=rule number=1  GET ERAP
rules:compare_chosen pk=rule  GET ERAP 302
rules:compare pk=rule first=1 second=2  GET ERAP
rules:impact pk=rule  GET ERAP
rules:fields  POST EA
rules:sentence_fix  POST ERAP
rules:check  POST ERAP
rules:confusables  POST ERAP
rules:tool-search  GET ERAP
rules:of_tool pk=tool  GET ERAP
rules:affected  POST ERAP
rules:export  GET ERAP
rules:export_csv  GET ERAP
api-rules  GET ERAP
api-rules-check  POST ERAP
api-rule pk=rule  GET ERAP
api-rule-versions pk=rule  GET ERAP
api-rule-version pk=rule number=1  GET ERAP
api-rule-diff pk=rule  GET ERAP
api-rules-export  GET ERAP
rules:suggestions  GET ERAP
rules:suggestion pk=suggestion  GET ERAP
rules:suggestions_start  POST EA 302
rules:suggestion_dismiss pk=suggestion  POST EA 302
rules:suggestion_restore pk=suggestion  POST EA 302
api-rule-suggestions  GET ERAP
api-rule-suggestion pk=suggestion  GET ERAP
api-rule-suggestion-dismiss pk=suggestion  POST EA
api-rule-suggestion-restore pk=suggestion  POST EA
# rule editor
rules:create  GET EA  POST EA 302
rules:update pk=rule  GET EA  POST EA 302
rules:propose pk=rule number=1  POST EA 302
rules:withdraw pk=rule  POST EA 302
rules:wait pk=rule  POST EA 302
rules:pair_correct pk=rule number=1  POST EA 302
rules:change pk=changes  GET EA  POST EA 302
rules:change_save  POST EA
rules:import  GET EA  POST EA
rules:import_request  POST EA 302
api-rules-import  POST EA 201
# drafts
rules:requests  GET ERA
rules:request_count  GET ERA
rules:request pk=request  GET ERA
rules:request_impact pk=request  GET ERA
rules:request_action pk=request verb=comment  POST EA 302
api-change-requests  GET ERA  POST EA 201
api-change-request pk=drafts  GET ERA  PATCH EA
api-change-request-impact pk=request  GET ERA
api-change-request-submit pk=drafts  POST EA
api-change-request-approve pk=in_review  POST EA
api-change-request-reject pk=in_review  POST EA
api-change-request-schedule pk=agreed  POST EA
api-change-request-unschedule pk=planned  POST EA
api-change-request-cancel pk=drafts  POST EA
api-change-request-reopen pk=cancelled  POST EA
api-change-request-apply pk=agreed  POST EA
api-change-request-bypass pk=in_review  POST A
api-change-request-comments pk=request  POST EA 201
api-change-request-changes pk=drafts  POST EA 201
api-change pk=changes  GET ERA  PUT EA  DELETE EA 204
api-change-rebase pk=behind  POST EA
# synthesis
synthesis:list  GET ERA
synthesis:detail pk=run  GET ERA
synthesis:live pk=run  GET ERA
synthesis:books pk=run  GET ERA
synthesis:groups pk=run  GET ERA
synthesis:cancel pk=running  POST EA 302
synthesis:resume pk=failed  POST EA 302
synthesis:again  GET ERA
synthesis:regenerate  POST EA 302
synthesis:yield  GET ERA
synthesis:yield_csv  GET ERA
api-synthesis-runs  GET ERA  POST EA 201
api-synthesis-run pk=run  GET ERA
api-synthesis-run-cancel pk=running  POST EA
api-synthesis-run-resume pk=failed  POST EA
api-synthesis-run-books pk=run  GET ERA
api-synthesis-run-calls pk=run  GET ERA
api-yield  GET ERA
# synthesis start
synthesis:create  GET EA  POST EA 302
synthesis:estimate  GET EA
synthesis:launch_rules  GET EA
synthesis:editor_preview  POST EA
api-synthesis-estimate  POST EA
# samples
synthesis:samples  GET ERA
synthesis:sample_rules  GET ERA
synthesis:sample pk=sample  GET ERA
synthesis:lineage pk=sample  GET ERA
synthesis:stale pk=sample  GET ERA
synthesis:rule_samples rule_id=rule  GET ERA
synthesis:rule_rejections rule_id=rule  GET ERA
synthesis:rule_counts  GET ERA
synthesis:rule_impact rule_id=rule  GET ERA
synthesis:tool_samples tool_id=tool  GET ERA
synthesis:batches  GET ERA
synthesis:batch pk=batch  GET ERA
synthesis:comments  GET ERA
synthesis:sample_comments pk=sample  GET ERA  POST ERA
synthesis:saved_views  GET ERA  POST ERA
synthesis:saved_view_change pk=views  POST ERA
synthesis:saved_view_delete pk=views  POST ERA
synthesis:guidelines  GET ERA
synthesis:guideline_pane  GET ERA
synthesis:guideline pk=guideline  GET ERA
training:policy_samples pk=policy  GET ERA
api-samples  GET ERA
api-sample pk=sample  GET ERA
api-rejections  GET ERA
api-lineage pk=sample  GET ERA
api-sample-comments pk=sample  GET ERA  POST ERA 201
# review
synthesis:review  GET RA 302
synthesis:review_count  GET RA
synthesis:review_next  POST RA
synthesis:review_heartbeat  POST RA
synthesis:review_release  POST RA
synthesis:undo  POST RA 302
synthesis:review_item pk=mine  GET RA
synthesis:approve pk=mine  POST RA 302
synthesis:reject pk=mine  POST RA 302
synthesis:edit pk=mine  POST RA 302
synthesis:check pk=mine  POST RA
synthesis:skip pk=mine  POST RA 302
synthesis:review_bulk  GET RA
synthesis:bulk_take  POST RA 302
synthesis:bulk_approve  POST RA
synthesis:bulk_keep  POST RA 204
synthesis:bulk_release  POST RA 302
synthesis:bulk_open pk=bulk_items  GET RA
synthesis:batch_create  GET RA  POST RA 302
synthesis:batch_preview  GET RA
synthesis:batch_withdraw pk=batch  POST RA 302
synthesis:quality  GET RA
synthesis:quality_judge  GET RA
synthesis:calibration_draw  POST RA 302
synthesis:quality_reviewers  GET RA
synthesis:quality_csv table=agreement  GET RA
synthesis:team  GET RA
synthesis:assign  POST RA 302
synthesis:assignable  GET RA
synthesis:take_back pk=assignments  POST RA 302
api-review-quality  GET RA
api-review-claims  POST RA
api-review-claim claim=claims  DELETE RA 204
api-review-heartbeat claim=claims  POST RA
api-review-decisions  POST RA
api-review-undo  POST RA
api-assignments  GET RA  POST RA 201
api-assignment pk=assignments  GET RA  DELETE RA 204
# review rules
synthesis:calibration_withdraw  POST A 302
synthesis:second_shares  GET A  POST A 302
synthesis:team_release pk=other  POST A 302
synthesis:reassign pk=assignments  POST A 302
synthesis:guideline_edit  GET A  POST A 302
synthesis:guideline_example pk=decided  POST A 302
# snapshots
synthesis:snapshots  GET ERA
synthesis:snapshot_diff  GET ERA
synthesis:snapshot_members pk=snapshot  GET ERA
synthesis:snapshot pk=snapshot  GET ERA
synthesis:snapshot_card pk=snapshot  GET ERA
synthesis:snapshot_rebuild pk=snapshot  POST EA 302
api-snapshots  GET ERA
api-snapshot-diff  GET ERA
api-snapshot pk=snapshot  GET ERA
api-snapshot-card pk=snapshot  GET ERA
# snapshot start
synthesis:snapshot_create  GET EA  POST EA 302
synthesis:snapshot_preview  GET EA
# exports
synthesis:snapshot_download pk=snapshot  GET A
synthesis:snapshot_file pk=snapshot name=manifest.json  GET A
synthesis:snapshot_zip pk=snapshot  GET A
training:log pk=trained  GET A
api-snapshot-file pk=snapshot name=manifest.json  GET A
# prompts
synthesis:prompts  GET A
synthesis:prompt_counts  GET A
synthesis:prompt_tools  GET A
synthesis:few_shot_counts  GET A
synthesis:prompt name=judge  GET A
synthesis:prompt_preview name=judge  GET A
api-prompts  GET A
api-prompt prompt=judge  GET A
api-prompt-preview prompt=judge  GET A
# requests
catalog:queries  GET A
catalog:query_remove pk=query  POST A 302
api-query pk=query  GET A  DELETE A 204
# requests import
api-queries  GET A  POST EA 201
# training
training:list  GET ERAP
training:compare  GET ERAP
training:queue  GET ERAP
training:queue_live  GET ERAP
training:detail pk=trained  GET ERAP
training:live pk=training  GET ERAP
training:curves pk=training  GET ERAP
training:yaml pk=trained  GET ERAP
training:cancel pk=training  POST A 302
training:resume pk=broken  POST A 302
training:of_snapshot snapshot_id=snapshot  GET ERAP
training:grids  GET ERAP
training:grid pk=grid  GET ERAP
training:grid_live pk=grid  GET ERAP
training:grid_cancel pk=grid  POST A 302
training:grid_resume pk=grid  POST A 302
training:models  GET ERAP
training:model pk=model  GET ERAP
training:newer pk=old_model  GET ERAP
training:promote pk=rival  GET ERAP  POST A 302
training:rollback pk=old_model  POST A 302
training:challenger pk=rival  POST A 302
training:keep pk=model  POST A 302
training:policies  GET ERAP
training:policy_preview pk=policy  GET ERAP
training:policy_switch pk=policy  POST A 302
training:policy_start pk=policy  POST A 302
api-training-bases  GET ERAP
api-training-estimate  POST A
api-training-runs  GET ERAP  POST A 201
api-training-run pk=training  GET ERAP
api-training-run-metrics pk=training  GET ERAP
api-training-run-cancel pk=training  POST A
api-training-run-resume pk=broken  POST A
api-training-models  GET ERAP
api-training-model pk=model  GET ERAP
api-training-promote pk=rival  POST A
api-training-rollback pk=old_model  POST A
api-training-aliases  GET ERAP
# training start
training:create  GET A  POST A 302
training:estimate  GET A
training:recipe_download  POST A
training:recipe  GET A
training:grid_create  GET A  POST A 302
training:grid_preview  GET A
training:imports  GET A
training:import_adopt  POST A 302
training:retention  GET A  POST A 302
training:policy_create  GET A  POST A 302
training:policy_edit pk=policy  GET A  POST A 302
# evaluation
evaluation:list  GET ERAP
evaluation:detail pk=evaluation  GET ERAP
evaluation:compare  GET ERAP
evaluation:model pk=model  GET ERAP
evaluation:grid  GET ERAP
evaluation:pareto  GET ERAP
evaluation:latency  GET ERAP
evaluation:benchmark pk=benchmark  GET ERAP
evaluation:reliability pk=model  GET ERAP
evaluation:reliability_of_champion  GET ERAP
evaluation:beside pk=model  GET ERAP
evaluation:what_if  GET ERAP
evaluation:what_if_csv  GET ERAP
evaluation:what_if_assign  POST EAP 302
evaluation:what_if_draft  POST EA 302
api-what-if  GET ERAP
evaluation:strip  GET ERAP
evaluation:loop  GET AP
evaluation:loop_settings  POST A 302
evaluation:loop_version pk=version  GET ERAP
evaluation:loop_version_live pk=version  GET ERAP
evaluation:loop_of_rule rule_id=rule  GET ERAP
evaluation:loop_of_request request_id=request  GET ERAP
evaluation:loop_evaluate model_id=rival  POST A 302
evaluation:tool_benchmark tool_id=tool  GET ERAP
evaluation:gate pk=gate_report  GET ERAP
evaluation:gate_start pk=rival  POST A 302
api-evaluation-gate pk=rival  GET ERAP  POST A 202
evaluation:rule_help rule_id=rule  GET ERAP
evaluation:clauses_of_rule rule_id=rule  GET ERAP
evaluation:before_after  GET ERAP 302
evaluation:run_rule_tests  POST EA
evaluation:rule_test_counts  GET ERAP
evaluation:of_rule_tests rule_id=rule  GET ERAP
evaluation:start_rule_tests rule_id=rule  POST EA
# retrieval
evaluation:playground  GET ERAP
evaluation:answer  GET ERAP
evaluation:answer_stream  GET ERAP
evaluation:requests  GET AP
evaluation:request pk=asked  GET AP
evaluation:requests_policy  POST A 302
evaluation:requests_erase  POST A 302
api-retrieve  POST ERAP
api-retrieve-batch  POST ERAP
api-retrieve-feedback key=request_ids  POST ERAP
# audit
audit  GET A
audit-csv  GET A
audit-event pk=entry  GET A
audit-change pk=row_change  GET A
api-audit  GET A
# webhooks
webhooks:list  GET A  POST A 302
webhooks:detail pk=hook  GET A  POST A 302
webhooks:test pk=hook  POST A 302
webhooks:pause pk=hook  POST A 302
webhooks:resume pk=hook  POST A 302
webhooks:rotate pk=hook  POST A 302
webhooks:delete pk=hook  POST A 302
webhooks:delivery pk=delivery  GET A
webhooks:again pk=delivery  POST A 302
api-webhooks  GET A  POST A 201
api-webhook pk=hook  GET A  PATCH A  DELETE A 204
api-webhook-test pk=hook  POST A
api-webhook-secret pk=hook  POST A
api-webhook-deliveries pk=hook  GET A
api-webhook-send pk=hook delivery=delivery  POST A
# people
people:list  GET A  POST A
people:person pk=other  GET A  POST A 302
people:reset pk=other  POST A
people:deactivate pk=other  POST A 302
people:activate pk=away  POST A 302
people:token pk=program  POST A
people:token_rotate pk=program token=service_token  POST A
people:token_permit pk=program token=service_token  POST A 302
people:token_revoke pk=program token=service_token  POST A 302
# admin
""")
