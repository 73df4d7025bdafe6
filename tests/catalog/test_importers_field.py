"""Files from the field: richer than their reader expected, and with names that look like markup."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from catalog.core.importers.read import read_catalog
from catalog.core.importers.rows import CatalogFile, plain_text
from trace_site.lib.errors import TraceError

OPENAPI = "openapi: 3.1.0\ninfo: {title: Desk}\n"
REF_CHAIN = (
    OPENAPI
    + """
paths:
  /rooms: {get: {operationId: listRooms, summary: Lists the rooms.}}
  /bookings/{id}: {$ref: '#/components/pathItems/Booking'}
  /v0/bookings/{id}: {$ref: '#/components/pathItems/OldBooking'}
  /seats/{id}: {get: {$ref: '#/components/x-operations/seat'}}
components:
  pathItems:
    Booking:
      get: {operationId: getBooking, summary: Reads a booking.}
      patch: {operationId: changeBooking, summary: Changes a booking.}
      delete: {operationId: cancelBooking, summary: Cancels a booking.}
    OldBooking: {$ref: '#/components/pathItems/LegacyBooking'}
    LegacyBooking:
      get: {operationId: getBookingLegacy, summary: Reads a booking of the old system., deprecated: true}
      delete: {operationId: cancelBookingLegacy, summary: Cancels a booking of the old system.}
  x-operations:
    seat: {$ref: '#/components/x-operations/seatOfRoom'}
    seatOfRoom: {operationId: getSeat, summary: Reads one seat of a room.}
"""
)


def read(folder: Path, text: str, name: str = "desk.yaml") -> CatalogFile:
    path = folder / name
    path.write_text(text)
    return read_catalog(path, shown=name, keep_going=True)


def texts(file: CatalogFile) -> dict[str, str]:
    return {record.name.partition("/")[2]: record.description for record in file.records}


def test_chains_of_references_are_followed_to_their_end(tmp_path: Path) -> None:
    file = read(tmp_path, REF_CHAIN)
    assert (file.errors, file.notes) == ([], [])
    assert texts(file)["getSeat"] == "Reads one seat of a room."
    assert [*texts(file)][4:] == ["getBookingLegacy", "cancelBookingLegacy", "getSeat"]
    assert [record.name for record in file.records if record.deprecated] == ["Desk/getBookingLegacy"]


@pytest.mark.parametrize(
    ("ref", "key"),
    [
        ("#/paths/~1staff~1%7BstaffId%7D~1absences", "'x-other'"),
        ("#/components/x-items/own%20absences", "own absences"),
        ("#/components/x-items/l%C3%B6hne", "löhne"),
        ("#/components/x-items/a%24b", "a$b"),
        ("#/components/x-items/a%7E1b", "'a/b'"),
        ("#/components/x-items/100%25", "'100%'"),
        ("#/components/x-items/as%20is", "as%20is"),
        ("#/components/x-items/list/0", "'list'"),
        ("#/components/x-items/through/get/%2E%2E", "through"),
    ],
)
def test_a_reference_is_a_uri(ref: str, key: str, tmp_path: Path) -> None:
    item = "{get: {operationId: found, summary: Found.}}"
    held = f"[{item}]" if key == "'list'" else item
    held = "{$ref: '#/components/x-items/beyond'}" if key == "through" else held
    text = f"""{OPENAPI}
paths:
  /staff/{{staffId}}/absences: {item.replace("found", "own")}
  /other: {{$ref: '{ref}'}}
components:
  x-items:
    {key}: {held}
    beyond: {{get: {{'..': {item}}}}}
