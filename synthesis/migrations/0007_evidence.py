"""What was paid for stays: an answer from the first, an exchange once it has ended."""

from django.db import migrations

HELD = """
SELECT trace_freeze('synthesis_modelreply');
SELECT trace_keep('synthesis_modelcall', open => 'OLD.ended_at IS NULL');
"""
LET_GO = "SELECT trace_let_go('synthesis_modelreply', 'synthesis_modelcall')"


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0006_answer"), ("trace_site", "0009_evidence")]
    operations = [migrations.RunSQL(HELD, LET_GO)]
