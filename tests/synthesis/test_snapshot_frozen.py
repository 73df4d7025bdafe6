"""Ways to change a frozen snapshot: the database refuses each, and the snapshot says afterwards what it said before."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import serializers
from django.core.management import call_command
from django.db import IntegrityError, connection, models, transaction
from django.db.models import F, Value
from django.db.models.functions import Concat
from rest_framework.test import APIClient

from catalog.models import Domain, Tool, ToolRevision
from rules.models import Rule, RuleVersion
from synthesis.datasets.build import snapshot_start
from synthesis.datasets.files import rebuild
from synthesis.models import (
    Attempt,
    Decision,
    FrozenLines,
    PromptVersion,
    Sample,
    Snapshot,
    SnapshotSample,
    SynthesisRun,
)
from tests.conftest import truncating_sql_flush
from tests.factories import make_domain, make_tool
from tests.synthesis.rows import make_book, make_sample, run_job
from tests.tokens import token_of

CONTENT = """
SELECT md5(string_agg(line, E'\\n' ORDER BY line)) FROM (
  SELECT to_jsonb(s)::text AS line FROM synthesis_snapshot s
  UNION ALL SELECT to_jsonb(m)::text FROM synthesis_snapshotsample m
  UNION ALL SELECT (to_jsonb(s) - '{human,approved_by,approved_how,updated_at}'::text[])::text FROM synthesis_sample s
    WHERE EXISTS (SELECT 1 FROM synthesis_snapshotsample m WHERE m.sample_id = s.id)
  UNION ALL SELECT to_jsonb(a)::text FROM synthesis_attempt a
  UNION ALL SELECT to_jsonb(d)::text FROM synthesis_decision d
  UNION ALL SELECT to_jsonb(v)::text FROM rules_ruleversion v
  UNION ALL SELECT to_jsonb(t)::text FROM catalog_toolrevision t
  UNION ALL SELECT jsonb_build_array(r.code, r.domain_id)::text FROM rules_rule r
  UNION ALL SELECT digest || md5(data) FROM synthesis_frozenlines
) lines
"""
MAY_CHANGE = {"human", "approved_by", "approved_how", "updated_at"}


@dataclass(slots=True)
class World:
    snapshot: Snapshot
    sample: Sample
    outside: Sample  # approved, in no snapshot
    version: RuleVersion
    user: User


def content() -> str:
    with connection.cursor() as cursor:
        cursor.execute(CONTENT)
        return cursor.fetchone()[0]


def sql(statement: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params or None)


@pytest.fixture(scope="module")
def world(django_db_setup, django_db_blocker):
    """A snapshot that another transaction froze, as it is for everybody who comes later."""
    with django_db_blocker.unblock():
        version = make_book()
        user = User.objects.create_superuser("root", password="pass")
        samples = [make_sample(version, human="approved") for _ in range(3)]
        Attempt.objects.create(sample=samples[0], number=1, outcome="ready", query="a first try")
        Decision.objects.create(sample=samples[0], reviewer=user, verdict="approve")
        PromptVersion.objects.create(hash="p1", name="judge", source="You judge.")
        ToolRevision.objects.create(tool=version.target, content_hash="0", data={"name": "x"})
        make_sample(None, human="approved")
        job = snapshot_start(strategy="append", per_rule=3, seed=1, actor=user, wake=False)
        snapshot = Snapshot.objects.get(pk=run_job(job)["id"])
        outside = make_sample(version, human="approved")
        try:
            yield World(snapshot, samples[0], outside, version, user)
        finally:
            call_command("flush", interactive=False, verbosity=0)


def saved(row: models.Model, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(row, name, value)
    row.save()


def upserted(row: Any, name: str, value: Any, unique: str) -> None:
    setattr(row, name, value)
    type(row).objects.bulk_create([row], update_conflicts=True, unique_fields=[unique], update_fields=[name])


def bulk_updated(row: Any, name: str, value: Any) -> None:
    setattr(row, name, value)
    type(row).objects.bulk_update([row], [name])


def locked_and_saved(w: World) -> None:
    saved(Snapshot.objects.select_for_update().get(pk=w.snapshot.pk), strategy="replace")


def executed_many(w: World) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE synthesis_snapshot SET per_rule = %s WHERE id = %s", [(9, w.snapshot.pk)])


def copied_upsert(w: World) -> None:
    sql("CREATE TEMP TABLE brought (id bigint, trace text)")
    with connection.cursor() as cursor, cursor.copy("COPY brought (id, trace) FROM STDIN") as rows:
        rows.write_row([w.sample.pk, "brought in"])
    sql("UPDATE synthesis_sample s SET trace = b.trace FROM brought b WHERE b.id = s.id")


def copied_member(w: World) -> None:
    statement = "COPY synthesis_snapshotsample (snapshot_id, sample_id, position, sample_key) FROM STDIN"
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(statement) as rows:
        rows.write_row([w.snapshot.pk, w.outside.pk, 99, "k"])


def deserialized(row: models.Model, old: str, new: str) -> None:
    """What manage.py loaddata does with a row of a file."""
    text = serializers.serialize("json", [row])
    assert old in text
    for found in serializers.deserialize("json", text.replace(old, new)):
        found.save()


def flushed(w: World) -> None:
    """manage.py flush as it is outside the tests."""
    for statement in truncating_sql_flush(
        connection.ops, _Style(), ["synthesis_snapshot"], allow_cascade=True
    ):
        sql(statement)


class _Style:
    def __getattr__(self, name: str) -> Any:
        return str


def moved(w: World) -> None:
    SnapshotSample.objects.filter(snapshot=w.snapshot, sample=w.sample).update(sample=w.outside)


def member(w: World, **fields: Any) -> SnapshotSample:
    return SnapshotSample(snapshot=w.snapshot, sample=w.outside, sample_key="k", **{"position": 99, **fields})


def raw_delete(rows: Any) -> None:
    """Past Django's own guard of protected rows."""
    rows._raw_delete("default")