"""
    file = read(tmp_path, text)
    assert (len(file.records), file.errors) == (2, [])


@pytest.mark.parametrize(
    ("path", "components", "problem"),
    [
        (
            "{$ref: '#/components/a'}",
            "{a: {$ref: '#/components/b'}, b: {$ref: '#/components/a'}}",
            "#/components/",
        ),
        ("{$ref: '#/components/a'}", "{a: {$ref: 'other.yaml#/b'}}", "'other.yaml#/b' cannot be followed"),
        ("{get: {$ref: '#/components/a'}}", "{a: {$ref: '#/components/none'}}", "'#/components/none' cannot"),
        ("{get: {$ref: '#/components/a/b'}}", "{a: {$ref: '#/components/a'}}", "cannot be followed"),
        ("{$ref: '#/components/a'}", "{a: [1]}", "must hold an object, not a list"),
    ],
)
def test_a_chain_that_ends_nowhere_says_so(path: str, components: str, problem: str, tmp_path: Path) -> None:
    text = f"{OPENAPI}paths: {{/ok: {{get: {{summary: Fine.}}}}, /a: {path}}}\ncomponents: {components}\n"
    file = read(tmp_path, text)
    assert len(file.records) == 1
    [error] = file.errors
    assert problem in error.message


def test_paths_and_words_beside_a_reference_count(tmp_path: Path) -> None:
    text = f"""{OPENAPI.replace("{title: Desk}", "{$ref: '#/x-info'}")}
x-info: {{title: Shared Desk}}
paths: {{$ref: '#/x-paths'}}
x-paths:
  /a:
    get: {{$ref: '#/x-operation', summary: Said here.}}
x-operation: {{operationId: {{$ref: '#/x-id'}}, summary: Said there.}}
x-id: getA
"""
    assert [(r.name, r.description) for r in read(tmp_path, text).records] == [
        ("SharedDesk/getA", "Said here.")
    ]


def test_texts_are_followed_and_those_of_other_files_are_told(tmp_path: Path) -> None:
    text = f"""{OPENAPI}
paths:
  /claims:
    post: {{operationId: submitClaim, description: {{$ref: ./docs/submit-claim.md}}}}
    get: {{operationId: listClaims, summary: {{$ref: '#/components/x-texts/list'}}, description: Lists claims.}}
    put: {{operationId: putClaim, summary: [Puts, a claim]}}
    summary: {{$ref: ./docs/all.md}}
    patch: {{operationId: patchClaim, summary: Patches., description: {{en: Patches a claim.}}}}
components:
  x-texts: {{list: {{$ref: '#/components/x-texts/of'}}, of: Lists the expense claims of a cost centre}}
