"""The pages that take rules in and out: preview, one change request, downloads under the list's filters."""

import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from catalog.models import Tool
from rules.exchange.services import as_text, file_preview, file_request, rules_export
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from rules.services import rule_withdraw
from tests.factories import make_tool
from tests.rules.saving import rule_save
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
TEXT = "Use Pay/get from 2024 on, and Pay/getOld for every month before that."
RULE: dict[str, Any] = {"tool_name": "Pay/get", "confusables": ["Pay/getOld"], "rule_text": TEXT}


@pytest.fixture(autouse=True)
def tools() -> None:
    for name in ("Pay/get", "Pay/getOld", "Pay/third"):
        make_tool(name)


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.TRACE_HOME = tmp_path


def publish(code: str, text: str = TEXT) -> Rule:
    return rule_save(
        target="Pay/get", confusables=["Pay/getOld"], text=text, code=code, publish=True
    ).version.rule


def upload(client: Any, *rules: dict[str, Any], name: str = "mine.json", data: bytes = b"") -> Any:
    file = SimpleUploadedFile(name, data or json.dumps(rules).encode())
    return client.post(reverse("rules:import"), {"file": file})


def ticket(response: Any) -> str:
    return re.search(r'name="ticket" value="([^"]+)"', response.content.decode())[1]


def test_a_file_becomes_one_draft_with_every_change(client_as) -> None:
    client = client_as("expert")
    kept, changed, draft = publish("KEPT"), publish("CHANGED"), publish("DRAFT")
    rule_withdraw(rule=draft)
    preview = upload(
        client,
        RULE | {"code": "KEPT"},
        RULE | {"code": "CHANGED", "rule_text": f"{TEXT} Ask <b>when</b> unsure."},
        RULE | {"code": "NEW", "evidence": "p. 3"},
        RULE | {"code": "DRAFT"},
        RULE | {"code": "BAD", "tool_name": "Pay/gett"},
    )
    page = preview.content.decode()
    assert "<ins>Ask &lt;b&gt;when&lt;/b&gt; unsure.</ins>" in page
    assert "<code>evidence</code> of 1 rule" in page
    assert "mine.json#/4/tool_name: &#x27;Pay/gett&#x27; is not in the catalog. Closest: Pay/get" in page
    assert not ChangeRequest.objects.exists()
    made = client.post(
        reverse("rules:import_request"), {"ticket": ticket(preview), "title": "", "drafts": "1"}
    )
    request = ChangeRequest.objects.get()
    assert made.url == reverse("rules:request", args=[request.pk])
    assert (request.state, request.title, request.revision) == ("draft", "Import of mine.json", 2)
    found = {(change.rule.code if change.rule else change.code): change for change in request.changes.all()}
    assert sorted(found) == ["CHANGED", "DRAFT", "NEW"]
    assert found["CHANGED"].base == changed.published and found["CHANGED"].base_published == changed.published
    assert found["DRAFT"].base is not None and found["DRAFT"].base_published is None
    assert (found["NEW"].domain, found["NEW"].base) == ("hr", None)
    assert kept.versions.count() == 1 and RuleVersion.objects.count() == 3
    assert AuditEntry.objects.filter(action="request.edited").get().detail["imported"] == "mine.json"


def test_unpublished_rules_are_left_alone_unless_asked_for(user_with) -> None:
    rule_withdraw(rule=publish("GONE"))
    data = json.dumps([RULE | {"code": "GONE"}, RULE | {"code": "NEW"}]).encode()
    preview = file_preview(data=data, filename="f.json")
    assert preview.counts()["unpublished"] == 1
    request = file_request(preview=preview, actor=user_with("admin"))
    assert [change.code for change in request.changes.all()] == ["NEW"]


def test_a_rule_is_compared_with_what_is_published_and_changed_on_top_of_its_newest_version(
    user_with,
) -> None:
    rule = publish("X")
    draft = rule_save(target="Pay/get", confusables=["Pay/getOld"], text=f"{TEXT} More.", rule=rule).version
    as_live = file_preview(data=json.dumps([RULE | {"code": "X"}]).encode(), filename="f")
    assert as_live.changes == []
    other = json.dumps([RULE | {"code": "X", "rule_text": f"{TEXT} Other."}]).encode()
    change = file_request(
        preview=file_preview(data=other, filename="f"), actor=user_with("expert")
    ).changes.get()
    assert (change.base_id, change.base_published_id) == (draft.pk, rule.published_id)


