"""Moves of the alias and decisions to retrain are frozen; the ledger is told of all but a run's progress."""

from django.db import migrations

SQL = """
SELECT trace_freeze('training_aliasmove');
SELECT trace_freeze('training_retraining');
SELECT trace_audit('training_run', omit => '{log_tail,summary,hardware}');
SELECT trace_audit('training_model', omit => '{card}');
SELECT trace_audit('training_aliasmove');
SELECT trace_audit('training_grid');
SELECT trace_audit('training_retrainpolicy');
SELECT trace_audit('training_retraining');
"""


class Migration(migrations.Migration):
    dependencies = [("training", "0001_initial"), ("trace_site", "0002_triggers")]
    operations = [migrations.RunSQL(SQL)]