"""
    file = read(tmp_path, text)
    assert texts(file)["listClaims"] == "Lists the expense claims of a cost centre. Lists claims."
    notes = {note.where.rpartition("claims/")[2]: note.message for note in file.notes}
    assert "./docs/submit-claim.md" in notes["post/description"]
    assert "./docs/all.md" in notes["summary"]
    assert notes["put/summary"] == "left out: a list is no text."
    assert notes["patch/description"] == "left out: an object is no text."


@pytest.mark.parametrize(
    "kept",
    [
        "Reads /employees/<employee_id>/contracts/<contract_id> as of a day.",
        "Returns List<Payslip>; with ?group=month a Map<Month, Payslip>.",
        "Bonus for staff with grade<B2 and tenure>5 years.",
        "Returns an Optional<Object> or Set<T>, Page<Address>, Map<String,Link>.",
        "All with a<b and c>d, x<p and y>z, tenure <5 and level >3.",
        "Ask <ann@example.org> or <https://example.org>.",
        "At /x/<address>/<title>/<time>/<code>/<source>/<input>.",
        "Filter by posted__gte and posted__lte; __typename is __id__.",
        "COUNT(*) or SUM(*); 2**3 and 4**5; /files/**/a/** and *.csv, *.json, */*.",
        "See ?a=1&param=2&copy=3&lt=4.",
        "Call items[0](x) and map[key](y).",
        "Both _id and employee_id_ count.",
        "At /users/<user-id>/x with <your_api_key>, type Foo<T extends Bar>, vec<i> and <null>.",
        "Answers <employee><id>5</id></employee>.",
    ],
)
def test_identifiers_are_no_markup(kept: str) -> None:
    assert plain_text(kept) == kept


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            "Returns a <b>list</b> of <i>open</i> posts.<br/>One page each.",
            "Returns a list of open posts. One page each.",
        ),
        (
            "Use `<tenant>.example.com` as the host, e.g. `curl <url>`.",
            "Use <tenant>.example.com as the host, e.g. curl <url>.",
        ),
        ("**Use `a_b` <BR> now** and `<b>` with `__x__`, `*`.", "Use a_b now and <b> with __x__, *."),
        ("<p>One<p class='a'>Two<ul hidden><li>a</ul><img src=x>", "One Two a"),
        ("For those of\n>5 years and\n>= 3 posts\n> quoted", "For those of >5 years and >= 3 posts quoted"),
        ('```json\n# {"a": "<b>"}\n```\nUse ```GET /x``` to read.', '# {"a": "<b>"} Use GET /x to read.'),
        ("A &lt;b&gt; &amp;&nbsp;c &#233; __Note:__ _so_", "A <b> & c é Note: so"),
    ],
)
def test_markup_is_taken_off_around_code(text: str, plain: str) -> None:
    assert plain_text(text) == plain


OVERLOADS = """<edmx:Edmx Version="4.01" xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx"><edmx:DataServices>
<Schema Namespace="Acme.Staff" Alias="S" xmlns="http://docs.oasis-open.org/odata/ns/edm">
 <EntityType Name="Employee"><Key><PropertyRef Name="Id"/></Key></EntityType>
 <Function Name="Headcount"><Parameter Name="Unit" Type="Edm.String"/></Function>
 <Function Name="Headcount"/>
 <Function Name="Headcount"><Parameter Name="Unit" Type="Edm.String"/><Parameter Name="AsOf" Type="Edm.Date"/></Function>
 <Function Name="Find"><Parameter Name="Of" Type="Edm.String"/></Function>
 <Function Name="Find"><Parameter Name="Of" Type="S.Employee"/></Function>
 <Action Name="Move" IsBound="true"><Parameter Name="it" Type="S.Employee"/><Parameter Name="To" Type="Edm.String"/></Action>
 <Action Name="Move" IsBound="true"><Parameter Name="it" Type="Collection(S.Employee)"/><Parameter Name="To" Type="Edm.String"/></Action>
 <Action Name="Close"><Annotation Term="C.Description" String="General text."/><Parameter Name="Year" Type="Edm.Int32"/></Action>
 <EntityContainer Name="Service">
  <FunctionImport Name="Headcount" Function="S.Headcount"/>
  <FunctionImport Name="Find" Function="S.Find"><Annotation Term="C.Description" String="Finds someone."/></FunctionImport>
  <ActionImport Name="Close" Action="S.Close"><Annotation Term="C.Description" String="Closes this service."/></ActionImport>
 </EntityContainer>
 <Annotations Target="S.Move(S.Employee)"><Annotation Term="C.Description" String="Moves one."/>
  <Annotation Term="C.Description" Qualifier="de" String="Verschiebt."/></Annotations>
 <Annotations Target="Acme.Staff.Move( Collection(Acme.Staff.Employee) )"><Annotation Term="C.Description" String="Moves several."/></Annotations>
 <Annotations Target="S.Headcount(Edm.String,Edm.Date)"><Annotation Term="C.Description" String="Counts on a day."/></Annotations>
 <Annotations Target="S.Headcount()"><Annotation Term="C.Description" String="Counts all."/></Annotations>
 <Annotations Target="S.Find(S.Employee)"><Annotation Term="C.Description" String="By an entity."/></Annotations>
