"""What was published or said stays; applied requests too; no author approves their own; publishing is counted."""

from django.db import migrations

HELD = """
SELECT trace_freeze('rules_ruleversion');
SELECT trace_freeze('rules_approval');
SELECT trace_freeze('rules_changecomment');
SELECT trace_audit('rules_rule');
SELECT trace_audit('rules_ruleversion');
SELECT trace_audit('rules_changerequest', omit => '{updated_at}');
SELECT trace_audit('rules_rulechange', omit => '{edited_at}');
SELECT trace_audit('rules_approval');
SELECT trace_audit('rules_changecomment');

SELECT trace_count('rules_rule', 'rules', 'published_id');
-- what else makes a sample stale
CREATE TRIGGER rules_rule_content_counted AFTER UPDATE OF code, domain_id ON rules_rule
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_rules();
"""

REQUESTS = """
CREATE FUNCTION rules_keep_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.state = 'applied' OR (TG_OP = 'DELETE' AND OLD.state <> 'draft') THEN
    RAISE EXCEPTION 'change request % is %: % is refused', OLD.id, OLD.state, TG_OP
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER rules_changerequest_kept BEFORE UPDATE OR DELETE ON rules_changerequest
  FOR EACH ROW EXECUTE FUNCTION rules_keep_request();

CREATE FUNCTION rules_keep_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM rules_changerequest WHERE id = OLD.request_id AND state = 'applied') THEN
    RAISE EXCEPTION 'change request % is applied: % of its changes is refused', OLD.request_id, TG_OP
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER rules_rulechange_kept BEFORE UPDATE OR DELETE ON rules_rulechange
  FOR EACH ROW EXECUTE FUNCTION rules_keep_change();

CREATE FUNCTION rules_refuse_own_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM rules_changerequest WHERE id = NEW.request_id
             AND (author_id = NEW.reviewer_id OR NEW.reviewer_id = ANY (editor_ids))) THEN
    RAISE EXCEPTION 'user % wrote in change request % and cannot judge it', NEW.reviewer_id, NEW.request_id
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER rules_approval_not_own BEFORE INSERT ON rules_approval
  FOR EACH ROW EXECUTE FUNCTION rules_refuse_own_approval();
"""


class Migration(migrations.Migration):
    dependencies = [("rules", "0001_initial"), ("trace_site", "0002_triggers")]
    operations = [migrations.RunSQL(HELD + REQUESTS)]
