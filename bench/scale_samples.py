"""Fills the home that TRACE_HOME names with a million samples and a queue of 200,000, all by SQL in the database.

Everything follows from the row's number. Rows have the size of real ones: 1.4 kB of trace, the pool, what they were
made from. Triggers are off while it is filled; rollups and items are then made by what repairs them.
"""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection, transaction

from bench.scale_home import Home
from synthesis.models import SynthesisRun
from synthesis.samples import counts
from trace_site.access import ROLES
from trace_site.database import become_owner

TABLES = ("synthesis_sample", "synthesis_attempt", "synthesis_reviewitem", "synthesis_decision")
RUNS = 10
REVIEWERS = 32

KINDS = """
CREATE TEMP TABLE kinds AS
SELECT row_number() OVER (ORDER BY branch, id) - 1 AS n, k.*, count(*) OVER (PARTITION BY branch) AS many,
  row_number() OVER (PARTITION BY branch ORDER BY id) - 1 AS place
FROM (
  SELECT 'rule' AS branch, v.id, v.id AS version, r.id AS rule, NULL::bigint AS anchor, r.domain_id AS domain, t.name,
    r.code, (SELECT jsonb_agg(c.name) FROM catalog_tool c WHERE c.id = ANY(v.confusable_ids || v.target_id)) AS pool
  FROM rules_rule r JOIN rules_ruleversion v ON v.id = r.published_id JOIN catalog_tool t ON t.id = v.target_id
  UNION ALL
  (SELECT 'rrb', t.id, NULL, NULL, t.id, t.domain_id, t.name, '', jsonb_build_array(t.name)
   FROM catalog_tool t WHERE t.id %% 5 = 0 ORDER BY t.id LIMIT 1000)
) k;
CREATE UNIQUE INDEX ON kinds (branch, place);
ANALYZE kinds;
"""
# the place of a row's kind follows its number in blocks of twelve, as a run goes from rule to rule
ROWS = """
CREATE TEMP VIEW planned AS
SELECT g, CASE WHEN run %% 3 = 2 THEN 'rrb' ELSE 'rule' END AS branch, run,
  lot, lot2, CASE WHEN lot2 < 6500 OR (newest AND lot2 > 64000) THEN 'pending'
    WHEN newer AND lot < 24000 THEN 'pending' WHEN newer AND lot < 31500 THEN 'second'
    WHEN newer AND lot < 31600 THEN 'disputed' WHEN lot > 60000 THEN 'rejected' ELSE 'approved' END AS human,
  CASE WHEN lot2 < 6500 THEN 'dropped' WHEN newest AND lot2 > 64000 THEN 'pending' ELSE 'ready' END AS machine
FROM (SELECT *, run = {runs} - 1 AS newest, run >= {runs} / 2 AS newer FROM (
  SELECT g, (g - 1) * {runs} / {count} AS run, hashint8(g) & 65535 AS lot, hashint8(g * 7 + 1) & 65535 AS lot2
  FROM generate_series({first}::bigint, {last}::bigint) g) numbered) placed;
"""
SAMPLES = """
INSERT INTO synthesis_sample (id, run_id, key, slot, branch, domain_id, rule_version_id, anchor_id, style, tier, seed,
  pool, answer, query, explanation, trace, permissions, writer, machine, human, approved_by, approved_how, made_from,
  created_at, updated_at)
SELECT g, (%s::bigint[])[run + 1], md5(g::text) || md5((g + 1)::text), branch || ':' || (g - (lot < 3000)::int), branch,
  domain, version, anchor,
  CASE WHEN branch = 'rule' THEN (ARRAY['explicit', 'implicit', 'exception', 'underspecified'])[1 + g %% 4] ELSE '' END,
  CASE WHEN branch = 'rrb' THEN (ARRAY['easy', 'medium', 'hard'])[1 + g %% 3] ELSE '' END,
  g, pool, jsonb_build_array(name),
  'could you find document ' || g || ' of the '
    || (ARRAY['entity', 'vendor', 'invoice', 'payslip', 'shipment'])[1 + lot2 %% 5]
    || ' that moved in ' || (ARRAY['march', 'april', 'june', 'august'])[1 + lot %% 4]
    || CASE WHEN lot2 %% 5000 = 0 THEN ' with an unusual zeppelin' ELSE ' for me please' END,
  'Asks for one document of an entity; ' || left(md5(g::text), 12),
  (SELECT string_agg('Step ' || n || ' weighs ' || md5((g * 13 + n)::text) || ' against what the entity said in '
     || 'note ' || (g + n) || ', which the old contract does not name. ', '') FROM generate_series(1, 9) n)
     || 'So it is ' || name || '.',
  '[]', CASE WHEN run %% 5 = 4 THEN 'llm:some-model' ELSE 'offline' END,
  machine, human, CASE human WHEN 'approved' THEN 'reviewer' ELSE '' END,
  CASE human WHEN 'approved' THEN (ARRAY['read', 'edited', 'second', 'bulk'])[1 + g %% 4] ELSE '' END,
  jsonb_build_object('index', g, 'content', md5(domain || coalesce(version, anchor)::text) || md5(name), 'stages',
    jsonb_build_object('query', jsonb_build_object('prompt', 'query', 'prompt_hash', md5(branch),
      'key', md5((g + 2)::text)), 'trace', jsonb_build_object('prompt', 'trace', 'prompt_hash', md5(name),
      'key', md5((g + 3)::text)))),
  now() - ({count} - g) * interval '1 second', now()
FROM planned p JOIN kinds k USING (branch) WHERE k.place = (g / 12) %% k.many;
"""
ATTEMPTS = """
INSERT INTO synthesis_attempt (sample_id, number, query, trace, answer, outcome, filter_failures, judge, critique,
  error, error_code, calls, at)
SELECT s.id, n.number, s.query, s.trace, s.answer, outcome,
  CASE outcome WHEN 'filtered' THEN jsonb_build_array(jsonb_build_object('check',
    CASE WHEN s.id %% 4001 = 0 THEN 'clean_voice'
      ELSE (ARRAY['grounding', 'leakage', 'near_duplicate'])[1 + s.id %% 3] END,
    'message', 'It says what it should not.', 'evidence', 'entity')) ELSE '[]' END,
  CASE outcome WHEN 'judged_out' THEN '{{"label": 2, "trace": 4, "failed": ["label"]}}'::jsonb ELSE '{{}}' END,
  '', '', CASE outcome WHEN 'error' THEN 'llm_timeout' ELSE '' END, 3, s.created_at
FROM synthesis_sample s
CROSS JOIN LATERAL generate_series(1, CASE WHEN s.id %% 8 = 0 THEN 2 ELSE 1 END) AS n (number)
CROSS JOIN LATERAL (SELECT CASE WHEN n.number = (CASE WHEN s.id %% 8 = 0 THEN 2 ELSE 1 END) AND s.machine = 'ready'
  THEN 'ready' WHEN s.id %% 16 < 10 THEN 'filtered' WHEN s.id %% 16 < 14 THEN 'judged_out' ELSE 'error' END) o (outcome)
WHERE s.machine <> 'pending' AND s.id BETWEEN %s AND %s;
"""
ITEMS = """
INSERT INTO synthesis_reviewitem (sample_id, round, rank, state, domain_id, branch, style, tier, rule_id,
  rule_version_id, decided_by_id, decided_at, opened_at, first_by_id)
SELECT s.id, r.round, CASE r.round WHEN 3 THEN 0 ELSE 1 END, CASE WHEN r.round < wanted THEN 'decided' ELSE 'open' END,
  s.domain_id, s.branch, s.style, s.tier, v.rule_id, s.rule_version_id,
  CASE WHEN r.round < wanted THEN reader.id END, CASE WHEN r.round < wanted THEN now() - interval '2 days' END,
  now() - interval '3 days',
  CASE WHEN r.round > 1
    THEN (%(people)s::int[])[1 + CASE WHEN s.human = 'second' THEN 0 ELSE s.id %% {reviewers} END] END
FROM (SELECT *, CASE human WHEN 'pending' THEN 1 WHEN 'second' THEN 2 WHEN 'disputed' THEN 3 ELSE 2 END AS wanted
      FROM synthesis_sample WHERE machine = 'ready') s
LEFT JOIN rules_ruleversion v ON v.id = s.rule_version_id
CROSS JOIN LATERAL generate_series(1, CASE WHEN s.human IN ('approved', 'rejected') THEN 1 ELSE wanted END) r (round)
CROSS JOIN LATERAL (SELECT (%(people)s::int[])[1 + CASE WHEN s.human = 'second' THEN 0 ELSE
  (s.id + r.round - 1) %% {reviewers} END] AS id) reader
WHERE s.human IN ('approved', 'rejected', 'second', 'disputed', 'pending')
  AND NOT (s.human IN ('pending', 'second', 'disputed') AND EXISTS (
    SELECT 1 FROM synthesis_sample n WHERE n.branch = s.branch AND n.slot = s.slot AND n.id > s.id
      AND n.machine <> 'dropped' AND n.human <> 'rejected'))
ORDER BY s.id, r.round;
"""
DECISIONS = """
INSERT INTO synthesis_decision (sample_id, item_id, round, take, reviewer_id, policy, verdict, reason, note,
  follow_up, seconds, before, after, at)
SELECT i.sample_id, i.id, i.round, 0, i.decided_by_id, '',
  CASE WHEN s.human = 'rejected' THEN 'reject' ELSE 'approve' END,
  CASE WHEN s.human = 'rejected' THEN 'leak' ELSE '' END, '', '', 11, jsonb_build_object('human', 'pending'),
  jsonb_build_object('human', s.human, 'query', s.query, 'trace', s.trace, 'answer', s.answer), i.decided_at
FROM synthesis_reviewitem i JOIN synthesis_sample s ON s.id = i.sample_id
WHERE i.state = 'decided' AND i.id %% 5 = 0;
"""
# the head of the queue: what others hold, then what the first reviewer has put off
HEAD = """
UPDATE synthesis_reviewitem SET state = 'claimed', claimed_by_id = %(other)s, claim = gen_random_uuid(),
  claimed_until = now() + interval '30 days'
WHERE id IN (SELECT id FROM synthesis_reviewitem WHERE state = 'open' AND rank = 1 ORDER BY id LIMIT 5000);
INSERT INTO synthesis_reviewskip (item_id, reviewer_id, at)
SELECT id, %(me)s, now() FROM synthesis_reviewitem WHERE state = 'open' AND round = 1 ORDER BY id LIMIT 10000;
"""