</Schema></edmx:DataServices></edmx:Edmx>"""  # noqa: E501


def test_every_overload_is_a_tool_with_its_own_words(tmp_path: Path) -> None:
    file = read(tmp_path, OVERLOADS, "hr.xml")
    assert file.errors == []
    assert texts(file) == {
        "Headcount": "Counts all.",
        "Headcount(Unit)": "Headcount (GET, with Unit).",
        "Headcount(Unit, AsOf)": "Counts on a day.",
        "Find": "Find (GET, with Of). Finds someone.",
        "Find(Of)": "By an entity. Finds someone.",
        "Close": "Closes this service.",
        "Employee.Move": "Moves one.",
        "EmployeeCollection.Move": "Moves several.",
    }


def test_a_description_that_was_made_here_says_so(tmp_path: Path) -> None:
    file = read(tmp_path, OVERLOADS, "hr.xml")
    made = "no description in the file; made from the name"
    assert [r.name for r in file.records if r.source == made] == ["AcmeStaff/Headcount(Unit)"]
    assert [note.message.partition(":")[0] for note in file.notes] == ["AcmeStaff/Headcount(Unit)"]
    for name, text in {
        "desk.yaml": f"{OPENAPI}paths: {{/a: {{get: {{operationId: a}}, put: {{summary: Puts.}}}}}}",
        "desk.tools.json": '[{"name": "a"}, {"name": "b", "description": "Puts."}]',
    }.items():
        file = read(tmp_path, text, name)
        assert [record.source for record in file.records] == [made, ""]
        assert [note.message.partition(":")[0] for note in file.notes] == ["Desk/a"]


FUNCTION = {"type": "function", "function": {"name": "get_slip", "description": "Reads a payslip."}}
SLIP = {"name": "get_slip", "description": "Reads a payslip.", "inputSchema": {"type": "object"}}
LISTED = {"name": "list_slips", "description": "Lists payslips.", "inputSchema": {"type": "object"}}
PAGES = [{"jsonrpc": "2.0", "id": 1, "result": {"tools": [SLIP], "nextCursor": "b64:Mg"}}]
PAGES += [{"jsonrpc": "2.0", "id": 2, "result": {"tools": [LISTED]}}]


@pytest.mark.parametrize(
    "document",
    [
        {"model": "gpt-4o", "messages": [], "tools": [FUNCTION]},
        [FUNCTION],
        {"tools": [{"type": "web_search"}, FUNCTION]},
        {"tools": [{"type": "function", **FUNCTION["function"]}]},  # type: ignore[dict-item]
        {"functions": [FUNCTION["function"]]},
        {"contents": [], "tools": [{"functionDeclarations": [FUNCTION["function"]]}]},
        {"toolConfig": {"tools": [{"toolSpec": FUNCTION["function"]}]}},
        [{"name": "get_slip", "description": "Reads a payslip.", "input_schema": {}}],
    ],
)
def test_tools_of_a_request_to_a_model_are_read(document: Any, tmp_path: Path) -> None:
    text = json.dumps(document)
    broken = read(
        tmp_path, text.replace("[", "[\n"), "assistant.json"
    )  # its second line may begin with a brace
    file = read(tmp_path, text, "assistant.json")
    assert file.errors == broken.errors == [] and len(broken.records) == 1
    assert [(r.name, r.description) for r in file.records] == [("Assistant/get_slip", "Reads a payslip.")]


@pytest.mark.parametrize("name", ["acme.pages.jsonl", "acme.ndjson", "acme.json", "acme.pages.json"])
def test_pages_of_an_mcp_server_are_read_as_one_list(name: str, tmp_path: Path) -> None:
    lines = "".join(json.dumps(page) + "\n" for page in PAGES)
    for text in (lines, json.dumps(PAGES)):
        if text is lines or not name.endswith(("jsonl", "ndjson")):
            file = read(tmp_path, text, name)
            assert (file.format, file.errors) == ("mcp", [])
            assert [record.name for record in file.records] == ["Acme/get_slip", "Acme/list_slips"]


def test_a_last_page_that_goes_on_is_an_error(tmp_path: Path) -> None:
    for text, where in {
        "\n".join(map(json.dumps, PAGES[::-1])): "acme.jsonl#/1/result/nextCursor",
        json.dumps(PAGES[:1]): "acme.json#/0/result/nextCursor",
    }.items():
        [error] = read(tmp_path, text, where.partition("#")[0]).errors
        assert (error.where, "more tools" in error.message) == (where, True)


def test_a_name_whose_token_would_be_too_long_is_listed(tmp_path: Path) -> None:
    row = {"name": "\\" * 100 + "/" + "\\" * 290, "description": "Pays."}
    [error] = read(tmp_path, json.dumps(row) + "\n", "tools.jsonl").errors
    assert "too many backslashes" in error.message


def test_long_chains_are_followed_and_circles_through_pointers_end(tmp_path: Path) -> None:
    chain = {f"a{number}": {"$ref": f"#/c/a{number + 1}"} for number in range(200)}
    circle = {f"b{number}": {"$ref": f"#/c/b{(number + 1) % 3}/get/x"} for number in range(3)}
    held = {**chain, **circle, "a200": {"get": {"summary": "Found."}}}
    paths = {"/a": {"$ref": "#/c/a0"}, "/b": {"$ref": "#/c/b0"}}
    document = {"openapi": "3.1.0", "info": {"title": "Desk"}, "paths": paths, "c": held}
    file = read(tmp_path, json.dumps(document), "desk.json")
    assert texts(file) == {"GETA": "Found."}
    assert [error.where for error in file.errors] == ["desk.json#/paths/~1b"]


def test_what_stands_beside_a_reference_to_a_path_wins_and_circles_make_nothing_up(tmp_path: Path) -> None:
    text = f"""{OPENAPI}
