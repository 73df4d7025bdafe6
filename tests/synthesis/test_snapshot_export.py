"""An exported snapshot is read by Hugging Face datasets and by pandas, and loses nothing on any way there and back."""

import io
import json
import os
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.imports.services import catalog_import
from catalog.models import TokenUnit
from synthesis.datasets.card import dataset_card
from synthesis.datasets.files import TABLE, jsonl, rebuild, snapshot_dir, write_lines, write_table
from synthesis.datasets.views import zipped
from synthesis.models import Sample, Snapshot, SynthesisRun
from tests.factories import make_tool
from tests.synthesis.rows import make_book, make_sample, run_job
from tests.synthesis.test_snapshots import build
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl, sha256_file
from training.core.records import load_snapshot

ODD = [
    "<<PayOne&&GetPayslip>> & 'quotes' \"double\" \\ back\\slash",
    "two\nlines\r\nand\ttabs",
    "emoji \U0001f469\u200d\U0001f52c and \U0001f4c4",
    "\u05e9\u05dc\u05d5\u05dd \u202e\u0627\u0644\u0633\u0644\u0627\u0645 \u202c",
    "line\u2028paragraph\u2029next\u0085line",
    "\ufeffbyte order mark, \u0001 control, \x7f, e\u0301",
    "| pipe | `tick` </script> ]]> -- {{ braces }}",
]
READ = """
import json, sys
import datasets, pandas
folder = sys.argv[1]
out = {}
ways = {
    "folder": datasets.load_dataset(folder, split="train"),
    "parquet": datasets.load_dataset("parquet", data_files=folder + "/samples.parquet", split="train"),
    "jsonl": datasets.load_dataset("json", data_files=folder + "/samples.jsonl", split="train"),
}
for name, rows in ways.items():
    out[name] = [dict(row) for row in rows]
    out[name + " types"] = {key: str(kind) for key, kind in rows.features.items()}
for name in ("tools", "rules", "tokens", "neighbours"):
    out[name] = [dict(row) for row in datasets.load_dataset(folder, name, split="train")]
parquet = pandas.read_parquet(folder + "/samples.parquet")
parquet["answer"] = parquet["answer"].map(list)
parquet["permissions"] = parquet["permissions"].map(list)
out["pandas parquet"] = json.loads(parquet.to_json(orient="records", force_ascii=False))
lines = pandas.read_json(folder + "/samples.jsonl", lines=True, dtype=False, convert_dates=False)
out["pandas jsonl"] = json.loads(lines.to_json(orient="records", force_ascii=False))
print(json.dumps(out))
"""
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60
) | st.sampled_from(ODD)


@pytest.fixture
def folder(db):
    version = make_book()
    name = 'Pay<One>/Get "Slip" & \u05e9\U0001f4c4'
    make_tool(name, description=ODD[0])
    TokenUnit.objects.create(family="flat", slot=900, string=f"<<{name.replace('/', '&&')}>>")
    for number, text in enumerate(ODD):
        answer = [name] if number == 0 else ["PayOne/GetPayslip"]
        make_sample(version, human="approved", query=text, trace=text, answer=answer, permissions=[text])
    make_sample(None, human="approved")
    return snapshot_dir(Snapshot.objects.get(pk=run_job(build(per_rule=20))["id"]))


