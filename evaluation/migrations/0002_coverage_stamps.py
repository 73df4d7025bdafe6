"""Stamps of what coverage is computed from, so that a process knows exactly when what it keeps is old.

A statement trigger gives one row of its part a number that never comes back, in the writer's own transaction. It
takes a row nobody holds, or makes one: writers of samples, drafts and tools never wait for each other.
"""

from django.db import migrations

TOUCH = """
CREATE SEQUENCE evaluation_coverage_stamp;
CREATE FUNCTION evaluation_coverage_touch() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE part text := 'coverage.' || TG_ARGV[0] || '.';
BEGIN
  UPDATE trace_site_generation SET value = nextval('evaluation_coverage_stamp') WHERE name = (
    SELECT name FROM trace_site_generation WHERE starts_with(name, part)
    ORDER BY name LIMIT 1 FOR UPDATE SKIP LOCKED);
  IF NOT FOUND THEN
    INSERT INTO trace_site_generation (name, value)
    VALUES (part || substr(gen_random_uuid()::text, 1, 13), nextval('evaluation_coverage_stamp'));
  END IF;
  RETURN NULL;
END $$;
"""
UNTOUCH = """
DROP FUNCTION evaluation_coverage_touch();
DROP SEQUENCE evaluation_coverage_stamp;
DELETE FROM trace_site_generation WHERE starts_with(name, 'coverage.');
"""
# (table, part, what counts); without columns every update does
EVENTS = "INSERT OR DELETE OR UPDATE"
TRIGGERS = [
    ("catalog_domain", "tools", EVENTS),
    ("catalog_tool", "tools", f"{EVENTS} OF name, domain_id, deprecated, version, status"),
    ("catalog_clustering", "clusters", EVENTS),
    ("catalog_cluster", "clusters", f"{EVENTS} OF label, tool_ids, edges, mean_similarity"),
    ("catalog_cluster", "dismissals", "UPDATE OF dismissed_reason"),
    ("rules_rule", "rules", f"{EVENTS} OF code, domain_id, published_id"),
    ("rules_ruleversion", "drafts", EVENTS),
    ("rules_changerequest", "drafts", f"{EVENTS} OF state"),
    ("rules_rulechange", "drafts", EVENTS),
    ("synthesis_sample", "samples", f"{EVENTS} OF rule_version_id, machine, human"),
]


def trigger(table, part, events):
    return migrations.RunSQL(
        f"CREATE TRIGGER {table}_coverage_{part} AFTER {events} ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION evaluation_coverage_touch('{part}')",
        f"DROP TRIGGER {table}_coverage_{part} ON {table}",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0003_twins_and_undo"),
        ("evaluation", "0001_initial"),
        ("rules", "0003_change_requests"),
        ("synthesis", "0002_frozen"),
        ("trace_site", "0003_generation"),
    ]
    operations = [
        migrations.RunSQL(TOUCH, UNTOUCH),
        *[trigger(*row) for row in TRIGGERS],
    ]