def do_block(w: World) -> None:
    sql(f"DO $$ BEGIN EXECUTE 'UPDATE synthesis_sample SET query = ''x'' WHERE id = {w.sample.pk}'; END $$")


def at(w: World) -> Any:
    return Snapshot.objects.filter(pk=w.snapshot.pk)


def of(w: World) -> Any:
    return Sample.objects.filter(pk=w.sample.pk)


WAYS: dict[str, Any] = {
    # the snapshot
    "save a snapshot": lambda w: saved(Snapshot.objects.get(pk=w.snapshot.pk), per_rule=9),
    "update a snapshot": lambda w: at(w).update(counts={}),
    "update by an expression": lambda w: at(w).update(per_rule=F("per_rule") + 1),
    "bulk_update a snapshot": lambda w: bulk_updated(at(w).get(), "manifest", {}),
    "update_or_create": lambda w: Snapshot.objects.update_or_create(
        hash=w.snapshot.hash, defaults={"per_rule": 9}
    ),
    "upsert a snapshot": lambda w: upserted(at(w).get(), "params", {}, "id"),
    "select for update, then save": locked_and_saved,
    "rename its folder": lambda w: at(w).update(store_key="elsewhere"),
    "forget its parts": lambda w: at(w).update(parts={}),
    "reopen it for members": lambda w: sql("UPDATE synthesis_snapshot SET txid = txid_current()"),
    "delete a snapshot": lambda w: raw_delete(at(w)),
    "SQL update": lambda w: sql("UPDATE synthesis_snapshot SET hash = 'x'"),
    "SQL executemany": executed_many,
    "SQL update in a WITH": lambda w: sql(
        "WITH changed AS (UPDATE synthesis_snapshot SET per_rule = 9 RETURNING id) SELECT * FROM changed"
    ),
    "SQL insert on conflict": lambda w: sql(
        "INSERT INTO synthesis_snapshot SELECT (s).* FROM (SELECT s FROM synthesis_snapshot s) x "
        "ON CONFLICT (id) DO UPDATE SET per_rule = 9"
    ),
    "SQL merge": lambda w: sql(
        "MERGE INTO synthesis_snapshot s USING (SELECT 1) o ON true WHEN MATCHED THEN DELETE"
    ),
    "SQL delete": lambda w: sql("DELETE FROM synthesis_snapshot"),
    "SQL truncate": lambda w: sql("TRUNCATE synthesis_snapshot CASCADE"),
    "truncate people, cascading": lambda w: sql("TRUNCATE auth_user CASCADE"),
    "manage.py flush": flushed,
    "deserialize a snapshot": lambda w: deserialized(w.snapshot, '"per_rule": 3', '"per_rule": 8'),
    # what is in it
    "delete the members": lambda w: w.snapshot.members.all().delete(),
    "renumber a member": lambda w: w.snapshot.members.filter(position=0).update(position=7),
    "put another sample in its place": moved,
    "add a member": lambda w: member(w).save(),
    "bulk_create a member": lambda w: SnapshotSample.objects.bulk_create([member(w)]),
    "COPY a member": copied_member,
    "INSERT ... SELECT a member": lambda w: sql(
        "INSERT INTO synthesis_snapshotsample (snapshot_id, sample_id, position, sample_key) "
        "SELECT %s, %s, 50, ''",
        w.snapshot.pk,
        w.outside.pk,
    ),
    "truncate the members": lambda w: sql("TRUNCATE synthesis_snapshotsample"),
    # what its members say
    "save a sample": lambda w: saved(Sample.objects.get(pk=w.sample.pk), query="other"),
    "save one field": lambda w: Sample(pk=w.sample.pk, query="x").save(update_fields=["query"]),
    "bulk_update samples": lambda w: bulk_updated(of(w).get(), "answer", ["PayOne/Other"]),
    "update by Concat": lambda w: of(w).update(query=Concat(F("query"), Value("!"))),
    "upsert a sample as a run does": lambda w: upserted(of(w).get(), "trace", "again", "id"),
    "COPY, then UPDATE ... FROM": copied_upsert,
    "deserialize a sample": lambda w: deserialized(w.sample, w.sample.query, "another query"),
    "a DO block": do_block,
    "one key of its JSON": lambda w: sql(
        "UPDATE synthesis_sample SET made_from = jsonb_set(made_from, '{x}', '1')"
    ),
    "give it another id": lambda w: sql(f"UPDATE synthesis_sample SET id = 999999 WHERE id = {w.sample.pk}"),
    "delete a sample": lambda w: raw_delete(of(w)),
    "SQL delete a sample": lambda w: sql(f"DELETE FROM synthesis_sample WHERE id = {w.sample.pk}"),
    "truncate samples": lambda w: sql("TRUNCATE synthesis_sample CASCADE"),
    # what its members point to
    "edit a rule version": lambda w: RuleVersion.objects.filter(pk=w.version.pk).update(text="x"),
    "delete a rule version": lambda w: raw_delete(RuleVersion.objects.filter(pk=w.version.pk)),
    "rename a rule": lambda w: Rule.objects.filter(pk=w.version.rule_id).update(code="OTHER"),
    "move a rule": lambda w: saved(w.version.rule, domain=make_domain("finance")),
    "edit a tool's revision": lambda w: ToolRevision.objects.update(data={}),
    "edit an attempt": lambda w: Attempt.objects.update(query="x"),
    "delete an attempt": lambda w: Attempt.objects.all().delete(),
    "edit a decision": lambda w: Decision.objects.update(verdict="reject"),
    "edit a prompt": lambda w: PromptVersion.objects.update(source="x"),
    "edit frozen lines": lambda w: FrozenLines.objects.update(data=b""),
    "delete frozen lines": lambda w: raw_delete(FrozenLines.objects.all()),
    "truncate frozen lines": lambda w: sql("TRUNCATE synthesis_frozenlines"),
    # cascades
    "delete who froze it": lambda w: raw_delete(User.objects.filter(pk=w.user.pk)),
    "delete the run": lambda w: raw_delete(SynthesisRun.objects.filter(pk=w.sample.run_id)),
    "delete the rule": lambda w: raw_delete(Rule.objects.filter(pk=w.version.rule_id)),
    "delete the domain": lambda w: raw_delete(Domain.objects.filter(pk="hr")),
    "delete a tool": lambda w: raw_delete(Tool.objects.filter(pk=w.version.target_id)),
}