def test_datasets_and_pandas_read_it_without_a_network(folder, tmp_path):
    environment = {
        **os.environ,
        **dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1"),
        "HF_HOME": str(tmp_path),
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    read = json.loads(done.stdout.splitlines()[-1])
    frozen = [row for _, row in read_jsonl(folder / "samples.jsonl")]
    for way in ("folder", "parquet", "jsonl", "pandas parquet", "pandas jsonl"):
        assert read[way] == frozen, way
    assert [row["query"] for row in frozen[:-1]] == ODD
    for types in (read["folder types"], read["parquet types"]):
        assert types["id"] == "Value('int64')" and types["answer"] == "List(Value('string'))"
    for name in ("tools", "tokens", "neighbours"):
        assert read[name] == [row for _, row in read_jsonl(folder / f"{name}.jsonl")], name
    assert [row["code"] for row in read["rules"]] == ["PAYSLIP_PERIOD"]


def test_training_reads_the_folder_as_before(folder):
    snapshot = load_snapshot(folder)
    assert [sample["query"] for sample in snapshot.samples[:-1]] == ODD
    assert snapshot.hash == json.loads((folder / "manifest.json").read_text())["hash"]


def test_the_table_has_typed_columns_and_the_rows_of_the_lines(folder):
    table = pq.read_table(folder / "samples.parquet")
    assert table.schema.equals(TABLE)
    assert table.to_pylist() == [row for _, row in read_jsonl(folder / "samples.jsonl")]
    assert table.schema.field("answer").type == pa.list_(pa.string())


rows_drawn = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(1, 2**62),
            **dict.fromkeys(("key", "branch", "tier", "style", "domain", "query", "trace"), texts),
            "answer": st.lists(texts, max_size=3),
            "permissions": st.lists(texts, max_size=3),
            "writer": texts,
            "rule": st.none() | texts,
        }
    ).map(lambda row: {name: row[name] for name in TABLE.names}),
    max_size=6,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows_drawn)
def test_lines_objects_table_and_lines_again_are_byte_equal(rows, tmp_path):
    path = tmp_path / "samples.jsonl"
    about = write_lines(path, jsonl(rows))
    assert about["rows"] == len(rows) and about["sha256"] == sha256_file(path)
    read = [row for _, row in read_jsonl(path)]
    assert read == rows
    assert b"".join(jsonl(read)) == path.read_bytes()
    write_table(tmp_path)
    assert b"".join(jsonl(pq.read_table(tmp_path / "samples.parquet").to_pylist())) == path.read_bytes()


@pytest.mark.parametrize("bad", ["nul \0 here", "half \ud83d of a pair"])
def test_what_no_database_stores_is_refused_before_it_comes_near(bad, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"query": bad, "tools": ["A/b"]}) + "\n")
    with pytest.raises(TraceError, match="cannot be stored"):
        list(read_jsonl(path))


def test_the_zip_is_the_folder(folder):
    data = io.BytesIO(b"".join(zipped(folder, "snapshot-1")))
    with zipfile.ZipFile(data) as archive:
        assert archive.testzip() is None
        names = {path.name for path in folder.iterdir()} - {"store.json"}
        assert {name.removeprefix("snapshot-1/") for name in archive.namelist()} == names
        for name in names:
            assert archive.read(f"snapshot-1/{name}") == (folder / name).read_bytes()


def test_the_card_says_what_was_counted_and_that_the_rest_was_not(folder):
    card = (folder / "README.md").read_text()
    head, front, body = card.split("---\n", 2)
    said = yaml.safe_load(front)
    assert head == "" and {config["config_name"] for config in said["configs"]} >= {"default", "tools"}
    assert "**OFFLINE TEXT: 8 of 8 samples were written by the offline templates" in body
    assert "Agreement: no sample of these runs was read twice, so it is not known." in body
    assert "the registry" in body and "| not recorded |" in body
    assert "fewer than 20 samples: hr/PAYSLIP_PERIOD (7)" in body
    assert "append(20), seed 1" in body


