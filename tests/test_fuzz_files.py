"""Mutated files of every format, in every reader and every operation that takes a file: a sentence, never a crash."""

import csv
import io
import json
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from catalog.core.importers import read as importers
from catalog.imports.services import catalog_import
from catalog.queries.imports import read_queries
from evaluation.benchmarks.services import benchmark_import
from rules.exchange.services import file_preview
from synthesis.core.recipe import load_recipe
from synthesis.generate.imports import samples_import
from tests.catalog.test_importers_field import IN_TOOLS, OVERLOADS, PAGES, REF_CHAIN
from tests.factories import make_tool
from tests.tokens import token_of
from trace_site.access import ROLES
from trace_site.lib.errors import TraceError
from training.runs.services import mapping_from_file

pytestmark = pytest.mark.django_db
OPERATION = {
    "operationId": "readSlip",
    "summary": "Reads a <b>slip</b>.",
    "description": "`a` of **b**",
    "tags": ["pay"],
}
OPERATION |= {
    "parameters": [{"name": "month", "in": "query", "description": "The month."}],
    "deprecated": False,
}
OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Pay", "version": "1"},
    "components": {"x": {"y": OPERATION}},
}
OPENAPI |= {
    "paths": {"/slips/{id}": {"get": OPERATION, "put": {"$ref": "#/components/x/y"}, "summary": "Slips"}}
}
SWAGGER = {**OPENAPI, "openapi": None, "swagger": "2.0", "basePath": "/v1"}
TOOLS = [{"name": f"Pay/Get{n}", "description": f"Reads {n}, über.", "permissions": ["hr"]} for n in range(3)]
RULES = [
    {
        "code": "PAY_ONE",
        "tool_name": "Pay/Get0",
        "confusables": ["Pay/Get1"],
        "rule_text": "Use Pay/Get0 for one.",
    }
]
QUERIES = [{"query": "Show me the payslip of last month please", "tools": ["Pay/Get0"]}] * 3


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def table(rows: list[dict[str, Any]], mark: str = ",") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=mark)
    writer.writeheader()
    writer.writerows(
        {key: ";".join(cell) if isinstance(cell, list) else cell for key, cell in row.items()} for row in rows
    )
    return out.getvalue()


SEEDS: dict[str, tuple[str, str]] = {  # what is mutated: the name of the file, its text
    "tools": ("tools.jsonl", lines(TOOLS)),
    "sheet": ("tools.csv", table(TOOLS)),
    "openapi-json": ("pay.json", json.dumps(OPENAPI, indent=1)),
    "openapi-yaml": ("desk.yaml", REF_CHAIN),
    "swagger": ("pay.swagger.json", json.dumps({key: value for key, value in SWAGGER.items() if value})),
    "odata": ("hr.xml", OVERLOADS),
    "mcp": ("acme.json", json.dumps(PAGES)),
    "pages": ("acme.jsonl", lines(PAGES)),
    "model-tools": ("assistant.json", json.dumps({"tools": [{"type": "function", "function": IN_TOOLS}]})),
    "rules": ("rules.json", json.dumps(RULES)),
    "rules-sheet": ("rules.csv", table(RULES)),
    "queries": ("queries.jsonl", lines(QUERIES)),
    "queries-sheet": ("queries.csv", table(QUERIES, "\t")),
    "queries-text": ("queries.txt", "\n".join(row["query"] for row in QUERIES)),
    "samples": ("samples.jsonl", lines(QUERIES)),
    "benchmark": ("benchmark.jsonl", lines([{**row, "id": str(n)} for n, row in enumerate(QUERIES)])),
    "recipe": ("recipe.yaml", "retries: 2\nquery: {temperature: 0.5, words: [3, 60]}\n"),
}  # fmt: skip
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1e400,
    10**400,
    "",
    " ",
    "x" * 3000,
    [],
    {},
    [[]],
    {"": 1},
    {"$ref": "#/paths"},
]
VALUES += [
    {"$ref": "#"},
    "\x00",
    "\ud800",
    "\u202e",
    "e\u0301",
    "=1+1",
    "<b>",
    ["a", None],
    {"name": {}},
    "Pay/Get0",
]
TOKENS = [
    "\r",
    "\n",
    "\0",
    '"',
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\t",
    "<",
    ">",
    "&",
    "\\",
    "---\n",
    "<<: *a",
    "&a ",
    "!!x ",
]
TOKENS += [
    "sep=;\n",
    "\ufeff",
    "9" * 5000,
    "[" * 3000,
    "<a>" * 200,
    '{"a":' * 2000,
    "\u2028",
    "null",
    "NaN",
    "\\ud800",
    "<!DOCTYPE a>",
]
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-7", "cp037"]


