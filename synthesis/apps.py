from django.apps import AppConfig

from trace_site.access import ADMINS, READERS, REVIEWERS, WRITERS, Area
from trace_site.limits import IN_MEMORY


class SynthesisConfig(AppConfig):
    name = "synthesis"
    areas = [
        Area(
            READERS,
            WRITERS,
            """synthesis:list synthesis:detail synthesis:live synthesis:books synthesis:groups synthesis:cancel
            synthesis:resume synthesis:again synthesis:regenerate synthesis:yield synthesis:yield_csv
            api-synthesis-runs api-synthesis-run api-synthesis-run-cancel api-synthesis-run-resume
            api-synthesis-run-books api-synthesis-run-calls api-yield synthesis:snapshots synthesis:snapshot
            synthesis:snapshot_diff synthesis:snapshot_members synthesis:snapshot_card
            synthesis:snapshot_rebuild api-snapshots api-snapshot api-snapshot-diff api-snapshot-card""",
        ),
        Area(
            WRITERS,
            WRITERS,
            """synthesis:create synthesis:estimate synthesis:launch_rules synthesis:editor_preview
            api-synthesis-estimate synthesis:snapshot_create synthesis:snapshot_preview""",
        ),
        # what is sent here is a comment, or a search kept for oneself
        Area(
            READERS,
            READERS,
            """synthesis:samples synthesis:sample_rules synthesis:sample synthesis:lineage synthesis:stale
            synthesis:rule_samples synthesis:rule_rejections synthesis:rule_counts synthesis:rule_impact
            synthesis:tool_samples synthesis:comments synthesis:sample_comments synthesis:saved_views
            synthesis:saved_view_change synthesis:saved_view_delete synthesis:guidelines synthesis:guideline
            synthesis:guideline_pane synthesis:batches synthesis:batch api-samples api-sample api-lineage
            api-rejections api-sample-comments""",
        ),
        Area(
            REVIEWERS,
            REVIEWERS,
            """synthesis:review synthesis:review_count synthesis:review_next synthesis:review_heartbeat
            synthesis:review_release synthesis:review_item synthesis:undo synthesis:approve synthesis:reject
            synthesis:edit synthesis:check synthesis:skip synthesis:review_bulk synthesis:bulk_take
            synthesis:bulk_approve synthesis:bulk_keep synthesis:bulk_release synthesis:bulk_open
            synthesis:batch_create synthesis:batch_preview synthesis:batch_withdraw synthesis:quality
            synthesis:quality_judge synthesis:quality_reviewers synthesis:quality_csv
            synthesis:calibration_draw synthesis:team synthesis:assign synthesis:assignable
            synthesis:take_back api-review-claims api-review-claim api-review-heartbeat api-review-decisions
            api-review-undo api-review-quality api-assignments api-assignment""",
        ),
        Area(
            ADMINS,
            ADMINS,
            """synthesis:reassign synthesis:team_release synthesis:second_shares synthesis:calibration_withdraw
            synthesis:guideline_edit synthesis:guideline_example synthesis:snapshot_download
            synthesis:snapshot_file synthesis:snapshot_zip api-snapshot-file synthesis:prompts
            synthesis:prompt synthesis:prompt_counts synthesis:prompt_tools synthesis:prompt_preview
            synthesis:few_shot_counts api-prompts api-prompt api-prompt-preview""",
        ),
    ]
    larger_bodies = {"synthesis:editor_preview": IN_MEMORY}
    long_views = """synthesis:create synthesis:editor_preview synthesis:estimate synthesis:snapshot_card
        synthesis:snapshot_download synthesis:snapshot_file synthesis:snapshot_zip api-snapshot-card
        api-snapshot-file api-synthesis-estimate api-synthesis-runs"""
    events = {
        "sample.approved": "Samples were approved, one by one or by a policy.",
        "batch.failed": "A batch failed its acceptance sampling; all of it is read.",
        "snapshot.frozen": "A dataset was frozen.",
    }
    notices = {
        "assignment": "Samples were assigned to you.",
        "rule_rejections": "Reviewers rejected samples of your rule.",
        "adjudication": "Two reviewers disagree; a third is needed.",
        "batch_failed": "A batch failed its acceptance sampling.",
        "comment": "Somebody commented on a sample you decided or mentioned you.",
    }
    audit_pages = {
        "guideline": "synthesis:guideline",
        "sample": "synthesis:sample",
        "snapshot": "synthesis:snapshot",
        "synthesisrun": "synthesis:detail",
    }
    audit_veils = ("synthesis.review.selectors.READINGS", "synthesis.review.selectors.COMMENTS")
    impact = {"rules": "synthesis.samples.impact.of_rules", "tools": "synthesis.samples.impact.of_tools"}
    rule_wording = "synthesis.llm.suggested.worded"  # see rules.suggestions.services
