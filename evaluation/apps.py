from django.apps import AppConfig

from trace_site.access import ADMIN, ADMINS, PRODUCT_MANAGER, ROLES, WRITERS, Area

ASSIGNERS = (*WRITERS, PRODUCT_MANAGER)


class EvaluationConfig(AppConfig):
    name = "evaluation"
    areas = [
        Area(
            ROLES,
            WRITERS,
            """home coverage-csv coverage-requests coverage-misses coverage-pairs coverage-rules coverage-report
            rule-coverage clusters clusters-map clusters-map-data clusters-map-tools clusters-map-search cluster
            cluster-panel cluster-restore api-coverage-list api-coverage api-coverage-gaps""",
        ),
        Area(WRITERS, WRITERS, "cluster-dismiss"),
        Area(ASSIGNERS, ASSIGNERS, "cluster-assign evaluation:what_if_assign"),
        Area(
            ROLES,
            WRITERS,
            """evaluation:list evaluation:detail evaluation:compare evaluation:benchmark
            evaluation:model evaluation:grid evaluation:pareto evaluation:latency
            evaluation:reliability evaluation:reliability_of_champion
            evaluation:beside evaluation:tool_benchmark evaluation:rule_help
            evaluation:strip evaluation:clauses_of_rule
            evaluation:before_after evaluation:rule_test_counts evaluation:of_rule_tests
            evaluation:run_rule_tests evaluation:start_rule_tests""",
        ),
        Area(
            ROLES,
            ADMINS,
            """evaluation:loop_version evaluation:loop_version_live evaluation:loop_of_rule
            evaluation:loop_of_request evaluation:loop_evaluate evaluation:loop_settings""",
        ),
        Area((ADMIN, PRODUCT_MANAGER), ADMINS, "evaluation:loop"),
        Area(
            ROLES, WRITERS, "evaluation:what_if evaluation:what_if_csv evaluation:what_if_draft api-what-if"
        ),
        Area(
            ROLES,
            ADMINS,
            "evaluation:gate evaluation:gate_start api-evaluation-gate",
        ),
        Area(
            ROLES,
            ROLES,
            """evaluation:playground evaluation:answer evaluation:answer_stream api-retrieve
            api-retrieve-batch api-retrieve-feedback""",
        ),
        # what people asked a copilot
        Area((ADMIN, PRODUCT_MANAGER), ADMINS, "evaluation:requests evaluation:request"),
        Area(ADMINS, ADMINS, "evaluation:requests_policy evaluation:requests_erase"),
    ]
    long_views = (
        "evaluation:answer evaluation:answer_stream evaluation:run_rule_tests evaluation:requests_erase"
    )
    program_views = "api-retrieve api-retrieve-batch api-retrieve-feedback"
    at_start = ["evaluation.requests.log.start"]
    notices = {"rule_result": "A model that learned your rule was gated: whether the rule helped."}
    audit_pages = {"benchmark": "evaluation:benchmark", "evaluation": "evaluation:detail"}
    made_of_snapshots = "evaluation.results.views.made_of_snapshots"
    model_scores = "evaluation.results.scoring.of_models"
    model_gate = "evaluation.gate.selectors.of_model"
    failing_requests = "evaluation.coverage.outcomes.failing_requests"  # see rules.suggestions.services