@pytest.mark.django_db
@pytest.mark.parametrize("way", WAYS)
def test_the_database_refuses(way, world):
    before = content()
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        WAYS[way](world)
        sql("SET CONSTRAINTS ALL IMMEDIATE")  # what a COMMIT would do
    assert refused.value.__cause__ is not None, "Django refused it; the database was not asked"
    assert refused.value.__cause__.sqlstate.startswith("23")
    assert content() == before


OTHERS = {
    models.JSONField: {"other": 1},
    models.TextField: "other",
    models.CharField: "other",
    models.BigIntegerField: 77,
    models.DateTimeField: "2020-01-01T00:00:00Z",
}
COLUMNS = {field.name: field for field in Sample._meta.concrete_fields if not field.generated}


@pytest.mark.django_db
@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_of_a_member_is_frozen_but_who_approved_it(name, world):
    field = COLUMNS[name]
    if isinstance(field, models.ForeignKey):
        other = {
            "run": lambda: SynthesisRun.objects.create(branch="rule", writer="offline").pk,
            "domain": lambda: make_domain("finance").pk,
            "rule_version": lambda: None,
            "anchor": lambda: make_tool("A/b").pk,
            "labelled_query": lambda: 1,
        }[name]()
    else:
        other = next((value for kind, value in OTHERS.items() if isinstance(field, kind)), 999_999)
    change = {field.attname: str(other)[: field.max_length] if isinstance(field, models.CharField) else other}
    if name in MAY_CHANGE:
        assert of(world).update(**change) == 1
        return
    with pytest.raises(IntegrityError, match="frozen in snapshot"), transaction.atomic():
        of(world).update(**change)


