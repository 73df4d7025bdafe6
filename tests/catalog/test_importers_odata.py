"""OData metadata: entity sets, singletons, imports and bound operations become tools, as far as they are allowed."""

from pathlib import Path

import pytest

from catalog.core.importers.read import read_whole
from catalog.core.importers.rows import CatalogFile
from trace_site.lib.errors import TraceError

V2 = """<?xml version="1.0" encoding="utf-8"?>
<edmx:Edmx Version="1.0" xmlns:edmx="http://schemas.microsoft.com/ado/2007/06/edmx"
  xmlns:sap="http://www.sap.com/Protocols/SAPData"
  xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata">
 <edmx:DataServices m:DataServiceVersion="2.0">
  <Schema Namespace="HOTEL_SRV" sap:schema-version="3" xmlns="http://schemas.microsoft.com/ado/2008/09/edm">
   <EntityType Name="Base"><Key><PropertyRef Name="Id"/><PropertyRef Name="Language"/></Key></EntityType>
   <EntityType Name="Room" BaseType="HOTEL_SRV.Base" sap:label="Hotel Room"><Property Name="Id"/></EntityType>
   <EntityContainer Name="Entities" m:IsDefaultEntityContainer="true">
    {sets}
   </EntityContainer>
  </Schema>
 </edmx:DataServices>
</edmx:Edmx>"""
V4 = """<edmx:Edmx Version="4.0" xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx">
 <edmx:DataServices>
  <Schema Namespace="{namespace}" Alias="Self" xmlns="http://docs.oasis-open.org/odata/ns/edm">
   <EntityType Name="Room"><Key><PropertyRef Name="Id"/></Key></EntityType>
   {schema}
   <EntityContainer Name="Container">{container}</EntityContainer>
  </Schema>
 </edmx:DataServices>
</edmx:Edmx>"""


def read(folder: Path, text: str | bytes, name: str = "metadata.edmx") -> CatalogFile:
    path = folder / "file"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_whole(path, name, "odata", None, None)


def v2(folder: Path, sets: str) -> CatalogFile:
    return read(folder, V2.replace("{sets}", sets))


def v4(folder: Path, container: str, schema: str = "", namespace: str = "Hotel") -> CatalogFile:
    text = V4.replace("{container}", container).replace("{schema}", schema)
    return read(folder, text.replace("{namespace}", namespace))


def endpoints(file: CatalogFile) -> list[str]:
    return [record.name.partition("/")[2] for record in file.records]


def test_entity_set_gives_one_tool_for_each_thing_to_do(tmp_path: Path) -> None:
    file = v2(tmp_path, '<EntitySet Name="Rooms" EntityType="HOTEL_SRV.Room"/>')
    assert [(r.name, r.description) for r in file.records] == [
        ("HotelSrv/GetRooms", "Query the entity set Rooms (Hotel Room)."),
        ("HotelSrv/GetRoomsByKey", "Read one entity of Rooms (Hotel Room) by its key (Id, Language)."),
        ("HotelSrv/CreateRooms", "Create an entity in Rooms (Hotel Room)."),
        ("HotelSrv/UpdateRooms", "Update an entity of Rooms (Hotel Room) by its key (Id, Language)."),
        ("HotelSrv/DeleteRooms", "Delete an entity of Rooms (Hotel Room) by its key (Id, Language)."),
    ]
    assert {record.where for record in file.records} == {"metadata.edmx#/HOTEL_SRV.Entities/Rooms"}
    assert {record.version for record in file.records} == {"3"}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('sap:creatable="false"', ["Get", "ByKey", "Update", "Delete"]),
        ('sap:updatable="false" sap:deletable="false"', ["Get", "ByKey", "Create"]),
        ('sap:creatable="false" sap:updatable="false" sap:deletable="false"', ["Get", "ByKey"]),
        ('sap:updatable-path="Changeable"', ["Get", "ByKey", "Create", "Update", "Delete"]),
        ('sap:upsertable="true"', ["Get", "ByKey", "Create", "Update", "Upsert", "Delete"]),
        ('sap:addressable="false"', ["Create", "Update", "Delete"]),
    ],
)
def test_sap_attributes_say_what_is_allowed(attributes: str, expected: list[str], tmp_path: Path) -> None:
    file = v2(tmp_path, f'<EntitySet Name="R" EntityType="HOTEL_SRV.Room" {attributes}/>')
    names = ["ByKey" if name.endswith("ByKey") else name.removesuffix("R") for name in endpoints(file)]
    [note] = file.notes
    assert names == expected
    assert note.message.startswith(f"{len(names)} tools such as")  # whose descriptions are ours