paths:
  /a: {{$ref: '#/components/pathItems/x', description: Said here., get: {{operationId: own, summary: Own.}}}}
  /b: {{$ref: '#/paths/~1b', get: {{operationId: b, summary: B.}}}}
components:
  pathItems:
    x: {{description: Said there., get: {{operationId: other}}, put: {{operationId: put}}}}
    unused: {{get: {{operationId: unused, summary: U.}}}}
"""
    file = read(tmp_path, text)
    assert texts(file) == {"own": "Own.", "put": "Said here.", "b": "B."}
    assert [error.where for error in file.errors] == ["desk.yaml#/paths/~1b"]
    assert [note.where.partition("#")[2] for note in file.notes] == [
        "/paths/~1a/get",
        "/components/pathItems/unused",
    ]


def test_what_is_no_operation_is_noted_and_references_of_permissions_are_followed(tmp_path: Path) -> None:
    text = f"""{OPENAPI.replace("title: Desk", "title: [Desk]")}
paths:
  /a:
    allOf: [{{}}]
    gett: {{summary: S.}}
    get: {{operationId: a, summary: A., security: {{$ref: '#/x-s'}}, description: []}}
    put: {{operationId: b, summary: B., tags: [{{$ref: '#/x-t'}}]}}
x-s: [{{$ref: '#/x-r'}}]
x-r: {{oauth: [read]}}
x-t: {{$ref: '#/x-t2'}}
x-t2: pay
"""
    file = read(tmp_path, text)
    assert [list(record.permissions) for record in file.records] == [["read"], ["pay"]]
    noted = {note.where.partition("#")[2] for note in file.notes}
    assert noted == {"/info/title", "/paths/~1a/allOf", "/paths/~1a/gett", "/paths/~1a/get/description"}


PARAMETER = {"name": "month", "in": "query", "description": "The month."}
IN_ODATA = """<Schema Namespace="Pay" xmlns="http://docs.oasis-open.org/odata/ns/edm"><Function Name="F">
<Parameter Name="Of" Type="Edm.String"><Annotation Term="C.Description" String="Of whom."/></Parameter></Function>
<EntityContainer Name="C"><FunctionImport Name="F" Function="Pay.F"/></EntityContainer></Schema>"""
IN_TOOLS = {"name": "f", "inputSchema": {"properties": {"month": PARAMETER}}, "description": "F."}


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        (
            "pay.yaml",
            f"""{OPENAPI}
paths:
  /a:
    parameters: [{{$ref: '#/x-p/a'}}]
    get: {{summary: A., parameters: {{$ref: '#/x-ps'}}, requestBody: {{$ref: 'bodies.yaml#/a'}}}}