@pytest.mark.django_db
def test_a_sample_in_no_snapshot_is_free(world):
    assert Sample.objects.filter(pk=world.outside.pk).update(query="edited") == 1
    assert Sample.objects.filter(pk=world.outside.pk).delete()[0] >= 1


@pytest.mark.django_db
def test_who_approved_a_member_may_change_and_it_can_wait_again(world):
    of(world).update(human="pending", approved_by="", approved_how="")
    assert rebuild(world.snapshot)["equal"]


ADDRESSES = [
    ("post", "/synthesis/snapshots/{snapshot}/", {"per_rule": 9}, 405),
    ("delete", "/synthesis/snapshots/{snapshot}/", {}, 405),
    ("post", "/synthesis/snapshots/{snapshot}/samples.jsonl", {}, 405),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("method", "path", "data", "status"), ADDRESSES)
def test_pages_answer_cleanly(method, path, data, status, world, client):
    client.force_login(world.user)
    ids = {"snapshot": world.snapshot.pk, "sample": world.sample.pk}
    filled = {key: str(value).format(**ids) for key, value in data.items()}
    before = content()
    found = getattr(client, method)(path.format(**ids), filled)
    assert found.status_code == status
    assert content() == before


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["put", "patch", "delete", "post"])
def test_the_api_answers_cleanly(method, world):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(world.user)}")
    before = content()
    for path in (f"snapshots/{world.snapshot.pk}", f"synthesis/samples/{world.sample.pk}", "snapshots"):
        answer = getattr(client, method)(f"/api/v1/{path}", {"per_rule": 9}, format="json")
        assert answer.status_code == 405 and set(answer.json()) == {"message", "code", "extra"}
    assert content() == before


@pytest.mark.django_db
def test_what_a_trigger_refuses_is_told_as_a_conflict(world, client, monkeypatch):
    """Whatever code meets the trigger: a page and a command say it in one sentence."""
    client.force_login(world.user)

    def careless(*args: Any, **kwargs: Any) -> None:
        of(world).update(query="edited after all")

    monkeypatch.setattr("synthesis.datasets.views.rebuild_start", careless)
    with transaction.atomic():
        page = client.post(f"/synthesis/snapshots/{world.snapshot.pk}/rebuild/")
        transaction.set_rollback(True)
    assert page.status_code == 409


def test_the_owner_of_the_tables_can_switch_triggers_off_and_a_rebuild_shows_it(world, django_db_blocker):
    """What no trigger can stop: DDL by the owner. The copy in the store and the hash tell on it."""
    switch = "ALTER TABLE synthesis_sample {} TRIGGER synthesis_sample_content_kept"
    was = world.sample.trace
    with django_db_blocker.unblock():
        try:
            sql(switch.format("DISABLE"))
            of(world).update(trace="changed behind the back")
            found = rebuild(world.snapshot)
            assert not found["equal"]
            told = {file["name"]: file["difference"] for file in found["files"] if not file["equal"]}
            assert set(told) == {"samples.jsonl", "samples.parquet"}
            assert f"sample {world.sample.pk}, trace was" in told["samples.jsonl"]
            assert "changed behind the back" in told["samples.jsonl"]
        finally:
            of(world).update(trace=was)
            sql(switch.format("ENABLE"))
        assert rebuild(world.snapshot)["equal"]