def test_entity_set_that_allows_nothing_is_noted(tmp_path: Path) -> None:
    forbidden = " ".join(
        f'sap:{what}="false"' for what in ("addressable", "creatable", "updatable", "deletable")
    )
    file = v2(tmp_path, f'<EntitySet Name="R" EntityType="HOTEL_SRV.Room" {forbidden}/>')
    assert (file.records, file.errors) == ([], [])
    assert [note.where for note in file.notes] == ["metadata.edmx#/HOTEL_SRV.Entities/R"]


def test_function_import_keeps_its_name_and_words(tmp_path: Path) -> None:
    file = v2(
        tmp_path,
        """<EntitySet Name="Room" EntityType="HOTEL_SRV.Room" sap:creatable="false"/>
        <FunctionImport Name="GetRoom" m:HttpMethod="POST">
          <Parameter Name="Id"/><Parameter Name="Day"/></FunctionImport>
        <FunctionImport Name="close" m:HttpMethod="POST"><Documentation><Summary>Close a room</Summary>
          <LongDescription>Nobody can book it.</LongDescription></Documentation></FunctionImport>""",
    )
    assert [(r.name, r.description) for r in file.records[:3]] == [
        ("HotelSrv/GetRoom", "Get room (POST, with Id, Day)."),
        ("HotelSrv/close", "Close a room. Nobody can book it."),
        ("HotelSrv/Room.Get", "Query the entity set Room (Hotel Room)."),
    ]
    assert file.errors == []


def restriction(term: str, flag: str, value: str = 'Bool="false"') -> str:
    record = f'<Record><PropertyValue Property="{flag}" {value}/></Record>'
    return f'<Annotation Term="Org.OData.Capabilities.V1.{term}">{record}</Annotation>'


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (restriction("InsertRestrictions", "Insertable"), ["Get", "ByKey", "Update", "Delete"]),
        (restriction("DeleteRestrictions", "Deletable"), ["Get", "ByKey", "Create", "Update"]),
        (
            restriction("UpdateRestrictions", "Updatable", 'Bool="true"'),
            ["Get", "ByKey", "Create", "Update", "Delete"],
        ),
        (restriction("ReadRestrictions", "Readable"), ["Create", "Update", "Delete"]),
        (
            """<Annotation Term="C.ReadRestrictions"><Record>
               <PropertyValue Property="Readable"><Bool>false</Bool></PropertyValue>
               <PropertyValue Property="ReadByKeyRestrictions"><Record>
               <PropertyValue Property="Readable" Bool="true"/></Record></PropertyValue></Record></Annotation>""",
            ["ByKey", "Create", "Update", "Delete"],
        ),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
def test_capabilities_say_what_is_allowed(
    inside: str, expected: list[str], inline: bool, tmp_path: Path
) -> None:
    container = f'<EntitySet Name="R" EntityType="Self.Room">{inside if inline else ""}</EntitySet>'
    schema = "" if inline else f'<Annotations Target="Self.Container/R">{inside}</Annotations>'
    names = endpoints(v4(tmp_path, container, schema))
    assert ["ByKey" if name.endswith("ByKey") else name.removesuffix("R") for name in names] == expected


def test_singletons_imports_and_bound_operations_of_v4(tmp_path: Path) -> None:
    schema = """
    <Function Name="Free"><Parameter Name="Day"/>
      <Annotation Term="Org.OData.Core.V1.Description" String="Free rooms"/></Function>
    <Function Name="Hidden"/>
    <Function Name="Price" IsBound="true"><Parameter Name="r" Type="Self.Room"/></Function>
    <Function Name="Price" IsBound="true"><Parameter Name="r" Type="Self.Room"/><Parameter Name="Day"/></Function>
    <Action Name="Close" IsBound="true"><Parameter Name="r" Type="Collection(Self.Room)"/></Action>
    <Action Name="Reset"/>"""
    container = """<Singleton Name="Me" Type="Self.Room"/>
    <FunctionImport Name="Free" Function="Self.Free"/><ActionImport Name="Reset" Action="Self.Reset"/>"""
    file = v4(tmp_path, container, schema)
    assert [(r.name, r.description) for r in file.records] == [
        ("Hotel/Free", "Free rooms"),
        ("Hotel/Reset", "Reset (POST)."),
        ("Hotel/GetMe", "Read Me."),
        ("Hotel/UpdateMe", "Update Me."),
        ("Hotel/Room.Price", "Price of Room (function)."),
        ("Hotel/Room.Price(Day)", "Price of Room, with Day (function)."),
        ("Hotel/RoomCollection.Close", "Close of RoomCollection (action)."),
    ]
    made = "metadata.edmx#/Hotel.Container/Reset"  # the first tool without a description of its own
    assert [note.where for note in file.notes] == ["metadata.edmx#/Hotel.Hidden", made]


