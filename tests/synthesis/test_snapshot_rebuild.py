"""The database alone writes a frozen folder again, byte for byte, whatever became of tools, rules and the store."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from catalog.models import NeighbourList, TokenUnit, Tool
from rules.models import Rule
from synthesis.datasets import build as datasets_build
from synthesis.datasets import files as datasets_files
from synthesis.datasets.files import cut, rebuild, snapshot_dir
from synthesis.models import FrozenLines, Sample, Snapshot
from tests.factories import make_snapshot, make_tool
from tests.synthesis.rows import make_book, make_sample, publish, run_job
from tests.synthesis.test_snapshots import build
from trace_site import jobs

pytestmark = pytest.mark.django_db
ODD = "Pay<One>&&\"Get'Slip\n\u2028\u05e9\u05dc\u05d5\u05dd \U0001f4c4"


@pytest.fixture
def snapshot() -> Snapshot:
    version = make_book()
    for number in range(4):
        make_sample(version, human="approved", query=f"{ODD} {number}", trace=ODD)
    make_sample(None, human="approved")
    return Snapshot.objects.get(pk=run_job(build(per_rule=9))["id"])


def change_the_world() -> None:
    Tool.objects.filter(name="PayOne/GetPayslip").update(description="Other words.", content_hash="f" * 64)
    publish(2)
    publish(3)
    Rule.objects.update(published=None)
    Tool.objects.exclude(name="PayOne/GetPayslip").update(status="retired")
    make_tool("New/Tool")
    NeighbourList.objects.all().delete()
    TokenUnit.objects.create(family="flat", slot=999, string="<<New&&Tool>>")
    TokenUnit.objects.filter(slot=0).update(state="retired")
    Sample.objects.update(human="rejected", approved_by="", approved_how="")


def test_the_same_folder_is_written_after_tools_rules_and_tokens_have_changed(snapshot, tmp_path):
    frozen = snapshot_dir(snapshot)
    change_the_world()
    found = rebuild(snapshot, tmp_path / "again")
    assert found["equal"] and found["stored"] == "whole" and not found["restored"]
    names = {path.name for path in frozen.iterdir()} - {"store.json"}
    assert names == {path.name for path in (tmp_path / "again").iterdir()}
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (frozen / name).read_bytes(), name
    assert len(names) == 8


@pytest.mark.parametrize("harm", ["lost", "damaged", "incomplete"])
def test_what_the_store_lost_is_put_back(snapshot, harm):
    folder = snapshot_dir(snapshot)
    was = (folder / "samples.jsonl").read_bytes()
    if harm == "lost":
        shutil.rmtree(folder)
    elif harm == "damaged":
        (folder / "samples.jsonl").write_bytes(was[:-2])
    else:
        (folder / "tools.jsonl").unlink()
    change_the_world()
    found = rebuild(snapshot)
    assert found["equal"] and found["restored"]
    assert found["stored"] == ("missing" if harm == "lost" else "damaged")
    assert (snapshot_dir(snapshot) / "samples.jsonl").read_bytes() == was


def test_the_command_tells_it_in_json_and_writes_the_folder(snapshot, tmp_path, capsys):
    call_command("snapshot_rebuild", str(snapshot.pk), into=str(tmp_path / "out"), json=True)
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["equal"] and found["hash"] == snapshot.hash
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["hash"] == snapshot.hash
    with pytest.raises(CommandError, match="not empty"):
        call_command("snapshot_rebuild", str(snapshot.pk), into=str(tmp_path / "out"))
    with pytest.raises(CommandError, match="no snapshot 999"):
        call_command("snapshot_rebuild", "999")


def test_the_button_queues_one_rebuild_and_the_page_says_how_it_ended(snapshot, client_as):
    client = client_as("expert")
    address = f"/synthesis/snapshots/{snapshot.pk}/"
    assert "Rebuild and compare" in client.get(address).content.decode()
    for _ in range(2):
        assert client.post(f"{address}rebuild/").status_code == 302
    (job,) = jobs.Job.objects.filter(kind="snapshot_rebuild")
    assert run_job(job)["equal"]
    assert "every file has the digest of the manifest" in client.get(address).content.decode()


def test_a_snapshot_of_before_says_that_it_cannot_be_rebuilt(client_as):
    old = make_snapshot(manifest={"files": {}, "counts": {}})
    with pytest.raises(CommandError, match="before the database kept"):
        call_command("snapshot_rebuild", str(old.pk))
    page = client_as("expert").get(f"/synthesis/snapshots/{old.pk}/").content.decode()
    assert "Frozen before the database kept" in page and "Rebuild and compare" not in page


def test_two_snapshots_share_what_did_not_change(snapshot):
    parts = FrozenLines.objects.count()
    second = Snapshot.objects.get(pk=run_job(build(per_rule=2))["id"])
    assert second.pk != snapshot.pk
    shared = {name: second.parts[name] == snapshot.parts[name] for name in second.parts}
    assert shared == {
        "tools.jsonl": True,
        "neighbours.jsonl": True,
        "rules.jsonl": True,
        "tokens.jsonl": True,
        "README.md": False,
    }
    assert FrozenLines.objects.count() == parts + len(second.parts["README.md"])


def test_one_changed_line_of_many_changes_one_part_wherever_it_stands():
    lines = [b'{"name": "Tool/%d"}\n' % number for number in range(20_000)]
    parts = list(cut(lines))
    assert [line for part in parts for line in part] == lines
    assert 20 <= len(parts) <= 80
    known = set(map(tuple, parts))
    edited = [*lines[:7000], b'{"name": "Tool/new"}\n', *lines[7000:]]
    fresh = [part for part in cut(edited) if tuple(part) not in known]
    assert len(fresh) <= 2


def test_a_sample_that_changes_while_it_is_frozen_is_frozen_as_it_is_then(monkeypatch):
    version = make_book()
    sample = make_sample(version, human="approved")
    make_sample(version, human="approved")
    write, edits = datasets_build.write_table, []

    def edited_meanwhile(folder):
        if not edits:
            edits.append(Sample.objects.filter(pk=sample.pk).update(query="edited in the last moment"))
        return write(folder)

    monkeypatch.setattr(datasets_build, "write_table", edited_meanwhile)
    snapshot = Snapshot.objects.get(pk=run_job(build())["id"])
    assert "edited in the last moment" in (snapshot_dir(snapshot) / "samples.jsonl").read_text()
    assert rebuild(snapshot)["equal"]


def test_a_sample_that_is_taken_back_while_it_is_frozen_stays_out(monkeypatch):
    version = make_book()
    sample = make_sample(version, human="approved")
    kept = make_sample(version, human="approved")
    write = datasets_build.write_table

    def taken_back(folder):
        Sample.objects.filter(pk=sample.pk).update(human="pending")
        return write(folder)

    monkeypatch.setattr(datasets_build, "write_table", taken_back)
    snapshot = Snapshot.objects.get(pk=run_job(build())["id"])
    assert list(snapshot.members.values_list("sample", flat=True)) == [kept.pk]


def test_a_table_that_another_version_would_write_is_told_apart_from_other_rows(snapshot, monkeypatch):
    write = datasets_files.write_table

    def other_bytes(folder):
        write(folder)
        table = pq.read_table(folder / "samples.parquet")
        pq.write_table(table, folder / "samples.parquet", compression="none")

    monkeypatch.setattr(datasets_files, "write_table", other_bytes)
    different = [file for file in rebuild(snapshot)["files"] if not file["equal"]]
    assert [file["name"] for file in different] == ["samples.parquet"]
    assert "the same rows in other bytes" in different[0]["difference"]