x-p: {{a: {{$ref: '#/x-p/b'}}, b: {json.dumps(PARAMETER)}}}
x-ps: [{json.dumps(PARAMETER)}, {{name: plain, in: query}}]
""",
            3,
        ),
        ("pay.xml", IN_ODATA, 1),
        ("pay.tools.json", json.dumps([IN_TOOLS]), 1),
    ],
)
def test_texts_of_parameters_are_counted_in_a_note(name: str, text: str, count: int, tmp_path: Path) -> None:
    file = read(tmp_path, text, name)
    [note] = [note.message for note in file.notes if "parameters" in note.message]
    assert note.startswith(f"left out: {count} text{'s' * (count > 1)} of parameters, from ")


def test_fields_and_columns_that_no_tool_has_are_noted(tmp_path: Path) -> None:
    row = {"name": "Pay/A", "description": "Pays.", "domain": "hr"}
    in_lines = read(tmp_path, json.dumps({**row, "parameters": {}}), "tools.jsonl")
    sheet = read(tmp_path, "name|description|parameters|empty\nPay/A|Pays.|month|\n", "tools.csv")
    for file in (in_lines, sheet):
        assert [note.message for note in file.notes] == ["left out: 'parameters' is no field of a tool."]


def test_labels_and_quick_infos_are_texts_and_a_target_that_is_missing_is_noted(tmp_path: Path) -> None:
    label, quick = (f'<Annotation Term="C.{term}" String="{term}."/>' for term in ("Label", "QuickInfo"))
    lost = f'<Annotations Target="Pay.F(Edm.Guid)">{quick}</Annotations>'
    text = IN_ODATA.replace('"F" Function="Pay.F"/>', f'"F" Function="Pay.F">{quick}</FunctionImport>')
    text = text.replace("<EntityContainer", f'<Function Name="G">{label}</Function><EntityContainer')
    text = text.replace(
        "</EntityContainer>", f'<FunctionImport Name="G" Function="Pay.G"/></EntityContainer>{lost}'
    )
    file = read(tmp_path, text, "pay.xml")
    assert texts(file) == {"F": "QuickInfo.", "G": "Label."}
    assert "pay.xml#/Pay.F(Edm.Guid)" in {note.where for note in file.notes}


HELLO = {"jsonrpc": "2.0", "id": 0, "result": {"serverInfo": {"name": "Acme"}}}


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, [HELLO, PAGES[0], {"jsonrpc": "2.0", "method": "tools/list"}, PAGES[1]])),
        "\n".join(json.dumps(page, indent=1) for page in [HELLO, *PAGES]),
        ",\r".join(map(json.dumps, [HELLO, *PAGES, PAGES[1]])),
        json.dumps([HELLO, *PAGES]),
        json.dumps([HELLO, {"tools": {"functionDeclarations": [SLIP, LISTED]}}]),
        json.dumps(
            {"tools": [{"type": "namespace", "name": "pay", "tools": [SLIP, LISTED]}], "name": "Acme"}
        ),
        json.dumps({"tools": [SLIP], "functions": [LISTED, {"googleSearch": {}}], "name": "Acme"}),
        json.dumps({"name": "Acme", "tools": [SLIP, LISTED, {"type": "bash_20250124", "name": "bash"}]}),
        json.dumps({"name": "Acme", "actionGroups": [{"functionSchema": {"functions": [SLIP, LISTED]}}]}),
    ],
)
def test_sessions_of_a_server_and_lists_within_lists_hold_tools(text: str, tmp_path: Path) -> None:
    file = read(tmp_path, text, "session.json")
    assert (file.format, file.errors) == ("mcp", [])
    assert [record.name for record in file.records] == ["Acme/get_slip", "Acme/list_slips"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            json.dumps([PAGES[1], {"jsonrpc": "2.0", "id": 2, "error": {"message": "busy"}}]),
            "an error \\(busy\\)",
        ),
        (json.dumps({"tools": [SLIP]})[:-1] + ', "tools": []}', "'tools' is written twice"),
        (
            json.dumps([{"name": "A", "tools": [SLIP]}, {"name": "B", "tools": [SLIP]}]),
            "several servers \\(A, B\\)",
        ),
        ('data: {"jsonrpc": "2.0"}\n', "a stream of events"),
        ('{"mcpServers": {}}', "settings of an MCP client"),
        ('{\n"name": "Pay/A",\n"description": "Pays."}', "Write one tool a line"),
        ('{"name": "Pay/A"} {"name": "Pay/B"}', "Write one tool a line"),
    ],
)
def test_what_cannot_be_read_whole_says_why(text: str, problem: str, tmp_path: Path) -> None:
    try:
        found = " ".join(error.message for error in read(tmp_path, text, "acme.json").errors)
    except TraceError as error:
        found = str(error)
    assert re.search(problem, found), found
