"""Groups of requests are told at the look, by rules and clusters as they stand; no definition of them is kept.

A point of the trend keeps the rule versions that it was counted by.
"""

import django.contrib.postgres.fields
from django.db import migrations, models

VERSIONS = """
SELECT trace_let_go('evaluation_domainpoint');
UPDATE evaluation_domainpoint p
SET versions = ARRAY(SELECT jsonb_array_elements_text(coalesce(d.rules -> p.domain_id, '[]'))::bigint)
FROM evaluation_groupdefinition d WHERE d.id = p.definition_id;
SELECT trace_freeze('evaluation_domainpoint');
UPDATE evaluation_domainrollup r
SET versions = ARRAY(SELECT jsonb_array_elements_text(coalesce(d.rules -> r.domain_id, '[]'))::bigint)
FROM evaluation_groupdefinition d WHERE d.id = r.definition_id;
"""
# groups and citations of an answer are no longer written anew
HELD = """
SELECT trace_let_go('evaluation_evaluation', 'evaluation_prediction');
SELECT trace_keep('evaluation_evaluation', '{metrics,"hardware,backend","hardware,at_once"}');
DROP TRIGGER evaluation_evaluation_not_deleted ON evaluation_evaluation;
SELECT trace_keep('evaluation_prediction', '{"scores,refused"}');
"""


GROUPS = (
    "{all, covered, exceptions, uncovered, outside: {n, wrong, n_embedding, wrong_embedding, answer}}; "
    "answer: whether the model is better than the embedding there"
)


def versions():
    return django.contrib.postgres.fields.ArrayField(
        models.BigIntegerField(), default=list, help_text="ids of the published rule versions"
    )


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0013_database_clock")]
    operations = [
        migrations.AddField("domainpoint", "versions", versions()),
        migrations.AddField("domainrollup", "versions", versions()),
        migrations.RunSQL(VERSIONS, migrations.RunSQL.noop),
        migrations.AddField(
            "domainrollup",
            "sorted_by",
            models.CharField(default="", max_length=64, help_text="hash of the rules and clusters of all domains"),
            preserve_default=False,
        ),
        migrations.RemoveField("domainpoint", "definition"),
        migrations.RemoveField("domainrollup", "definition"),
        migrations.RemoveField("gatereport", "definition"),
        migrations.RemoveField("evaluation", "definition"),
        migrations.RemoveField("evaluation", "clusterings"),
        migrations.DeleteModel("GroupDefinition"),
        migrations.DeleteModel("Comparison"),
        migrations.RunSQL(HELD, migrations.RunSQL.noop),
        *(
            migrations.AlterField(model, "groups", models.JSONField(help_text=GROUPS))
            for model in ("domainpoint", "domainrollup")
        ),
        migrations.AlterField(
            "evaluation",
            "metrics",
            models.JSONField(
                null=True,
                help_text="null until finished; evaluation.core.report, without the groups of rules and clusters, "
                "which are told at the look",
            ),
        ),
        migrations.AlterField(
            "gatereport",
            "counted_from",
            models.JSONField(
                default=dict,
                help_text="{rule: of deciding, weights: [digests], backends, evaluations: [keys], benchmarks: [ids], "
                "rule_tests: [ids], groups: hash of what sorts them, answers: hash of groups and scores}",
            ),
        ),
    ]