def places(value: Any) -> list[tuple[Any, Any]]:
    """(holder, key) of everything inside a JSON value."""
    pairs = list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [(value, key) for key, _ in pairs] + [place for _, inner in pairs for place in places(inner)]


def bent(dice: random.Random, text: str) -> str:
    """JSON, or the first line of it that is, with some values of another type and some keys written twice."""
    whole = text.splitlines() if text[:1] == "{" and "\n" in text.strip() and text[1:2] != "\n" else [text]
    try:
        rows = [json.loads(line) for line in whole]
    except ValueError:
        return text
    for _ in range(dice.randint(1, 3)):
        holder, key = dice.choice(places(rows))
        holder[key] = deepcopy(dice.choice(VALUES))
    text = "\n".join(json.dumps(row) for row in rows)
    if dice.random() < 0.3 and (keys := [key for _, key in places(rows) if isinstance(key, str)]):
        quoted = json.dumps(dice.choice(keys))
        text = text.replace(quoted, f"{quoted}: {json.dumps(dice.choice(VALUES))}, {quoted}", 1)
    return text


def mutated(dice: random.Random, text: str) -> bytes:
    """One file that differs from an honest one in one to four ways."""
    text = bent(dice, text) if dice.random() < 0.5 else text
    for _ in range(dice.randint(0, 3)):
        at, other = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        parts = text.splitlines(keepends=True)
        text = dice.choice([
            text[:at] + dice.choice(TOKENS) + text[at:],
            text[:at] + text[other:],
            text[:at],
            text + text[at:other],
            text[:at] + text[other:] + text[at:other],
            "".join(dice.sample(parts, len(parts))),
            text.replace("\n", dice.choice(["\r", "\r\n", "\x85", "\n\n", " "])),
            text.replace(",", dice.choice([";", "\t", "|", ",,"])),
        ])  # fmt: skip
    encoding = dice.choice(["utf-8"] * 9 + ENCODINGS)
    data = bytearray(text.encode(encoding, "surrogatepass" if encoding == "utf-8" else "replace"))
    for _ in range(dice.choice([0, 0, 0, 1, 5])):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def try_read(
    dice: random.Random, kind: str, data: bytes, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind.startswith("rules"):
        file_preview(data=data, filename=path.name, skip_bad_rows=dice.random() < 0.5)
    elif kind.startswith("queries"):
        read_queries(data, path.name)
    elif kind == "samples":
        samples_import(path=path, split="all")
    elif kind == "benchmark":
        benchmark_import(path=path, kind="prb", name="fuzzed")
    elif kind == "recipe":
        dice.choice([load_recipe, mapping_from_file])(path)
    else:
        fmt = dice.choice(["auto"] * 9 + [*importers.FORMATS])
        catalog_import(
            path=path, domain="hr", fmt=fmt, skip_bad_rows=dice.random() < 0.7, dry_run=dice.random() < 0.8
        )


def read_here(path: Path, shown: str, fmt: str, most: int | None) -> Any:
    """As the child of the importers does, without the time it takes to begin."""
    return importers.read_whole(path, shown, fmt, most, 5_000_000)


@pytest.mark.parametrize("kind", SEEDS)
@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 9))])
def test_a_mutated_file_is_read_or_refused_with_a_sentence(
    kind: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importers, "read_limited", read_here)
    for row in TOOLS:
        make_tool(row["name"])
    name, text = SEEDS[kind]
    path = tmp_path / name
    for number in range(250 if part else 8):
        dice = random.Random(f"{kind} {part} {number}")
        data = mutated(dice, text)
        path.write_bytes(data)
        try:
            try_read(dice, kind, data, path, monkeypatch)
        except TraceError as error:
            assert error.message and str(error).encode("utf-8", "backslashreplace"), data
        except Exception as error:
            raise AssertionError(f"{kind} {part} {number}: {data[:3000]!r}") from error