class ReviewHome:
    """One build. `samples` of them, a quarter of the newer half to review."""

    def __init__(self, samples: int, rules: int, tools: int) -> None:
        self.samples, self.rules, self.tools = samples, rules, tools

    def build(self, echo: Callable[[str], None]) -> None:
        become_owner()
        with transaction.atomic():
            Home(self.tools, self.rules, 0).build(echo)
            self.people()
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            cursor.execute("SET work_mem = '256MB'")
            cursor.execute("SET maintenance_work_mem = '1GB'")
            cursor.execute("SET synchronous_commit = off")
            cursor.execute(KINDS, [])
            defined = self.without_indexes(cursor)
            echo(f"{self.samples:,} samples with their attempts")
            for first in range(1, self.samples + 1, 100_000):
                self.some_samples(cursor, first, min(first + 99_999, self.samples))
            echo("indexes")
            for index in defined:
                cursor.execute(index)
            echo("the queue")
            cursor.execute("ANALYZE synthesis_sample")
            self.queue(cursor)
            for table in TABLES:
                cursor.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
                )
            cursor.execute("SET session_replication_role = origin")
        counts.recount(repair=True)
        counts.fold(1)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")

    def people(self) -> None:
        made = [User(username=f"reviewer{n}", password="!") for n in range(REVIEWERS)]
        self.readers = User.objects.bulk_create(made)
        group = Group.objects.get(name="reviewer")
        for user in self.readers:
            user.groups.add(group)
        assert group.name in ROLES
        self.runs = [
            SynthesisRun.objects.create(
                branch="rrb" if n % 3 == 2 else "rule", writer="llm:some-model" if n % 5 == 4 else "offline"
            ).pk
            for n in range(RUNS)
        ]

    def without_indexes(self, cursor: Any) -> list[str]:
        """Drop what is no constraint; the statements that bring it back."""
        cursor.execute(
            "SELECT x.indexrelid::regclass, pg_get_indexdef(x.indexrelid) FROM pg_index x "
            "LEFT JOIN pg_constraint c ON c.conindid = x.indexrelid "
            "WHERE c.oid IS NULL AND x.indrelid = ANY(%s::regclass[]) AND NOT x.indisunique",
            [list(TABLES[:2])],
        )
        found = cursor.fetchall()
        for name, _ in found:
            cursor.execute(f"DROP INDEX {name}")
        return [definition for _, definition in found]

    def some_samples(self, cursor: Any, first: int, last: int) -> None:
        sizes = {"runs": RUNS, "count": self.samples, "first": first, "last": last}
        cursor.execute("DROP VIEW IF EXISTS planned")
        cursor.execute(ROWS.format(**sizes).replace("%%", "%"))
        cursor.execute(SAMPLES.format(**sizes), [self.runs])
        cursor.execute(ATTEMPTS.format(), [first, last])

    def queue(self, cursor: Any) -> None:
        people = [user.pk for user in self.readers]
        cursor.execute(ITEMS.format(reviewers=REVIEWERS), {"people": people})
        cursor.execute(DECISIONS.replace("%%", "%"))
        cursor.execute(HEAD, {"me": people[0], "other": people[1]})
