"""OpenAPI and Swagger documents: every operation becomes a tool, or the row says why not."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.core.importers.openapi import api_version
from catalog.core.importers.read import read_whole
from catalog.core.importers.rows import (
    CatalogFile,
    describe,
    file_api_name,
    plain_text,
    says_deprecated,
    unique_names,
)
from trace_site.lib.errors import TraceError

SPEC: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Night Desk API", "version": "2"},
    "paths": {
        "/v2/rooms/{room_id}": {
            "get": {
                "operationId": "getRoom",
                "summary": "Get a <b>room</b>",
                "description": "Reads **one** room.",
            },
            "delete": {"summary": "Close a room", "deprecated": True, "tags": ["rooms"]},
        }
    },
}


def read_text(folder: Path, text: str | bytes, name: str = "spec.json") -> CatalogFile:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_whole(path, name, "document", None, None)


def read(folder: Path, spec: Any, name: str = "spec.json") -> CatalogFile:
    return read_text(folder, json.dumps(spec), name)


def with_paths(**paths: Any) -> dict[str, Any]:
    return {**deepcopy(SPEC), "paths": {f"/{path}": item for path, item in paths.items()}}


def endpoints(file: CatalogFile) -> list[str]:
    return [record.name.partition("/")[2] for record in file.records]


def test_operations_become_tools(tmp_path: Path) -> None:
    file = read(tmp_path, SPEC)
    assert (file.format, file.errors) == ("openapi", [])
    assert [record.name for record in file.records] == [
        "NightDeskV2/getRoom",
        "NightDeskV2/DELETEV2RoomsRoomId",
    ]
    assert file.records[0].description == "Get a room. Reads one room."
    assert (file.records[1].deprecated, file.records[1].permissions) == (True, ("rooms",))
    assert file.records[1].where == "spec.json#/paths/~1v2~1rooms~1{room_id}/delete"


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump(SPEC),
        "---\n" + yaml.safe_dump(SPEC).replace("\n", "\r\n") + "...\r\n",
        "%YAML 1.2\n---\n" + yaml.safe_dump(SPEC, default_flow_style=True),
        yaml.safe_dump(SPEC, default_flow_style=True),
        json.dumps(SPEC, indent=1).encode("utf-8-sig"),
        json.dumps(SPEC).encode("utf-16"),
        json.dumps(SPEC).encode("utf-16-be"),
        json.dumps(SPEC).encode("utf-32"),
    ],
)
def test_every_way_to_write_a_document_gives_the_same_tools(text: str | bytes, tmp_path: Path) -> None:
    found = read_text(tmp_path, text, "spec.yaml")
    expected = read(tmp_path, SPEC)
    assert sorted(r.content_hash("d") for r in found.records) == sorted(
        r.content_hash("d") for r in expected.records
    )


def test_swagger_2_gives_the_tools_of_the_same_openapi_document(tmp_path: Path) -> None:
    spec = deepcopy(SPEC)
    spec["swagger"] = "2.0"
    del spec["openapi"]
    file = read(tmp_path, spec)
    assert (file.format, endpoints(file)) == ("swagger", ["getRoom", "DELETEV2RoomsRoomId"])


@pytest.mark.parametrize("version", ["3.0.0", "3.1.1", "3.2.0", "3.0"])
def test_versions_whose_operations_look_alike_are_read(version: str, tmp_path: Path) -> None:
    assert len(read(tmp_path, {**SPEC, "openapi": version}).records) == 2


def test_version_3_2_brings_query_and_methods_of_its_own(tmp_path: Path) -> None:
    item = {"query": {"summary": "Find"}, "additionalOperations": {"COPY": {"summary": "Copy"}}}
    file = read(tmp_path, {**with_paths(rooms=item), "openapi": "3.2.0"})
    assert endpoints(file) == ["QUERYRooms", "COPYRooms"]
    assert file.records[1].where == "spec.json#/paths/~1rooms/additionalOperations~1COPY"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"openapi": "4.0.0"}, "#/openapi: version 4.0.0 is not read here. Convert"),
        ({"openapi": None}, "#/openapi: version None is not read here"),
        ({"paths": {}}, "#/paths: the document has no paths"),
        ({"paths": None}, "#/paths: the document has no paths"),
        ({"paths": {}, "webhooks": {"paid": {}}}, "#/paths: the document describes webhooks only"),
        ({"paths": [SPEC]}, "#/paths: the document has no paths"),
        ({"paths": {"$ref": "./paths.yaml"}}, "#/paths: the paths are in another file .*Bundle"),
        ({"info": {"title": "  "}, "x": 1}, "#/info/title: the title is missing. Write one"),
    ],
)
def test_unusable_document_is_refused_in_one_sentence(change: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        read(tmp_path, {**SPEC, **change}, "v1.spec.json")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"openapi": "3.0.0",\n"paths": {"/a": {"get": {"summary": "x",}}}}', "spec.json:2"),
        ('{"openapi": "3.0.0", // ours\n}', "spec.json:1"),
        ('{"openapi": "3.0.0",\n "paths": {', "spec.json:2"),
        ("openapi: 3.0.0\npaths:\n\t/a: {}\n", "spec.json:3"),
        ("openapi: 3.0.0\npaths: {a: [\n", "spec.json:3"),
        ("openapi: 3.0.0\n---\nopenapi: 3.0.0\n", "spec.json:2"),
        ("openapi: 3.0.0\n{{path}}: {}\n", "spec.json:2"),
        ("openapi: 3.0.0\nx: *nothing\n", "spec.json:2"),
        ("openapi: 3.0.0\nx: &a [*a]\n", "spec.json:2"),
        ('{"openapi": "3.0.0",\n"info": {"title": "\xdcber"}}'.encode("latin-1"), "spec.json:2"),
    ],
)
def test_broken_text_is_refused_with_its_line(text: str | bytes, where: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        read_text(tmp_path, text)
    assert caught.value.where.startswith(where) and caught.value.hint


def test_yaml_keeps_words_that_older_yaml_took_for_values(tmp_path: Path) -> None:
    text = """