Send = Callable[[APIClient, str, bytes, str], Any]


def as_form(client: APIClient, address: str, data: bytes, name: str) -> Any:
    fields = {
        "domain": "hr",
        "format": "auto",
        "dry_run": "true",
        "skip_bad_rows": "true",
        "collection": "field",
    }
    return client.post(address, {**fields, "file": SimpleUploadedFile(name, data)}, format="multipart")


def as_body(client: APIClient, address: str, data: bytes, name: str) -> Any:
    return client.generic(
        "POST", address, data, content_type="text/csv" if ".csv" in name else "application/json"
    )


def as_content(client: APIClient, address: str, data: bytes, name: str) -> Any:
    text = data.decode("utf-8", "replace")
    body = {"domain": "hr", "content": text, "filename": name, "dry_run": True}
    return client.post(address, {**body, "collection": "field", "queries": text.splitlines()}, format="json")


CATALOG, OF_RULES, OF_QUERIES = (
    [*SEEDS][:9],
    ["rules", "rules-sheet"],
    ["queries", "queries-sheet", "queries-text"],
)
SENT: list[tuple[str, Send, list[str]]] = [
    ("/api/v1/imports", as_form, CATALOG),
    ("/api/v1/imports", as_content, CATALOG),
    ("/api/v1/imports", as_body, CATALOG),
    ("/catalog/imports/new/", as_form, CATALOG),
    ("/api/v1/rules/import?dry_run=true", as_form, OF_RULES),
    ("/api/v1/rules/import", as_body, OF_RULES),
    ("/rules/import/", as_form, OF_RULES),
    ("/api/v1/queries", as_content, OF_QUERIES),
    ("/catalog/queries/import/", as_form, OF_QUERIES),
]


@pytest.mark.parametrize(
    ("address", "send", "kinds"), SENT, ids=lambda part: getattr(part, "__name__", str(part)[:30])
)
@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 5))])
def test_no_upload_is_answered_with_a_500(
    address, send, kinds, part, user_with, monkeypatch, settings, tmp_path
):
    monkeypatch.setattr(importers, "read_limited", read_here)
    settings.TRACE_HOME = tmp_path
    settings.API_RATE = settings.API_ADDRESS_RATE = 1_000_000
    user = user_with(*ROLES)
    client = APIClient(raise_request_exception=False)
    client.force_login(user)
    if address.startswith("/api"):
        client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user)}")
    for row in TOOLS:
        make_tool(row["name"])
    for number in range(60 if part else 2):
        kind = kinds[number % len(kinds)]
        dice = random.Random(f"{address} {send.__name__} {part} {number}")
        data = mutated(dice, SEEDS[kind][1])
        answer = send(client, address, data, SEEDS[kind][0])
        assert answer.status_code < 500 and answer.status_code not in (401, 403, 404, 405, 429), data[:3000]


@pytest.mark.parametrize("kind", SEEDS)
def test_what_is_mutated_is_honest(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in TOOLS:
        make_tool(row["name"])
    name, text = SEEDS[kind]
    (tmp_path / name).write_text(text)
    try_read(random.Random(1), kind, text.encode(), tmp_path / name, monkeypatch)
