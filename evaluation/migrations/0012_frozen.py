"""What was asked and what was answered stays; what is counted from it may be counted again.

A benchmark holds as many items as it was frozen with. An evaluation that has answers cannot be deleted, since its
answers cannot; one that has none was never finished.
"""

from django.db import migrations

HELD = """
SELECT trace_freeze('evaluation_benchmark');
SELECT trace_freeze('evaluation_benchmarkitem');
SELECT trace_keep('evaluation_evaluation', '{metrics,definition_id,clusterings,"hardware,backend","hardware,at_once"}');
DROP TRIGGER evaluation_evaluation_not_deleted ON evaluation_evaluation;
SELECT trace_keep('evaluation_prediction', '{"scores,group","scores,cited","scores,refused"}');
SELECT trace_freeze('evaluation_comparison');
SELECT trace_freeze('evaluation_ruletestresult');
"""
CLOSED = """
CREATE FUNCTION evaluation_items_closed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE closed bigint;
BEGIN
  SELECT b.id INTO closed FROM evaluation_benchmark b
  WHERE b.id IN (SELECT benchmark_id FROM new_rows)
    AND b.count < (SELECT count(*) FROM evaluation_benchmarkitem i WHERE i.benchmark_id = b.id)
  LIMIT 1;
  IF closed IS NOT NULL THEN
    RAISE EXCEPTION 'benchmark % is frozen: no item comes in', closed
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER evaluation_benchmarkitem_closed AFTER INSERT ON evaluation_benchmarkitem
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION evaluation_items_closed();
"""
LET_GO = """
DROP FUNCTION evaluation_items_closed() CASCADE;
SELECT trace_let_go('evaluation_benchmark', 'evaluation_benchmarkitem', 'evaluation_evaluation',
  'evaluation_prediction', 'evaluation_comparison', 'evaluation_ruletestresult');
"""


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0011_clauses"), ("trace_site", "0009_evidence")]
    operations = [migrations.RunSQL(HELD + CLOSED, LET_GO)]
