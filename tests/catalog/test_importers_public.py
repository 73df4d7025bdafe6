"""Every file under the public specs: each operation is a tool or a listed row, counted here by other means."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from django.conf import settings

from catalog.core.importers.read import read_catalog

FOLDER = Path(settings.TRACE_PUBLIC_DATA) / "specs"
FILES = sorted(FOLDER.iterdir()) if FOLDER.is_dir() else []
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
# the API of the public catalogs, by the beginning of the file name
CATALOGS = {
    "adyen-Payout": "AdyenPayoutV68",
    "adyen-Transfer": "AdyenTransferV4",
    "bamboohr": "BambooHr",
    "dwolla": "Dwolla",
    "hmrc": "HmrcVat",
    "killbill": "KillBill",
    "merge-ats": "MergeAts",
    "paypal-invoicing-v1": "PayPalInvoicingV1",
    "paypal-invoicing-v2": "PayPalInvoicingV2",
    "sumup": "SumUp",
    "taxamo": "Taxamo",
    "xero-bankfeeds": "XeroBankFeeds",
    "xero-payroll-au": "XeroPayrollAuV1",
}
pytestmark = pytest.mark.skipif(not FILES, reason="the public data is absent (set TRACE_PUBLIC_DATA)")


def parsed(path: Path) -> Any:
    text = path.read_text()
    return json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506


def local(name: str) -> str:
    return name.rpartition("}")[2]


def operations_of_metadata(path: Path) -> int:
    """Two reads for each entity set, one for each write that is not forbidden, one for each import."""
    total = 0
    for node in ElementTree.parse(path).iter():
        stated = {local(key): value for key, value in node.attrib.items()}
        if local(node.tag) == "EntitySet":
            total += 2 * (stated.get("addressable") != "false") + (stated.get("upsertable") == "true")
            total += sum(stated.get(key) != "false" for key in ("creatable", "updatable", "deletable"))
        total += local(node.tag) in {"FunctionImport", "ActionImport", "Singleton"}
    return total


def operations(path: Path) -> int:
    if path.suffix == ".edmx":
        return operations_of_metadata(path)
    document = parsed(path)
    if isinstance(document, list):
        return len(document)
    return sum(len(METHODS & item.keys()) for item in document["paths"].values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_operation_of_the_file_is_accounted_for(path: Path) -> None:
    file = read_catalog(path, keep_going=True)
    assert len(file.records) + len(file.errors) == operations(path) > 0
    assert file.errors == []
    assert len({record.name for record in file.records}) == len(file.records)
    assert all(record.where.startswith(f"{path}#/") for record in file.records)


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".edmx"], ids=lambda path: path.name)
def test_every_entity_set_and_import_is_the_place_of_a_tool(path: Path) -> None:
    named = re.findall(r'<(?:EntitySet|FunctionImport) Name="(\w+)"', path.read_text())
    places = {record.where.rpartition("/")[2] for record in read_catalog(path).records}
    assert places == set(named)


@pytest.mark.parametrize("prefix", CATALOGS)
def test_tools_agree_with_the_public_catalogs(prefix: str) -> None:
    [path] = [path for path in FILES if path.name.startswith(prefix)]
    known: dict[str, dict[str, Any]] = {}
    for domain in ("hr", "finance"):
        for line in (FOLDER.parent / "catalog" / f"{domain}.jsonl").open():
            row = json.loads(line)
            api, _, endpoint = row["name"].partition("/")
            if api == CATALOGS[prefix]:
                known[endpoint] = row
    found = {record.name.partition("/")[2]: record for record in read_catalog(path).records}
    # the vendor describes this one nowhere, so the public catalog left it out
    assert found.keys() - known.keys() <= {"createSubscriptionTags"} and known.keys() <= found.keys()
    for endpoint, row in known.items():
        record = found[endpoint]
        # cut there, whole here; and placeholders such as <category> are only here
        said = " ".join(re.sub(r"<[A-Za-z]+>", " ", record.description).split())
        known_text = row["description"].rstrip("…").strip()
        assert said.startswith(known_text) or record.description.startswith(known_text)
        assert (list(record.permissions), record.deprecated) == (row["permissions"], row["deprecated"])
