"""A change knows what was published when it began; an applied request stays; no author approves their own."""

import django.db.models.deletion
from django.db import migrations, models

KEEP = """
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
FREE = """
DROP TRIGGER rules_changerequest_kept ON rules_changerequest;
DROP TRIGGER rules_rulechange_kept ON rules_rulechange;
DROP TRIGGER rules_approval_not_own ON rules_approval;
DROP FUNCTION rules_keep_request();
DROP FUNCTION rules_keep_change();
DROP FUNCTION rules_refuse_own_approval();
"""


class Migration(migrations.Migration):
    dependencies = [("rules", "0004_counted")]
    operations = [
        migrations.AddField(
            "rulechange",
            "base_published",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="rules.ruleversion",
                help_text="the version that was published when it began",
            ),
        ),
        migrations.RunSQL(KEEP, FREE),
    ]