def test_the_request_can_be_submitted_approved_and_applied(user_with) -> None:
    from rules.changes import services as changes_services

    publish("OLD")
    data = json.dumps(
        [RULE | {"code": "OLD", "confusables": ["Pay/getOld", "Pay/third"]}, RULE | {"code": "NEW"}]
    )
    author, other = user_with("expert"), user_with("admin")
    request = file_request(preview=file_preview(data=data.encode(), filename="f"), actor=author)
    request = changes_services.request_submit(request=request, actor=author, revision=request.revision)
    request = changes_services.request_approve(request=request, actor=other, revision=request.revision)
    changes_services.request_apply(request=request, actor=other)
    assert {rule["code"]: len(rule["confusables"]) for rule in rules_export()} == {"NEW": 1, "OLD": 2}
    assert Rule.objects.get(code="OLD").published.number == 2


def test_an_upload_that_is_no_file_of_rules_says_where_and_why(client_as, tmp_path) -> None:
    client = client_as("admin")
    cut = upload(client, data=b'[{"tool_name": "Pay/get"', name="cut.json")
    assert cut.status_code == 400 and "cut.json:1:25" in cut.content.decode()
    table = upload(client, data=b"tool_name,confusables,rule_text\nPay/gett,Pay/getOld,t\n", name="t.csv")
    assert (
        "t.csv:2, column tool_name</b>: &#x27;Pay/gett&#x27; is not in the catalog" in table.content.decode()
    )
    assert upload(client, data=b"x" * 5_000_001).status_code == 400
    assert client.post(reverse("rules:import")).status_code == 400
    many = upload(client, data=b"[" + b"1," * 5000 + b"1]")
    assert many.status_code == 413 and "5,001 rules; the limit is 5,000" in many.content.decode()
    assert not [path for path in tmp_path.rglob("uploads/**/*") if path.is_file()]


def test_a_file_that_says_what_the_rules_say_requests_nothing(client_as, user_with) -> None:
    publish("X")
    client = client_as("expert")
    page = upload(client, data=as_text(rules_export(), "csv").encode(), name="again.csv")
    assert "The rules say all of this already" in page.content.decode()
    with pytest.raises(TraceError, match="The rules already say what the file says"):
        preview = file_preview(data=as_text(rules_export(), "json").encode(), filename="f")
        file_request(preview=preview, actor=user_with("admin"))
    assert not ChangeRequest.objects.exists()


def test_a_preview_is_used_once_and_only_while_it_still_holds(client_as) -> None:
    client = client_as("expert")
    address = reverse("rules:import_request")
    first = ticket(upload(client, RULE))
    publish("GET")
    assert "changed since the preview" in client.post(address, {"ticket": first}).content.decode()
    second = ticket(upload(client, RULE | {"code": "OTHER"}))
    assert client.post(address, {"ticket": second}).status_code == 302
    assert "is no longer kept" in client.post(address, {"ticket": second}).content.decode()
    for forged in ("", "x", second[:-2]):
        answer = client.post(address, {"ticket": forged})
        assert answer.status_code == 409 and "too old" in answer.content.decode()
    assert ChangeRequest.objects.count() == 1


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
def test_only_experts_and_admins_import(client_as, role: str) -> None:
    client = client_as(role)
    assert client.get(reverse("rules:import")).status_code == 403
    assert client.post(reverse("rules:import_request"), {"ticket": "x"}).status_code == 403
    assert not ChangeRequest.objects.exists() and b"Import" not in client.get(reverse("rules:list")).content


def test_a_download_holds_what_the_list_shows(client_as) -> None:
    publish("ALPHA")
    publish("BETA", f"{TEXT} Beta words.")
    rule_withdraw(rule=publish("GAMMA"))
    client = client_as("product_manager")
    everything = client.get(reverse("rules:export"))
    assert everything.content.decode() == as_text(rules_export(), "json")
    assert everything["Content-Disposition"] == 'attachment; filename="rules.json"'
    some = client.get(reverse("rules:export"), {"q": "beta words"})
    assert [rule["code"] for rule in some.json()] == ["BETA"]
    drafts = client.get(reverse("rules:export_csv"), {"state": "draft"})
    assert drafts["Content-Type"] == "text/csv; charset=utf-8"
    assert drafts.content.decode() == as_text([r for r in rules_export() if r["code"] == "GAMMA"], "csv")
    page = client.get(reverse("rules:list"), {"q": "beta"}).content.decode()
    assert f"{reverse('rules:export_csv')}?q=beta" in page and f"{reverse('rules:export')}?q=beta" in page


def test_the_number_of_queries_does_not_grow_with_the_file(user_with, django_assert_max_num_queries) -> None:
    actor = user_with("expert")
    Rule.objects.all()
    data = json.dumps([RULE | {"code": f"R{number}"} for number in range(300)]).encode()
    with django_assert_max_num_queries(20):
        file_request(preview=file_preview(data=data, filename="f"), actor=actor)
    assert RuleChange.objects.count() == 300 and Tool.objects.count() == 3
