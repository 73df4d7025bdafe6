"""Hostile files end in one clear error within two seconds and 200 MB, in the child and not here; honest ones pass."""

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.core.importers.documents import YamlTree
from catalog.core.importers.read import ROOT, make_order, read_catalog, read_limited
from catalog.imports.services import catalog_import
from catalog.models import CatalogImport, Tool
from tests.catalog.spec_files import honest_edmx, honest_json, honest_yaml
from trace_site.lib.errors import TraceError

# runs the child as it is and then says what it took
PROGRAM = """
import atexit, json, runpy, sys, time
def report():
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    print(json.dumps([time.process_time(), int(status["VmHWM"].split()[0]) * 1024]), file=sys.stderr)
atexit.register(report)
runpy.run_module("catalog.core.importers.read", run_name="__main__")
"""
HEAD = "openapi: 3.0.0\ninfo: {title: T}\npaths: {/a: {get: {summary: x}}}\n"


def chain(first: str, link: str, length: int) -> str:
    """Anchors that each repeat the one before nine times."""
    rows = [f"a0: &a0 {first}"]
    rows += [f"a{n}: &a{n} " + link.replace("*", f"*a{n - 1}") for n in range(1, length)]
    return "\n".join(rows) + "\n" + HEAD


def entities(*declared: str) -> str:
    return f'<?xml version="1.0"?><!DOCTYPE a [{"".join(declared)}]><Edmx>&z;</Edmx>'


def laughs() -> str:
    names = "abcdefghijz"
    return entities(
        '<!ENTITY a "lol">',
        *(f'<!ENTITY {y} "{f"&{x};" * 10}">' for x, y in zip(names, names[1:], strict=False)),
    )


def paths(item: str) -> str:
    """Twenty thousand paths that share one long text."""
    return f"x: {item}\nopenapi: 3.0.0\ninfo: {{title: T}}\npaths:\n" + "".join(
        f"  /p{n}: *d\n" for n in range(20_000)
    )


def referring() -> str:
    shared = {"get": {"description": "word " * 3900}}
    document = {"openapi": "3.0.0", "info": {"title": "T"}, "x-shared": shared}
    return json.dumps({**document, "paths": {f"/p{n}": {"$ref": "#/x-shared"} for n in range(20_000)}})


HOSTILE: dict[str, tuple[Callable[[], str], str]] = {
    "billion laughs.xml": (laughs, "document type or entities"),
    "quadratic.xml": (lambda: entities(f'<!ENTITY z "{"a" * 100_000}">') + "&z;" * 10_000, "document type"),
    "file entity.xml": (lambda: entities('<!ENTITY z SYSTEM "file:///etc/passwd">'), "document type"),
    "net entity.xml": (lambda: entities('<!ENTITY z SYSTEM "http://127.0.0.1:9/">'), "document type"),
    "parameter entity.xml": (
        lambda: entities('<!ENTITY % z SYSTEM "http://127.0.0.1:9/">%z;'),
        "document type",
    ),
    "deep.xml": (lambda: "<Edmx>" + "<a>" * 100_000, "deeper than 100"),
    "many attributes.xml": (
        lambda: "<Edmx " + " ".join(f'a{n}=""' for n in range(400_000)) + "/>",
        "MB of memory|no entity container",
    ),
    "cut.xml": (lambda: "<Edmx><Schema Namespace='a", "not valid XML"),
    "alias lists.yaml": (lambda: chain("[x]", "[*,*,*,*,*,*,*,*,*]", 12), "10,000,000 values"),
    "alias maps.yaml": (lambda: chain("{a: b}", "{a: *, b: *, c: *, d: *, e: *}", 30), "10,000,000 values"),
    "alias merges.yaml": (
        lambda: chain("{a: b}", "{<<: [*,*,*,*,*,*,*,*,*]}", 12),
        "10,000,000 values|merged keys",
    ),
    "merges.yaml": (
        lambda: (
            HEAD
            + f"x: &x {{{', '.join(f'k{n}: 1' for n in range(20_000))}}}\n"
            + "y: ["
            + "{<<: *x}," * 9_000
            + "]"
        ),
        "100,000 merged keys",
    ),
    "deep flow.yaml": (lambda: HEAD + "x: " + "[" * 100_000, "deeper than 400"),
    "deep map.yaml": (lambda: HEAD + "x: " + "{a: " * 100_000, "deeper than 400"),
    "deep block.yaml": (lambda: HEAD + "x:\n" + "- " * 100_000, "deeper than 400"),
    "self.yaml": (lambda: HEAD + "x: &x [*x]\n", "points to nothing, or to what it is part of"),
    "cut.yaml": (lambda: HEAD + "x: 'never closed", "not valid YAML"),
    "shared operation.yaml": (
        lambda: paths(f"&d {{get: {{description: '{'word ' * 3900}'}}}}"),
        "repeat their texts",
    ),
    "shared operation.json": (referring, "repeat their texts"),
    "deep.json": (lambda: '{"openapi": "3.0.0", "x": ' + "[" * 100_000, "nested too deeply"),
    "deep closed.json": (
        lambda: '{"openapi": "3.0.0", "x": ' + '{"a":' * 100_000 + "1" + "}" * 100_001,
        "too deeply",
    ),
    "many lists.json": (
        lambda: '{"openapi": "3.0.0", "x": [' + "[]," * 4_000_000 + "1]}",
        "MB of memory|no paths",
    ),
    "cut.json": (lambda: '{"openapi": "3.0.0", "paths": {"/a": {"get": {"summary": "x"}', "not valid JSON"),
}


