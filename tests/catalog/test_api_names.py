"""Which API a file describes: two services with one title stay apart, in the command, the API and the wizard."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.urls import reverse

from catalog.imports.services import catalog_import
from catalog.models import CatalogImport, Tool
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
PAYROLL = ["read_payslip", "health"]
LEAVE = ["list_absences", "request_absence", "health"]


def spec(*operations: str, title: str = "FastAPI", **more: str) -> dict[str, Any]:
    paths = {f"/{name}": {"get": {"operationId": name, "summary": name, **more}} for name in operations}
    return {"openapi": "3.1.0", "info": {"title": title, "version": "0.1.0"}, "paths": paths}


def take(folder: Path, name: str, document: dict[str, Any], domain: str = "hr", **options: Any) -> Any:
    (path := folder / name).write_text(json.dumps(document))
    return catalog_import(path=path, domain=domain, **options)


def active() -> set[str]:
    return set(Tool.objects.filter(status="active").values_list("name", flat=True))


@pytest.mark.parametrize("title", ["FastAPI", "OpenAPI definition", "Swagger API", "My API"])
@pytest.mark.parametrize("second", ["leave.json", "payroll.json"])
def test_a_second_service_with_the_title_of_its_framework_retires_nothing(
    title: str, second: str, tmp_path: Path
) -> None:
    take(tmp_path, "payroll.json", spec(*PAYROLL, title=title))
    before = active()
    with pytest.raises(TraceError, match="payroll.json.*--api-name") as caught:
        take(tmp_path, second, spec(*LEAVE, title=title))
    assert caught.value.code == "api_taken" and active() == before
    take(tmp_path, second, spec(*LEAVE, title=title), api_name="Leave")
    assert active() == before | {f"Leave/{name}" for name in LEAVE}


def test_each_later_import_retires_only_what_left_its_own_source(tmp_path: Path) -> None:
    take(tmp_path, "payroll.json", spec(*PAYROLL))
    take(tmp_path, "leave.json", spec(*LEAVE), api_name="Leave")
    assert take(tmp_path, "payroll.json", spec("health")).diff.removed == ["FastApi/read_payslip"]
    assert take(tmp_path, "leave.json", spec(*LEAVE[1:])).diff.removed == ["Leave/list_absences"]
    assert active() == {"FastApi/health", "Leave/request_absence", "Leave/health"}
    assert take(tmp_path, "leave.json", spec(*LEAVE[1:])).counts["unchanged"] == 2


def test_two_services_whose_files_have_one_name_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    take(tmp_path, "openapi.json", spec(*PAYROLL))
    take(tmp_path, "openapi.json", spec(*LEAVE), api_name="Leave")
    assert take(tmp_path, "openapi.json", spec("read_payslip")).diff.removed == ["FastApi/health"]
    assert take(tmp_path, "openapi.json", spec(*LEAVE, "more")).counts["added"] == 1
    assert {f"Leave/{name}" for name in (*LEAVE, "more")} | {"FastApi/read_payslip"} == active()


def test_a_part_of_an_api_and_another_domain_are_asked_about_and_the_title_may_be_confirmed(
    tmp_path: Path,
) -> None:
    take(tmp_path, "whole.json", spec("a", "b", "c"))
    for name, domain in (("part.json", "hr"), ("whole.json", "finance")):
        with pytest.raises(TraceError, match="give 'FastApi'"):
            take(tmp_path, name, spec("a", "b"), domain)
    assert take(tmp_path, "part.json", spec("a", "b"), api_name="FastApi").diff.removed == ["FastApi/c"]
    assert take(tmp_path, "renamed.json", spec("a", "b", "d")).counts["added"] == 1


def test_a_name_is_checked(tmp_path: Path) -> None:
    for name in ("a/b", "x" * 301, "a\nb"):
        with pytest.raises(TraceError, match="cannot be the name"):
            take(tmp_path, "payroll.json", spec(*PAYROLL), api_name=name)
    rows = [{"name": f"{api}/x", "description": "x"} for api in "AB"]
    (path := tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(TraceError, match="One API a file"):
        catalog_import(path=path, domain="hr", api_name="C")
    assert not CatalogImport.objects.exists()


def test_command_api_and_wizard_ask_for_a_name_and_take_it(tmp_path: Path, client_as: Any) -> None:
    take(tmp_path, "payroll.json", spec(*PAYROLL))
    (path := tmp_path / "leave.json").write_text(json.dumps(spec(*LEAVE)))
    with pytest.raises(Exception, match="--api-name"):
        call_command("catalog_import", path, domain="hr", dry_run=True, stdout=StringIO())
    call_command("catalog_import", path, domain="hr", api_name="ByCommand", stdout=StringIO())

    client = client_as("admin")
    sent = {"domain": "hr", "content": spec("one", "two"), "filename": "other.json"}
    url = "/api/v1/imports"
    answer = client.post(url, sent, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "api_taken")
    answer = client.post(url, {**sent, "api_name": "ByCall"}, content_type="application/json")
    assert answer.status_code == 201

    def preview(**more: str) -> Any:
        file = SimpleUploadedFile("third.json", json.dumps(spec("three")).encode())
        form = {"file": file, "domain": "hr", "format": "auto", **more}
        return client.post(reverse("catalog:import"), form)

    page = preview()
    assert page.status_code == 422 and "came from elsewhere (payroll.json)" in page.content.decode()
    page = preview(api_name="ByForm")
    client.post(reverse("catalog:apply"), {"ticket": page.context["ticket"], "choice": "apply"})
    assert active() == {
        *(f"FastApi/{name}" for name in PAYROLL),
        *(f"ByCommand/{name}" for name in LEAVE),
        *("ByCall/one", "ByCall/two", "ByForm/three"),
    }


def test_another_region_of_a_service_is_asked_about_and_a_renamed_file_is_not(tmp_path: Path) -> None:
    take(tmp_path, "leave-eu.json", spec(*LEAVE, description="In the EU."))
    with pytest.raises(TraceError, match="leave-eu.json"):
        take(tmp_path, "leave-us.json", spec(*LEAVE, description="In the US."))
    renamed = spec(*LEAVE, "more", description="In the EU.")
    assert take(tmp_path, "leave-eu (1).json", renamed).counts["unchanged"] == 3


def test_a_small_service_never_retires_those_of_a_larger_one_that_holds_its_operations(
    tmp_path: Path,
) -> None:
    take(tmp_path, "health.json", spec("health"))
    take(tmp_path, "leave.json", spec(*LEAVE))
    with pytest.raises(TraceError) as caught:
        take(tmp_path, "health.json", spec("health"))
    assert caught.value.code == "api_taken" and len(active()) == 3