openapi: 3.0.0
info: {title: Desk, version: 1.10}
x-dates: {a: 2024-02-31, b: !!timestamp nonsense, c: !!python/object/apply:os.system [x]}
paths:
  /on:
    get: {operationId: on, summary: yes}
    put: {operationId: 0123, summary: 012}
    post: {operationId: ~, summary: null, description: Turns on., deprecated: true}
"""
    file = read_text(tmp_path, text, "a.yaml")
    assert [(r.name, r.description, r.version) for r in file.records] == [
        ("Desk/on", "yes", "1.10"),
        ("Desk/0123", "012", "1.10"),
        ("Desk/POSTOn", "Turns on.", "1.10"),
    ]


def test_yaml_anchors_and_merges_are_followed(tmp_path: Path) -> None:
    text = """
x-base: &base {summary: Base, tags: [a], operationId: base}
openapi: 3.0.0
info: {title: Desk}
paths:
  /one: {get: *base}
  /two: {get: {<<: *base, operationId: two}}
  /three: {get: {operationId: three, <<: [{summary: First}, *base]}}
"""
    file = read_text(tmp_path, text, "a.yaml")
    assert [(r.name, r.description, r.permissions) for r in file.records] == [
        ("Desk/base", "Base", ("a",)),
        ("Desk/two", "Base", ("a",)),
        ("Desk/three", "First", ("a",)),
    ]


def test_json_numbers_are_kept_as_written(tmp_path: Path) -> None:
    text = '{"openapi": "3.0.0", "info": {"title": "T", "version": 1.10}, "paths": {"/a": {"get": {"operationId": 7}}}}'
    [record] = read_text(tmp_path, text).records
    assert (record.name, record.version) == ("T/7", "1.10")


def test_second_operation_of_a_name_is_named_by_method_and_path(tmp_path: Path) -> None:
    one = {"operationId": "list", "summary": "x"}
    file = read(
        tmp_path, with_paths(a={"get": one, "put": one}, b={"get": {"operationId": "PUTA", "summary": "x"}})
    )
    assert (endpoints(file), file.errors) == (["list", "PUT /a", "PUTA"], [])


def test_paths_that_differ_in_punctuation_only_keep_their_own_tools(tmp_path: Path) -> None:
    file = read(tmp_path, with_paths(**{"users/{id}": {"get": {}}, "users/id": {"get": {}}, "": {"get": {}}}))
    assert endpoints(file) == ["GETUsersId", "GET /users/id", "GET"]


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=8))
def test_a_name_is_shared_only_when_no_candidate_is_left(candidates: list[list[str]]) -> None:
    names = unique_names(candidates)
    for name in names:
        sharing = [own for other, own in zip(names, candidates, strict=True) if other == name]
        assert all(name in own for own in sharing)
        assert sum(not set(own) <= set(names) for own in sharing) <= 1


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"operationId": "getRoom"}, "Get room (GET /rooms/{id})."),
        ({}, "Get rooms by id (GET /rooms/{id})."),
        ({"summary": True, "description": ["x"]}, "Get rooms by id (GET /rooms/{id})."),
        ({"summary": " <br/> "}, "Get rooms by id (GET /rooms/{id})."),
    ],
)
def test_operation_without_words_is_described_by_method_and_path(
    operation: Any, expected: str, tmp_path: Path
) -> None:
    [record] = read(tmp_path, with_paths(**{"rooms/{id}": {"get": operation}})).records
    assert record.description == expected


def test_words_of_the_path_serve_operations_that_have_none(tmp_path: Path) -> None:
    [record] = read(tmp_path, with_paths(a={"summary": "Rooms", "get": {}})).records
    assert record.description == "Rooms"


@pytest.mark.parametrize(
    ("item", "pointer", "message"),
    [
        ([], "", "a path must hold an object, not a list"),
        ("text", "", "a path must hold an object, not a text"),
        (
            {"$ref": "https://example.com/a.json"},
            "",
            "reference 'https://example.com/a.json' cannot be followed",
        ),
        ({"$ref": "other.yaml#/x"}, "", "cannot be followed; bundle the document"),
        ({"$ref": "#/nowhere"}, "", "reference '#/nowhere' cannot be followed"),
        ({"$ref": 5}, "", "cannot be followed"),
        ({"get": []}, "/get", "an operation must be an object, not a list"),
        ({"get": None}, "/get", "an operation must be an object, not nothing"),
        ({"get": {"$ref": "http://x.example"}}, "/get", "cannot be followed"),
        ({"get": {"operationId": "a\u0007b"}}, "/get", "cannot be printed"),
        ({"get": {"operationId": "x" * 500}}, "/get", "the limit is 400"),
        ({"get": {"summary": "\ud800"}}, "/get", "cannot be stored"),
        ({"get": {"tags": ["x" * 500]}}, "/get", "'permissions' has 500 characters"),
    ],
)
def test_bad_operation_is_listed_with_its_pointer_and_the_good_ones_stay(
    item: Any, pointer: str, message: str, tmp_path: Path
) -> None:
    file = read(tmp_path, with_paths(good={"get": {"operationId": "good"}}, bad=item))
    [error] = file.errors
    assert error.where == f"spec.json#/paths/~1bad{pointer}" and message in error.message
    assert endpoints(file) == ["good"]


@pytest.mark.parametrize(
    "item",
    [
        {"GET": {"operationId": "x"}},
        {"get": {"operationId": " x\n "}},
        {"get": {"operationId": "x", "tags": "rooms", "security": "none", "deprecated": "no"}},
        {"get": {"operationId": "x", "security": [5, {"a": 5}, {"b": [5, None]}], "tags": [{"name": "a"}]}},
        {"get": {"operationId": "x"}, "parameters": [], "servers": 5, "x-note": {"responses": {}}, "foo": {}},
        {"search": {"operationId": "x", "responses": {}}},
        {"x-amazon-apigateway-any-method": {"operationId": "x", "responses": {}}},
        {"get": {"$ref": "#/x-shared"}},
    ],
)
def test_odd_but_readable_operation_is_a_tool(item: Any, tmp_path: Path) -> None:
    file = read(tmp_path, {**with_paths(a=item), "x-shared": {"operationId": "x"}})
    assert (endpoints(file), file.errors) == (["x"], [])


def test_extensions_and_empty_paths_are_no_operations(tmp_path: Path) -> None:
    spec = with_paths(a={"get": {"operationId": "x"}}, b={}, c=None)
    spec["paths"]["x-notes"] = {"get": {}}
    file = read(tmp_path, spec)
    assert (endpoints(file), file.errors) == (["x"], [])


def test_paths_of_a_vendor_extension_are_read(tmp_path: Path) -> None:
    spec = with_paths(a={"get": {"operationId": "x"}})
    spec["x-ms-paths"] = {"/a?kind=b": {"get": {"operationId": "y"}}}
    assert endpoints(read(tmp_path, spec)) == ["x", "y"]


def test_local_references_are_followed_and_own_operations_stay(tmp_path: Path) -> None:
    spec = with_paths(a={"$ref": "#/components/pathItems/A~1b", "put": {"operationId": "own"}})
    spec["components"] = {"pathItems": {"A/b": {"get": {"operationId": "shared"}}}}
    assert endpoints(read(tmp_path, spec)) == ["own", "shared"]


@pytest.mark.parametrize(
    ("text", "pointer", "line"),
    [
        ('"/a": {"get": {"operationId": "x"}},\n"/a": {"get": {"operationId": "y"}}', "~1a/get", 4),
        ('"/a": {"get": {"operationId": "x"},\n"get": {"operationId": "y"}}', "~1a/get", 4),
        (
            '"/a": {"get": {"operationId": "x",\n"summary": "a", "summary": "b"}},\n"/b": {"get": {}}',
            "~1a/get",
            4,
        ),
    ],
)
@pytest.mark.parametrize("name", ["spec.json", "spec.yaml"])
def test_a_key_written_twice_loses_no_operation_in_silence(
    text: str, pointer: str, line: int, name: str, tmp_path: Path
) -> None:
    whole = f'"openapi": "3.0.0",\n"info": {{"title": "T"}}, "paths": {{\n{text}\n}}'
    whole = f"{{{whole}}}" if name == "spec.json" else f"# yaml\n--- {{{whole}}}\n".replace("# yaml\n", "")
    file = read_text(tmp_path, whole, name)
    [error] = file.errors
    assert error.where == f"{name}#/paths/{pointer}"
    assert f"written twice (line {line})" in error.message
    assert len(file.records) == 1


def test_paths_written_twice_refuse_the_document(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="'paths' is written twice .line 3."):
        read_text(tmp_path, "openapi: 3.0.0\npaths: {/a: {get: {}}}\npaths: {/b: {get: {}}}\n", "a.yaml")


def test_keys_written_twice_elsewhere_harm_nobody(tmp_path: Path) -> None:
    text = json.dumps(SPEC).replace('"info"', '"x": {"a": 1, "a": 2}, "info"')
    assert len(read_text(tmp_path, text).records) == 2


def test_webhooks_and_callbacks_are_noted_as_no_tools(tmp_path: Path) -> None:
    spec = with_paths(a={"get": {"operationId": "x", "callbacks": {"done": {}}}})
    spec["webhooks"] = {"paid": {"post": {}}, "sent": {"post": {}}}
    file = read(tmp_path, spec)
    assert (endpoints(file), file.errors) == (["x"], [])
    assert [note.where for note in file.notes] == [
        "spec.json#/webhooks",
        "spec.json#/paths/~1a/get/callbacks",
        "spec.json#/paths/~1a/get",  # has no description
    ]
    assert "2 webhooks" in file.notes[0].message


def test_scopes_win_over_tags_and_global_security_counts(tmp_path: Path) -> None:
    spec = {**deepcopy(SPEC), "security": [{"oauth": ["rooms.read", "rooms.write"]}, {"key": []}]}
    assert read(tmp_path, spec).records[1].permissions == ("rooms.read", "rooms.write")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("This endpoint is **deprecated** and no longer supported.", True),
        ("Deprecated. Use the other one.", True),
        ("Get a report (deprecated)", True),
        ("Deprecation notice: use v2.", True),
        ("Lists endpoints, also those that are deprecated.", False),
        ("Returns whether this field is deprecated", False),
        (None, False),
    ],
)
def test_a_vendor_may_say_deprecated_in_words(text: Any, expected: bool) -> None:
    assert says_deprecated("Get a report", text) is expected


@pytest.mark.parametrize(
    ("flag", "expected"), [(False, False), (None, True), ("true", True), ("False", False)]
)
def test_the_flag_of_a_vendor_wins_over_words(flag: Any, expected: bool, tmp_path: Path) -> None:
    spec = with_paths(a={"get": {"summary": "Deprecated.", "deprecated": flag}})
    assert read(tmp_path, spec).records[0].deprecated is expected


@pytest.mark.parametrize(
    ("title", "name", "api"),
    [
        ("Night Desk REST API", "x.json", "NightDesk"),
        ("", "xero-payroll-au.openapi3.0.yaml", "XeroPayrollAu"),
        (None, "C:\\specs\\Night Desk.json", "NightDesk"),
        ("x" * 400, "desk.json", "Desk"),
        ("支付 API", "x.json", "支付"),
        (["no"], "desk/openapi.json", "Desk"),
        ("***", "desk (2).swagger.json", "Desk2"),
    ],
)
def test_api_is_named_by_the_title_or_the_file(title: Any, name: str, api: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(
        json.dumps({**SPEC, "info": {"title": title, "version": "1.2.3"}, "paths": {"/a": {"get": {}}}})
    )
    assert read_whole(path, name, "document", None, None).records[0].api == api


@pytest.mark.parametrize(
    ("version", "paths", "servers", "expected"),
    [
        ("68", ["/a"], [], "68"),
        ("v4", ["/a"], [], "4"),
        ("16.1.0", ["/a"], [], ""),
        ("1.13", ["/v1/a", "/v1/b"], [], "1"),
        ("1.13", ["/v1/a", "/v2/b"], [], ""),
        ("1.0", ["/a"], ["https://x.example/ats/v1"], "1"),
        ("1.0", ["/a"], ["https://v3.example"], ""),
        ("1.0", ["/a"], [None], ""),
        (None, ["/v2/a", "x-note"], [], "2"),
    ],
)
def test_only_a_stable_version_enters_the_api_name(
    version: Any, paths: list[str], servers: list[Any], expected: str
) -> None:
    document = {
        "info": {"version": version},
        "paths": dict.fromkeys(paths),
        "servers": [{"url": url} for url in servers],
    }
    assert api_version(document) == expected


def test_swagger_base_path_may_hold_the_version() -> None:
    assert api_version({"swagger": "2.0", "paths": {"/a": {}}, "basePath": "/api/v3"}) == "3"


def test_descriptions_are_plain_text() -> None:
    text = "## Title\n* See [the docs](https://x.example) for `id`.<br/>A &amp; **B** and a_b_c > 3"
    assert plain_text(text) == "Title See the docs for id. A & B and a_b_c > 3"
    assert plain_text("Do:\n>- see <a href='x'>this</a>.\n> - that<p>end</p>") == "Do: see this. that end"
    assert describe("List rooms", "List rooms of a site.") == "List rooms of a site."


@settings(max_examples=30)
@given(
    st.sampled_from(["[", "__a ", "<script>", "<!--", "**a", "[a](", "> ", "- ", "\n", "&amp;", "*a "]),
    st.text(),
)
def test_no_description_takes_long_to_clean(piece: str, end: str) -> None:
    assert len(plain_text(piece * 2000 + end)) <= 40_000


@pytest.mark.parametrize("name", ["-" * 200 + "!", "1" * 200 + "!", "tools" * 40 + "!"])
def test_no_file_name_takes_long_to_read(name: str) -> None:
    assert isinstance(file_api_name(name), str)


JUNK = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.just({"$ref": "#/paths"}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["get", "put", "$ref", "operationId", "summary", "tags", "security", "x-a", "/a", "title"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JUNK, JUNK, JUNK)
def test_no_document_crashes_the_reader(info: Any, paths: Any, operation: Any) -> None:
    from catalog.core.importers.openapi import read as rows
    from catalog.core.importers.rows import collect

    document = {"openapi": "3.0.0", "info": info, "paths": paths, "webhooks": operation, "security": info}
    if isinstance(paths, dict):
        paths["/sure"] = {"post": operation, "parameters": paths.get("/a")}
    try:
        file = collect("openapi", rows(document, "desk.json"), None)
    except TraceError:
        return
    places = [record.where for record in file.records] + [error.where for error in file.errors]
    assert "desk.json#/paths/~1sure/post" in places
