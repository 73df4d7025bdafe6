"""What the database itself holds to, whoever writes and by whatever SQL.

A frozen table (`trace_freeze`) takes new rows only. An audited one (`trace_audit`) tells the ledger,
trace_site_auditchange, of every row that is inserted, updated or deleted. A counted one (`trace_count`) raises a number
of trace_site_generation, so that processes know when what they keep is old. Migrations of all apps call these three.
"""

from django.db import migrations

FROZEN = """
CREATE FUNCTION trace_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% rows are frozen: % is refused', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION trace_freeze(tab text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I
    FOR EACH ROW EXECUTE FUNCTION trace_refuse_change()', tab || '_frozen', tab);
  EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I
    FOR EACH STATEMENT EXECUTE FUNCTION trace_refuse_change()', tab || '_not_truncated', tab);
END $$;
"""

# Who and why come from the settings `trace.actor` and `trace.source` of the connection (trace_site.audit_context); raw SQL has
# neither. An UPDATE keeps the columns that changed, on both sides. The writing function runs as the owner of the
# tables: an application that connects as another role needs no right to write the ledger.
LEDGER = """
CREATE FUNCTION trace_audit_write(tab text, op text, id text, was jsonb, is_now jsonb, differs boolean)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE same text[];
BEGIN
  IF op = 'UPDATE' THEN
    IF was = is_now AND NOT differs THEN RETURN; END IF;
    SELECT coalesce(array_agg(key), '{}') INTO same FROM jsonb_each(was) WHERE value = is_now -> key;
    was := was - same;
    is_now := is_now - same;
  END IF;
  INSERT INTO trace_site_auditchange
    (at, txid, actor_id, source, db_user, table_name, operation, row_id, before, after)
  VALUES (now(), txid_current(), nullif(current_setting('trace.actor', true), '')::bigint,
          coalesce(current_setting('trace.source', true), ''), session_user, tab, op, id, was, is_now);
END $$;

CREATE FUNCTION trace_audit_only_triggers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION 'the audit ledger is written by triggers only' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER trace_site_auditchange_guarded BEFORE INSERT ON trace_site_auditchange
  FOR EACH ROW EXECUTE FUNCTION trace_audit_only_triggers();
"""

# omit: columns that are left out; a change of nothing else is no change. secret: columns whose change is told, never
# their value. row_id: the column that names a row. update_when: a condition on OLD and NEW for updates to count.
# What is left out is set to NULL first: a NULL embedding costs nothing to turn into JSON, and an AFTER trigger's record
# is only a copy.
AUDITED = """
CREATE FUNCTION trace_audit(
  tab text, omit text[] = '{}', secret text[] = '{}', row_id text = 'id',
  operations text[] = '{INSERT,UPDATE,DELETE}', update_when text = ''
) RETURNS void LANGUAGE plpgsql AS $make$
DECLARE
  hidden text[] := omit || secret;
  nulled text := coalesce((SELECT string_agg(format('RECORD.%I := NULL; ', c), '') FROM unnest(hidden) c), '');
  without text := CASE WHEN hidden = '{}' THEN ''
    ELSE ' - ARRAY[' || (SELECT string_agg(quote_literal(c), ', ') FROM unnest(hidden) c) || ']' END;
  differs text := coalesce(
    (SELECT string_agg(format('OLD.%1$I IS DISTINCT FROM NEW.%1$I', c), ' OR ') FROM unnest(secret) c), 'false');
  marks text := '{' || coalesce((SELECT string_agg(format('"%s": "MARK"', c), ', ') FROM unnest(secret) c), '') || '}';
  op text;
BEGIN
  EXECUTE format($f$
CREATE FUNCTION %1$I() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE was jsonb; is_now jsonb; differs boolean := false; id text;
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    PERFORM trace_audit_write(TG_TABLE_NAME, TG_OP, '', NULL, NULL, false);
    RETURN NULL;
  END IF;
  IF TG_OP <> 'INSERT' THEN id := OLD.%2$I; END IF;
  IF TG_OP <> 'DELETE' THEN id := NEW.%2$I; END IF;
  IF TG_OP = 'UPDATE' THEN differs := %3$s; END IF;
  IF TG_OP <> 'INSERT' THEN
    %4$swas := to_jsonb(OLD)%6$s;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    %5$sis_now := to_jsonb(NEW)%6$s;
  END IF;
  IF differs THEN
    was := was || %7$L;
    is_now := is_now || %8$L;
  END IF;
  PERFORM trace_audit_write(TG_TABLE_NAME, TG_OP, id, was, is_now, differs);
  RETURN NULL;
END $body$
$f$,
    'trace_audit_of_' || tab, row_id, differs, replace(nulled, 'RECORD', 'OLD'), replace(nulled, 'RECORD', 'NEW'), without,
    replace(marks, 'MARK', '(hidden)'), replace(marks, 'MARK', '(hidden, replaced)'));
  FOREACH op IN ARRAY operations || ARRAY['TRUNCATE'] LOOP
    EXECUTE format('CREATE TRIGGER %I AFTER %s ON %I FOR EACH %s %s EXECUTE FUNCTION %I()',
      tab || '_audit_' || lower(op), op, tab,
      CASE op WHEN 'TRUNCATE' THEN 'STATEMENT' ELSE 'ROW' END,
      CASE WHEN op = 'UPDATE' AND update_when <> '' THEN 'WHEN (' || update_when || ')' ELSE '' END,
      'trace_audit_of_' || tab);
  END LOOP;
END $make$;
"""

# in the writer's own transaction: a reader sees the new number exactly when it sees the new rows
COUNTED = """
CREATE FUNCTION trace_count(tab text, name text, columns text = '') RETURNS void LANGUAGE plpgsql AS $make$
BEGIN
  EXECUTE format($f$
CREATE FUNCTION %1$I() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  INSERT INTO trace_site_generation (name, value) VALUES (%2$L, 1)
    ON CONFLICT (name) DO UPDATE SET value = trace_site_generation.value + 1;
  RETURN NULL;
END $body$
$f$, 'trace_count_' || name, name);
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR DELETE OR UPDATE%s ON %I
    FOR EACH STATEMENT EXECUTE FUNCTION %I()',
    tab || '_counted', CASE columns WHEN '' THEN '' ELSE ' OF ' || columns END, tab, 'trace_count_' || name);
END $make$;
"""

HELD = """
SELECT trace_freeze('trace_site_auditentry');
SELECT trace_freeze('trace_site_auditchange');
SELECT trace_audit('auth_user', omit => '{last_login}', secret => '{password}');
SELECT trace_audit('auth_group');
SELECT trace_audit('auth_user_groups');
SELECT trace_audit('auth_user_user_permissions');
SELECT trace_audit('auth_group_permissions');
SELECT trace_audit('trace_site_webhook', omit => '{failures}', secret => '{salt}');
SELECT trace_audit('trace_site_apitoken', omit => '{last_used_at}', secret => '{digest,password_mark}');
"""


class Migration(migrations.Migration):
    dependencies = [("trace_site", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunSQL(FROZEN + LEDGER + AUDITED + COUNTED + HELD)]