def test_the_card_names_the_licence_of_each_file_and_of_the_dataset(db, tmp_path):
    make_sample(make_book(), human="approved")
    tool = {"name": "PayTwo/GetForm", "description": "Returns a form of one year for a worker."}
    for name, licence in (("forms.jsonl", ""), ("forms.jsonl", " CC-BY-4.0 "), ("other.jsonl", "")):
        (tmp_path / name).write_text(json.dumps({**tool, "name": f"{name[:5]}/GetForm"}) + "\n")
        catalog_import(path=tmp_path / name, domain="hr", licence=licence)
    snapshot = Snapshot.objects.get(pk=run_job(build(licence="Ours, ask first"))["id"])
    card = (snapshot_dir(snapshot) / "README.md").read_text()
    front = yaml.safe_load(card.split("---\n", 2)[1])
    assert (front["license"], front["license_name"]) == ("other", "Ours, ask first")
    assert (
        "| tools | forms.jsonl | 1 | CC-BY-4.0 |" in card
        and "Licence of this dataset: Ours, ask first." in card
    )
    assert "| tools | other.jsonl | 1 | not recorded |" in card and str(tmp_path) not in card
    assert rebuild(snapshot)["equal"]


def test_the_licence_of_a_dataset_is_no_part_of_its_identity(db):
    make_sample(make_book(), human="approved")
    first = run_job(build(licence="apache-2.0"))
    assert run_job(build(licence="MIT"))["id"] == first["id"]
    assert Snapshot.objects.get().params["licence"] == "apache-2.0"


def test_the_card_takes_no_text_for_markup():
    manifest = Snapshot(manifest={}).manifest
    assert manifest == {}
    found = facts(writers={"llm:<b>x|y`z": 2}, domains_named="<script>alert(1)</script>|x")
    card = dataset_card(found)
    assert "<script>" not in card and "llm:&lt;b&gt;x\\|y'z" in card
    assert "OFFLINE" not in card


def facts(writers, domains_named):
    counts = {
        "samples": 2,
        "rrb": 2,
        "rule": 0,
        "imported": 0,
        "rules_with_samples": 0,
        "rules": 0,
        "clauses": 0,
        "with_clause": 0,
        "without_clause": 0,
        "tools": 1,
    }
    estimate = {"value": None, "low": None, "high": None, "n": 0, "why": "fewer than 2 units read twice"}
    return {
        "hash": "0" * 64,
        "strategy": "append",
        "per_rule": 2,
        "seed": 0,
        "branches": ["rrb"],
        "rrb": None,
        "budgets": {},
        "counts": counts,
        "writers": writers,
        "groups": [{"branch": "rrb", "domain": domains_named, "style": "", "samples": 2}],
        "left_out": [],
        "contaminated": [],
        "guarded": {},
        "yields": {},
        "recipes": [],
        "prompts": [],
        "approvals": {"read": 2},
        "agreement": {"n": 0, "same": 0, "kappa": estimate, "alpha": estimate},
        "judge": {"n": 0},
        "sources": [],
        "shortfall": {},
    }


def test_agreement_on_the_card_is_of_the_samples_read_twice(user_with):
    from synthesis.models import SecondShare
    from synthesis.review import services as review_services

    version = make_book()
    SecondShare.objects.create(share=1.0)
    run = SynthesisRun.objects.create(branch="rule", writer="offline")
    people = [user_with("reviewer", username=f"reader{number}") for number in range(2)]
    samples = [make_sample(version, run=run) for _ in range(3)]
    for sample in samples[:2]:
        for person in people:
            review_services.approve(sample=sample, reviewer=person)
    review_services.approve(sample=samples[2], reviewer=people[0])
    review_services.reject(sample=samples[2], reviewer=people[1], reason="unclear", note="", follow_up="drop")
    assert Sample.objects.filter(human="approved").count() == 2
    manifest = Snapshot.objects.get(pk=run_job(build())["id"]).manifest
    assert (manifest["agreement"]["n"], manifest["agreement"]["same"]) == (3, 2)
    assert manifest["approvals"] == {"second": 2}
    card = (snapshot_dir(Snapshot.objects.get()) / "README.md").read_text()
    assert "of 3 samples read twice, blind, 2 got the same verdict (66.7%)" in card
    assert "0 of 2 samples were approved without being read" in card
    assert rebuild(Snapshot.objects.get())["equal"]  # figures come back from the database as they went in