def test_revisions_say_deprecated(tmp_path: Path) -> None:
    inside = """<Annotation Term="Org.OData.Core.V1.Revisions"><Collection><Record><PropertyValue Property="Kind"
      EnumMember="Org.OData.Core.V1.RevisionKind/Deprecated"/></Record></Collection></Annotation>"""
    file = v4(
        tmp_path, f'<EntitySet Name="R" EntityType="Self.Room">{inside}</EntitySet><Singleton Name="S"/>'
    )
    assert [record.deprecated for record in file.records] == [True] * 5 + [False] * 2


@pytest.mark.parametrize(
    ("namespace", "name", "api"),
    [
        ("com.sap.gateway.srvd_a2x.api_sales_order.v0001", "x.xml", "ApiSalesOrderV1"),
        ("Microsoft.Dynamics.CRM", "x.xml", "MicrosoftDynamicsCrm"),
        ("SFODataSet", "successfactors-User.odata-v2.edmx", "SuccessfactorsUser"),
        ("SFODataSet", "$metadata.xml", "SfoDataSet"),
        ("Default.Container", "hotel-desk.xml", "HotelDesk"),
    ],
)
def test_api_is_named_by_the_namespace_unless_it_says_nothing(
    namespace: str, name: str, api: str, tmp_path: Path
) -> None:
    text = V4.replace("{namespace}", namespace).replace("{schema}", "")
    file = read(tmp_path, text.replace("{container}", '<Singleton Name="Me" Type="Self.Room"/>'), name)
    assert {record.api for record in file.records} == {api}


def test_bare_schema_and_other_encodings_are_read(tmp_path: Path) -> None:
    bare = '<Schema Namespace="Hotel"><EntityContainer Name="C"><Singleton Name="Büro"/></EntityContainer></Schema>'
    for encoding in ("utf-8", "utf-16", "latin-1", "cp1252"):
        text = f'<?xml version="1.0" encoding="{encoding}"?>{bare}'.encode(encoding)
        assert endpoints(read(tmp_path, text)) == ["GetBüro", "UpdateBüro"]


def test_names_stay_readable_and_apart(tmp_path: Path) -> None:
    file = v4(tmp_path, '<Singleton Name="me" Type="Self.Room"/><Singleton Name="Me" Type="Self.Room"/>')
    assert endpoints(file) == ["GetMe", "UpdateMe", "Me.Get", "Me.Update"]


def test_nameless_elements_are_listed(tmp_path: Path) -> None:
    file = v4(tmp_path, '<EntitySet/><FunctionImport/><Singleton Name="Me"/>')
    assert (len(file.errors), endpoints(file)) == (2, ["GetMe", "UpdateMe"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<Edmx/>", "no entity container"),
        (V2[:300], r"edmx:\d+: not valid XML"),
        ("<Edmx></Schema>", "edmx:1: not valid XML .mismatched tag"),
        ('<?xml version="1.0" encoding="nonsense"?><Edmx/>', "not valid XML .unknown encoding"),
        ("<wsdl:definitions xmlns:wsdl='http://schemas.xmlsoap.org/wsdl/'/>", "WSDL"),
        ("<Edmx>" + "<Schema>" * 200, "deeper than 100 levels"),
        ('<!DOCTYPE Edmx SYSTEM "http://127.0.0.1:9/a.dtd"><Edmx/>', "declares a document type"),
    ],
)
def test_unusable_metadata_is_refused_in_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        read(tmp_path, text)
    assert caught.value.hint
