from django.apps import AppConfig

from trace_site.access import ROLES, WRITERS, Area


class EvaluationConfig(AppConfig):
    name = "evaluation"
    default_auto_field = "django.db.models.BigAutoField"
    areas = [
        Area(
            ROLES,
            WRITERS,
            """home coverage-csv rule-coverage clusters clusters-map clusters-map-data clusters-map-tools
            clusters-map-search cluster cluster-panel cluster-dismiss cluster-restore""",
        ),
        Area(
            ROLES,
            WRITERS,
            """evaluation:list evaluation:detail evaluation:compare evaluation:benchmark evaluation:groups
            evaluation:compare_models evaluation:model evaluation:grid evaluation:pareto evaluation:latency
            evaluation:model_scores evaluation:reliability evaluation:reliability_of_champion
            evaluation:beside evaluation:beside_of_run evaluation:tool_benchmark evaluation:rule_help
            evaluation:before_after evaluation:rule_test_counts evaluation:of_rule_tests
            evaluation:run_rule_tests evaluation:start_rule_tests""",
        ),
        Area(ROLES, ROLES, "evaluation:playground evaluation:answer api-retrieve"),
    ]
    long_views = "evaluation:answer evaluation:run_rule_tests api-retrieve"
    audit_pages = {"benchmark": "evaluation:benchmark", "evaluation": "evaluation:detail"}
    made_of_snapshots = "evaluation.results.views.made_of_snapshots"
    model_scores = "evaluation.results.scoring.of_models"
