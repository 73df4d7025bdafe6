"""Answers say which clause decided, evaluations how many they were measured with, outcomes whether one was missed."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("evaluation", "0010_as_served"), ("rules", "0006_waits")]

    operations = [
        migrations.AddField(
            "Evaluation",
            "clauses",
            models.JSONField(
                null=True,
                help_text="{clauses, rules, untrained}: how many it answered with, of how many rules, and how many of them it "
                "was not trained on; null: of a probe or the baseline, or measured before this was kept",
            ),
        ),
        migrations.AddField(
            "RetrievalRequest",
            "clause",
            models.CharField(
                max_length=700,
                blank=True,
                db_default="",
                help_text="token of the clause of a rule that decided; empty: none did",
            ),
        ),
        migrations.AddIndex(
            "RetrievalRequest",
            models.Index(fields=["clause"], condition=~models.Q(clause=""), name="request_by_clause"),
        ),
        migrations.AddField(
            "LabelledOutcome",
            "is_exception",
            models.BooleanField(
                default=False, help_text="the rule that decides leads to another tool than its target here"
            ),
        ),
        migrations.AddField(
            "LabelledOutcome",
            "unspoken",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="rules.rule",
                help_text="of a wrong answer of the model: the rule that decides the request, whose clause was not chosen",
            ),
        ),
        migrations.AlterField(
            "DomainRollup",
            "groups",
            models.JSONField(
                help_text="{all, covered, exceptions, uncovered, outside: {n, wrong, n_embedding, wrong_embedding}}"
            ),
        ),
        migrations.AlterField(
            "DomainPoint",
            "groups",
            models.JSONField(
                help_text="{all, covered, exceptions, uncovered, outside: {n, wrong, n_embedding, wrong_embedding}}"
            ),
        ),
    ]