def run_child(order: dict[str, Any]) -> tuple[list[Any], float, int]:
    """What the child printed, its processor seconds, and the most memory it held (bytes)."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=json.dumps(order).encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    seconds, peak = json.loads(done.stderr.splitlines()[-1])
    return [json.loads(line) for line in done.stdout.splitlines()], seconds, peak


@pytest.fixture(scope="module")
def resting(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The memory of a child that reads next to nothing."""
    path = tmp_path_factory.mktemp("rest") / "a.yaml"
    path.write_text(HEAD)
    return run_child(make_order(path, "a.yaml", "document", None))[2]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_document_ends_within_two_seconds_and_200_mb(name: str, resting: int, tmp_path: Path) -> None:
    make, message = HOSTILE[name]
    path = tmp_path / name
    path.write_text(make())
    fmt = "odata" if name.endswith("xml") else "document"
    [only], seconds, peak = run_child(make_order(path, name, fmt, None))
    assert only["error"]["where"].startswith(name)
    with pytest.raises(TraceError, match=message):
        raise TraceError(**only["error"])
    assert seconds <= 2 and peak - resting <= 200_000_000


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["billion laughs.xml", "alias lists.yaml", "deep.json", "cut.json"])
def test_hostile_document_stores_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(HOSTILE[name][0]())
    for skip in (False, True):
        with pytest.raises(TraceError) as caught:
            catalog_import(path=path, domain="hr", skip_bad_rows=skip)
        assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
    assert not Tool.objects.exists() and not CatalogImport.objects.exists()


def packed(kind: str) -> bytes:
    if kind == "gz":
        return gzip.compress(b"0" * 10_000_000)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../evil.json", "0" * 10_000_000)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["gz", "zip"])
@pytest.mark.parametrize("fmt", ["auto", "openapi", "jsonl"])
def test_packed_files_are_never_unpacked(kind: str, fmt: str, tmp_path: Path) -> None:
    path = tmp_path / f"spec.{kind}"
    path.write_bytes(packed(kind))
    with pytest.raises(TraceError, match="Unpack it first"):
        read_catalog(path, fmt=fmt)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("a.json", "64,000,000"), ("a.yaml", "64,000,000"), ("a.xml", "64,000,000"), ("a.jsonl", "100,000,000")],
)
def test_file_of_a_gigabyte_is_refused_by_its_size(name: str, limit: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as handle:
        handle.write({"a.json": b"{", "a.xml": b"<Edmx>"}.get(name, b"#") + b" " * 1_000_000)
        handle.truncate(1 << 30)
    with pytest.raises(TraceError, match=f"1,073,741,824 bytes; the limit is {limit}. Split it by API"):
        read_catalog(path)


@pytest.mark.parametrize("name", ["big.json", "big.yaml", "big.edmx"])
def test_honest_ten_megabytes_pass_with_room_to_spare(name: str, resting: int, tmp_path: Path) -> None:
    make = {"big.json": honest_json, "big.yaml": honest_yaml, "big.edmx": honest_edmx}[name]
    path = tmp_path / name
    path.write_text(make(10_000_000))
    assert path.stat().st_size > 9_500_000
    order = make_order(path, name, "odata" if name == "big.edmx" else "document", None)
    [head, *rows], seconds, peak = run_child(order)
    assert "format" in head and len(rows) > 3_000
    assert seconds <= order["seconds"] / 2 and peak - resting <= order["memory"] * 0.8


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"MEMORY": 3_000_000, "MEMORY_PER_BYTE": 0}, "MB of memory"),
        ({"SECONDS": 0.5, "SECONDS_PER_MB": 0}, "1 seconds"),
    ],
)
def test_limits_of_the_child_end_what_no_check_foresaw(
    limit: dict[str, float], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in limit.items():
        monkeypatch.setattr(f"catalog.core.importers.read.{key}", value)
    path = tmp_path / "big.yaml"
    path.write_text(honest_yaml(12_000_000))
    with pytest.raises(TraceError, match=message) as caught:
        read_limited(path, "big.yaml", "document", None)
    assert (caught.value.code, caught.value.where) == ("too_large", "big.yaml")


def test_a_fault_of_the_reader_is_one_error_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(HEAD)
    monkeypatch.setattr("catalog.core.importers.read.ROOT", tmp_path)
    monkeypatch.setattr("catalog.core.importers.read.sys.executable", "/bin/false")
    with pytest.raises(TraceError, match="its reader broke off .status 1.. This is a fault of the importer"):
        read_limited(path, "a.yaml", "document", None)


def test_the_child_sees_no_secrets_and_writes_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_SECRET_KEY", "canary")
    seen: dict[str, Any] = {}

    def spy(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        seen.update(options)
        return subprocess.CompletedProcess(command, 0, b'{"format": "openapi"}\n', b"")

    path = tmp_path / "a.yaml"
    path.write_text(HEAD)
    monkeypatch.setattr("catalog.core.importers.read.subprocess.run", spy)
    read_limited(path, "a.yaml", "document", None)
    assert "canary" not in seen["env"].values() and seen["env"]["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("text", ["", "# only a comment", "---\n", "--- ~\n---\n"])
def test_empty_yaml_is_nothing(text: str) -> None:
    assert YamlTree("a.yaml").read(text) is None


def test_honest_aliases_are_shared_and_not_counted_as_bombs() -> None:
    tree = YamlTree("a.yaml").read(
        "a: &a {x: [1, 2]}\nb: [" + ", ".join(["*a"] * 1000) + "]\n*k : v".replace("*k : v", "")
    )
    assert tree["b"][999] is tree["a"]


def test_anchored_keys_can_be_used_again() -> None:
    assert YamlTree("a.yaml").read("&k key: 1\nother: {*k : 2}\n") == {"key": "1", "other": {"key": "2"}}
    with pytest.raises(TraceError, match="a key must be text"):
        YamlTree("a.yaml").read("a: &a [1]\n*a : 2\n")
