"""Rows that keep what they say but may move on in a few columns, and named events that only a function writes.

`trace_keep` refuses DELETE, TRUNCATE and every change but of what is `free`: columns, or keys of a JSON column
(`scores,group`). A row for which `open` holds, a condition on OLD, is not kept yet. `trace_let_go` undoes it, and
`trace_freeze`. docs/operations.md lists the tables.

`trace_audit_note` writes trace_site_auditentry as the owner of the table, dated by the database, of its own transaction
and in the name that the connection works under (`trace.actor`, as row changes have it). The application's role may call
it and may not insert.
"""

from django.db import migrations, models
from django.db.models.functions import Now

KEPT = """
CREATE FUNCTION trace_keep(tab text, free text[] = '{}', open text = 'false') RETURNS void LANGUAGE plpgsql AS $make$
DECLARE
  without text := coalesce((SELECT string_agg(format(' #- %L', '{' || f || '}'), '') FROM unnest(free) f), '');
BEGIN
  EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON %I FOR EACH ROW
    WHEN (NOT (%s) AND to_jsonb(OLD)%s IS DISTINCT FROM to_jsonb(NEW)%s) EXECUTE FUNCTION trace_refuse_change()',
    tab || '_kept', tab, open, without, without);
  EXECUTE format('CREATE TRIGGER %I BEFORE DELETE ON %I FOR EACH ROW
    WHEN (NOT (%s)) EXECUTE FUNCTION trace_refuse_change()', tab || '_not_deleted', tab, open);
  EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I
    FOR EACH STATEMENT EXECUTE FUNCTION trace_refuse_change()', tab || '_not_truncated', tab);
END $make$;

CREATE FUNCTION trace_let_go(VARIADIC tabs text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE tab text; ending text;
BEGIN
  FOREACH tab IN ARRAY tabs LOOP
    FOREACH ending IN ARRAY ARRAY['_frozen', '_kept', '_not_deleted', '_not_truncated'] LOOP
      EXECUTE format('DROP TRIGGER IF EXISTS %I ON %I', tab || ending, tab);
    END LOOP;
  END LOOP;
END $$;
"""

NOTED = """
CREATE FUNCTION trace_audit_note(notes jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
  INSERT INTO trace_site_auditentry
    (at, txid, actor_id, action, object_type, object_id, object_label, detail)
  SELECT statement_timestamp(), txid_current(), nullif(current_setting('trace.actor', true), '')::integer,
    note ->> 'action', note ->> 'object_type', note ->> 'object_id', note ->> 'object_label', note -> 'detail'
  FROM jsonb_array_elements(notes) WITH ORDINALITY AS given(note, place) ORDER BY place
$$;
"""

LET_GO = """
DROP FUNCTION trace_audit_note(jsonb);
DROP FUNCTION trace_let_go(text[]);
DROP FUNCTION trace_keep(text, text[], text);
"""


class Migration(migrations.Migration):
    dependencies = [("trace_site", "0008_audit_names_tokens")]
    operations = [
        migrations.RunSQL(KEPT + NOTED, LET_GO),
        migrations.AlterField("auditentry", "at", models.DateTimeField(db_default=Now())),
    ]
