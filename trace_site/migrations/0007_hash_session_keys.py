"""The table of sessions holds the hash of each key; who is signed in stays so."""

from django.db import migrations

HASHED = """
UPDATE trace_site_session
SET session_key = left(encode(sha256(convert_to(session_key, 'UTF8')), 'hex'), 40)
"""


class Migration(migrations.Migration):
    dependencies = [("trace_site", "0006_job_faults")]
    operations = [migrations.RunSQL(HASHED, migrations.RunSQL.noop)]
