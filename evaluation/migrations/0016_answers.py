"""One ledger: labelled requests of benchmarks, of rules' tests, of kept-out samples and of reports, and the answers.

An answer of an evaluation takes its evaluation's date. A test that a model answered becomes a request of its version; a
kept-out answer becomes one of the model and one of the embedding, which their job holds together.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now

PROTECT, CASCADE = django.db.models.deletion.PROTECT, django.db.models.deletion.CASCADE

LET_GO = """
SELECT trace_let_go('evaluation_benchmarkitem', 'evaluation_prediction', 'evaluation_ruletestresult');
DROP FUNCTION evaluation_items_closed() CASCADE;
"""

# the tests first; `wanted` and `first` as core.metrics.judge_rule_test has them
MOVE = """
UPDATE evaluation_answer a SET created_at = e.created_at FROM evaluation_evaluation e WHERE e.id = a.evaluation_id;

INSERT INTO evaluation_labelledrequest (origin, version_id, position, text_key, domain, data)
SELECT DISTINCT ON (t.version_id, one.place)
  'rule_test', t.version_id, one.place - 1, '', r.domain_id, one.test - 'found'
FROM evaluation_ruletestresult t
JOIN rules_ruleversion v ON v.id = t.version_id
JOIN rules_rule r ON r.id = v.rule_id
CROSS JOIN jsonb_array_elements(t.results) WITH ORDINALITY AS one (test, place)
ORDER BY t.version_id, one.place, t.id;

INSERT INTO evaluation_answer (item_id, model_id, backend, job_id, created_at, output, scores)
SELECT q.id, t.model_id, t.backend, t.job_id, t.created_at, jsonb_build_object('tools', one.test -> 'found'),
  jsonb_build_object('passed', CASE WHEN wanted.names = first.names THEN 1.0 ELSE 0.0 END)
FROM evaluation_ruletestresult t
CROSS JOIN jsonb_array_elements(t.results) WITH ORDINALITY AS one (test, place)
JOIN evaluation_labelledrequest q ON q.version_id = t.version_id AND q.position = one.place - 1
CROSS JOIN LATERAL (
  SELECT array_agg(DISTINCT name) AS names FROM jsonb_array_elements_text(one.test -> 'tools') AS w (name)) wanted
CROSS JOIN LATERAL (
  SELECT array_agg(DISTINCT name) AS names
  FROM jsonb_array_elements_text(one.test -> 'found') WITH ORDINALITY AS f (name, rank)
  WHERE rank <= cardinality(wanted.names)) first
ORDER BY t.id, one.place;

INSERT INTO evaluation_labelledrequest (origin, sample_id, request_id, text_key, domain, data)
SELECT DISTINCT CASE WHEN sample_id IS NULL THEN 'report' ELSE 'sample' END, sample_id, request_id, text_key, '',
  '{}'::jsonb
FROM evaluation_keptoutanswer;

-- through which backend a model answered, its newest tests say
WITH kept AS (
  SELECT k.*, q.id AS item_id, coalesce(t.backend, '') AS backend
  FROM evaluation_keptoutanswer k
  JOIN evaluation_labelledrequest q
    ON coalesce(q.sample_id, -q.request_id) = coalesce(k.sample_id, -k.request_id) AND q.text_key = k.text_key
  LEFT JOIN (
    SELECT DISTINCT ON (model_id) model_id, backend FROM evaluation_ruletestresult ORDER BY model_id, id DESC
  ) t ON t.model_id = k.model_id
), of_models AS (
  INSERT INTO evaluation_answer (item_id, model_id, backend, job_id, created_at, output, scores)
  SELECT item_id, model_id, backend, job_id, at, jsonb_build_object('tools', tools), '{}' FROM kept ORDER BY id
)
INSERT INTO evaluation_answer (item_id, job_id, created_at, output, scores)
SELECT DISTINCT ON (item_id, job_id) item_id, job_id, at, jsonb_build_object('tools', embedding), '{}'
FROM kept WHERE embedding IS NOT NULL ORDER BY item_id, job_id, id DESC;

SET CONSTRAINTS ALL IMMEDIATE;
"""

HELD = """
SELECT trace_keep('evaluation_labelledrequest');
DROP TRIGGER evaluation_labelledrequest_not_deleted ON evaluation_labelledrequest;
CREATE TRIGGER evaluation_labelledrequest_not_deleted BEFORE DELETE ON evaluation_labelledrequest FOR EACH ROW
  WHEN (OLD.origin NOT IN ('sample', 'report')) EXECUTE FUNCTION trace_refuse_change();

CREATE FUNCTION evaluation_goes_with_its_text(request bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM evaluation_labelledrequest WHERE id = request AND origin IN ('sample', 'report'))
$$;
SELECT trace_keep('evaluation_answer', '{"scores,refused"}');
DROP TRIGGER evaluation_answer_not_deleted ON evaluation_answer;
CREATE TRIGGER evaluation_answer_not_deleted BEFORE DELETE ON evaluation_answer FOR EACH ROW
  WHEN (NOT evaluation_goes_with_its_text(OLD.item_id)) EXECUTE FUNCTION trace_refuse_change();

