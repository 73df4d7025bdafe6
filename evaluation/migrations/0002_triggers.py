"""The ledger is told of benchmarks and evaluations; what coverage is computed from has stamps.

A stamp tells a process exactly when what it keeps is old. A statement trigger gives one row of its part a number that
never comes back, in the writer's own transaction. It takes a row nobody holds, or makes one: writers of samples, drafts
and tools never wait for each other.
"""

from django.db import migrations

HELD = """
SELECT trace_audit('evaluation_benchmark');
SELECT trace_audit('evaluation_evaluation', operations => '{INSERT,DELETE}');
"""

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

# (table, part, what counts); without columns every update does. What a pool says is part of whether its samples count
EVENTS = "INSERT OR DELETE OR UPDATE"
STAMPED = [
    ("catalog_domain", "tools", EVENTS),
    ("catalog_tool", "tools", f"{EVENTS} OF name, domain_id, deprecated, version, status"),
    ("catalog_tool", "samples", "UPDATE OF content_hash, description, permissions, deprecated, status"),
    ("catalog_neighbourlist", "samples", EVENTS),
    ("catalog_clustering", "clusters", EVENTS),
    ("catalog_cluster", "clusters", f"{EVENTS} OF label, tool_ids, edges, mean_similarity"),
    ("catalog_cluster", "dismissals", "UPDATE OF dismissed_reason"),
    ("rules_rule", "rules", f"{EVENTS} OF code, domain_id, published_id"),
    ("rules_rule", "samples", "UPDATE OF published_id"),
    ("rules_ruleversion", "drafts", EVENTS),
    ("rules_changerequest", "drafts", f"{EVENTS} OF state"),
    ("rules_rulechange", "drafts", EVENTS),
    ("synthesis_sample", "samples", f"{EVENTS} OF rule_version_id, machine, human"),
]


def stamped(table: str, part: str, events: str) -> str:
    return f"""
CREATE TRIGGER {table}_coverage_{part} AFTER {events} ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION evaluation_coverage_touch('{part}');
"""


class Migration(migrations.Migration):
    dependencies = [
        ("evaluation", "0001_initial"),
        ("catalog", "0001_initial"),
        ("rules", "0001_initial"),
        ("synthesis", "0001_initial"),
        ("trace_site", "0002_triggers"),
    ]
    operations = [migrations.RunSQL(HELD + TOUCH + "".join(stamped(*row) for row in STAMPED))]