CREATE FUNCTION evaluation_items_closed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE closed bigint;
BEGIN
  SELECT b.id INTO closed FROM evaluation_benchmark b
  WHERE b.id IN (SELECT benchmark_id FROM new_rows)
    AND b.count < (SELECT count(*) FROM evaluation_labelledrequest i WHERE i.benchmark_id = b.id)
  LIMIT 1;
  IF closed IS NOT NULL THEN
    RAISE EXCEPTION 'benchmark % is frozen: no item comes in', closed
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER evaluation_labelledrequest_closed AFTER INSERT ON evaluation_labelledrequest
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION evaluation_items_closed();
"""


def reference(to, on_delete, **options):
    return models.ForeignKey(null=True, on_delete=on_delete, related_name="+", to=to, **options)


REFERENCES = {"benchmark": "benchmark", "rule_test": "version", "sample": "sample", "report": "request"}
OF_ITS_ORIGIN = Q(
    *(
        Q(origin=origin, **{f"{one}__isnull": one != of for one in REFERENCES.values()})
        for origin, of in REFERENCES.items()
    ),
    _connector=Q.OR,
)
ORIGINS = {"benchmark": "Benchmark", "rule_test": "test of a rule", "sample": "kept-out sample", "report": "Report"}
REQUEST = {
    "origin": models.CharField(choices=list(ORIGINS.items()), default="benchmark", max_length=9),
    "version": reference("rules.ruleversion", PROTECT, db_index=False),
    "sample": reference("synthesis.sample", CASCADE, db_index=False),
    "request": reference("evaluation.retrievalrequest", CASCADE, db_index=False),
    "text_key": models.CharField(blank=True, max_length=64, help_text="of the text of a sample or report"),
}
REQUEST_AS_IT_WAS = {
    "benchmark": models.ForeignKey(null=True, on_delete=CASCADE, related_name="items", to="evaluation.benchmark"),
    "position": models.PositiveIntegerField(null=True, help_text="in its benchmark, or among the tests"),
    "domain": models.CharField(blank=True, max_length=60),
    "data": models.JSONField(
        default=dict,
        help_text="a benchmark's as imported, MCQ options already in their shuffled order; of a test {query, tools}",
    ),
}
REQUEST_ONCE = [
    models.UniqueConstraint(fields=["version", "position"], name="one_request_per_test"),
    models.UniqueConstraint(fields=["sample", "text_key"], name="one_request_per_sample_text"),
    models.UniqueConstraint(fields=["request", "text_key"], name="one_request_per_report_text"),
    models.CheckConstraint(condition=OF_ITS_ORIGIN, name="request_of_its_origin"),
]
ANSWER = {
    "model": reference("training.model", PROTECT, db_index=False),
    "backend": models.CharField(
        blank=True,
        db_default="",
        max_length=20,
        help_text="empty: our own engine; completions: a server in its place; of an evaluation: see its hardware",
    ),
    "job": reference("trace_site.job", PROTECT),
    "created_at": models.DateTimeField(db_default=Now()),
}
ANSWER_AS_IT_WAS = {
    "evaluation": models.ForeignKey(null=True, on_delete=CASCADE, related_name="answers", to="evaluation.evaluation"),
    "item": models.ForeignKey(on_delete=CASCADE, related_name="answers", to="evaluation.labelledrequest"),
    "output": models.JSONField(
        help_text="{tools, ranked, scores, trace, raw, off_vocabulary, letter, clause}; outside of evaluations {tools, "
        "scores, clause}, without words of the request"
    ),
    "scores": models.JSONField(default=dict, help_text="{metric: value}; of a rule's test {passed}"),
}
ANSWER_ONCE = [
    models.UniqueConstraint(fields=["evaluation", "item"], name="one_answer_per_item"),
    models.UniqueConstraint(fields=["model", "item", "backend"], name="one_answer_of_a_model"),
    models.UniqueConstraint(
        fields=["item", "job"], condition=Q(evaluation=None, model=None), name="one_answer_of_the_embedding"
    ),
    models.CheckConstraint(
        condition=Q(evaluation=None) | Q(model=None, job=None, backend=""), name="asked_once_or_in_an_evaluation"
    ),
]
COUNTED_FROM = models.JSONField(
    default=dict,
    help_text="{rule: of deciding, weights: [digests], backends, evaluations: [keys], benchmarks: [ids], "
    "rule_tests: [ids of versions], groups: hash of what sorts them, answers: hash of groups and scores}",
)


class Migration(migrations.Migration):
    dependencies = [
        ("evaluation", "0015_count"),
        ("rules", "0002_triggers"),
        ("synthesis", "0005_loop"),
        ("trace_site", "0009_evidence"),
    ]
    operations = [
        migrations.RunSQL(LET_GO),
        migrations.RenameModel("BenchmarkItem", "LabelledRequest"),
        migrations.RenameModel("Prediction", "Answer"),
        *(migrations.AlterField("labelledrequest", name, field) for name, field in REQUEST_AS_IT_WAS.items()),
        *(migrations.AddField("labelledrequest", name, field) for name, field in REQUEST.items()),
        *(migrations.AddConstraint("labelledrequest", constraint) for constraint in REQUEST_ONCE),
        migrations.RemoveConstraint("answer", "one_prediction_per_item"),
        *(migrations.AlterField("answer", name, field) for name, field in ANSWER_AS_IT_WAS.items()),
        *(migrations.AddField("answer", name, field) for name, field in ANSWER.items()),
        *(migrations.AddConstraint("answer", constraint) for constraint in ANSWER_ONCE),
        migrations.AlterField("gatereport", "counted_from", COUNTED_FROM),
        migrations.RunSQL(MOVE),
        migrations.DeleteModel("KeptOutAnswer"),
        migrations.DeleteModel("RuleTestResult"),
        migrations.RunSQL(HELD),
    ]
