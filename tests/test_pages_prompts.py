"""The pages of the prompts and of the real queries: true to what a run sends, and nothing stored unseen."""

import re
from html import unescape

import pytest

from catalog.models import LabelledQuery
from synthesis.generate.services import synthesis_start
from synthesis.models import PromptVersion, Sample
from tests.factories import make_tool
from tests.llm_server import LlmServer
from tests.synthesis.payloads import INJECTIONS
from tests.synthesis.rows import make_benchmark_query, make_book, run_job
from tests.synthesis.test_runs import answers
from trace_site.audit.models import AuditEntry

pytestmark = pytest.mark.django_db

RULE = "hr/PAYSLIP_PERIOD"


def few_shot(text: str = "where is my badge for tower two") -> LabelledQuery:
    return LabelledQuery.objects.create(collection="desk", use="few_shot", text=text, text_key=text, tools=[])


def shown_prompt(page: str) -> str:
    return unescape(re.search(r'aria-label="The prompt">(.*?)</pre>', page, re.S)[1])


@pytest.fixture
def llm(settings):
    server = LlmServer(answers)
    settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
    yield server
    server.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("shots", [0, 6])
def test_the_preview_is_byte_for_byte_what_a_run_sends(llm, client_as, shots):
    make_book()
    for number in range(shots):
        few_shot(f"real request number {number} about badges")
    run_job(synthesis_start(branch="rule", writer="llm", per_rule=6, seed=0, wake=False).job)
    sent = {}
    for body in llm.requests:
        sent.setdefault(body["response_format"]["json_schema"]["name"], []).append(
            body["messages"][0]["content"]
        )
    client = client_as("admin")
    for style in ("explicit", "implicit", "exception"):
        page = client.get(
            f"/synthesis/prompts/query_rule/preview/?rule={RULE}&style={style}"
        ).content.decode()
        assert shown_prompt(page) in sent["query_rule"]
    newest = {row.style: row for row in Sample.objects.order_by("pk")}
    for name in ("trace", "judge"):
        for style, row in newest.items():
            url = f"/synthesis/prompts/{name}/preview/?rule={RULE}&style={style}&number={row.made_from['index'] + 1}"
            page = client.get(url + ("&permissions=on" if row.permissions else "")).content.decode()
            assert shown_prompt(page) in sent[name], f"{name} {style}"
            assert f"sample {row.pk}" in page


@pytest.mark.django_db(transaction=True)
def test_the_list_tells_use_and_counts(llm, client_as, django_assert_max_num_queries):
    make_book()
    run_job(synthesis_start(branch="rule", writer="llm", per_rule=3, wake=False).job)
    client = client_as("admin")
    with django_assert_max_num_queries(8):
        page = client.get("/synthesis/prompts/").content.decode()
    used = PromptVersion.objects.get(name="query_rule")
    assert used.hash in page and page.count("not yet") == 2  # query_rrb, suggest_rule
    counts = client.get("/synthesis/prompts/counts/").content.decode()
    assert f'id="made-{used.hash}" hx-swap-oob="true"><b>3</b>' in counts


def test_an_earlier_text_stands_beside_todays(client_as):
    make_book()
    PromptVersion.objects.create(hash="0ld", name="judge", source="Judge it kindly, please.")
    page = client_as("admin").get("/synthesis/prompts/judge/").content.decode()
    assert "<mark>kindly" in page and "0ld" in page


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("query_rule/preview/?rule=hr/NOWHERE", "no published rule has the code"),
        ("query_rrb/preview/?tool=No/Tool", "is no active tool"),
        (f"query_rule/preview/?rule={RULE}&style=loud", "choose one of"),
        ("query_rrb/preview/?tool=PayNova/GetPayslip&tier=huge", "choose one of"),
        ("query_rrb/preview/?tool=Lonely/Tool&tier=hard", "needs 4 live tools in the pool"),
        ("trace/preview/?tool=CarPool/BookCar&number=x&seed=-1", "ask for"),
    ],
)
def test_a_preview_that_cannot_be_filled_in_says_why(client_as, query, said):
    make_book()
    make_tool("Lonely/Tool")
    page = unescape(client_as("admin").get(f"/synthesis/prompts/{query}").content.decode())
    assert said in page or (said == "ask for" and "BEGIN USER QUERY" in page)


def test_tool_prompts_permissions_and_critique_are_filled_in(client_as):
    make_book()
    client = client_as("admin")
    tool = client.get("/synthesis/prompts/query_rrb/?tool=CarPool/BookCar&tier=easy&critique=too+stiff")
    assert "too stiff" in shown_prompt(tool.content.decode()) and "CarPool/BookCar" in shown_prompt(
        tool.content.decode()
    )
    trace = client.get(
        f"/synthesis/prompts/trace/preview/?rule={RULE}&style=explicit&permissions=on"
    ).content.decode()
    assert "BEGIN USER PERMISSION TARGETS" in shown_prompt(trace) and "the offline writers" in trace
    assert "permission_filtering" in unescape(trace)
    assert client.get("/synthesis/prompts/nothing/").status_code == 404
    assert client.get("/synthesis/prompts/nothing/preview/").status_code == 404


def test_pages_without_rules_or_tools_say_what_to_choose(client_as):
    client = client_as("admin")
    for name in ("query_rule", "query_rrb", "trace", "judge"):
        assert "Choose" in client.get(f"/synthesis/prompts/{name}/").content.decode()


def test_hostile_texts_show_as_texts(client_as):
    make_book()
    client = client_as("admin")
    for payload in (*INJECTIONS[:6], "<script>alert(1)</script>", "{{ 7*7 }}"):
        page = client.get(
            "/synthesis/prompts/query_rrb/preview/", {"tool": "CarPool/BookCar", "critique": payload}
        )
        assert page.status_code == 200 and b"<script>alert" not in page.content


def test_the_real_queries_page_lists_searches_and_counts(client_as, django_assert_max_num_queries):
    rows = [few_shot(f"where is the {word} for tower {word}") for word in ("badge", "key", "map")]
    make_book()
    client = client_as("admin")
    with django_assert_max_num_queries(8):
        page = client.get("/catalog/queries/").content.decode()
    assert all(row.text in page for row in rows) and "Import queries" in page
    found = client.get("/catalog/queries/?q=KEY+tower&collection=desk").content.decode()
    assert rows[1].text in found and rows[0].text not in found
    assert "No query matches" in client.get("/catalog/queries/?q=zebra").content.decode()


@pytest.mark.django_db(transaction=True)
def test_the_page_says_how_many_samples_were_shown_a_query(llm, client_as):
    make_book()
    row = few_shot()
    run_job(synthesis_start(branch="rule", writer="llm", per_rule=3, wake=False).job)
    shown = client_as("admin").get(f"/synthesis/prompts/shown/?queries={row.pk},x,-1").content.decode()
    assert f'id="shown-{row.pk}" hx-swap-oob="true"><b>3</b>' in shown


def test_an_empty_registry_says_what_to_do(client_as):
    assert "Import requests that people typed" in client_as("admin").get("/catalog/queries/").content.decode()


def preview(client, text: str):
    return client.post("/catalog/queries/import/", {"collection": "desk", "pasted": text})


def test_the_wizard_shows_what_it_found_and_stores_what_the_editor_leaves(client_as):
    make_benchmark_query("where is my badge for tower two")
    client = client_as("admin")
    page = preview(
        client,
        "send the slip to dana.r@example.com today\nplease book Maria Gonzales cafe for lunch\n"
        "where is my badge for tower two\nleave this one out please",
    )
    text = unescape(page.content.decode())
    assert "<s>dana.r@example.com</s>" in text and "send the slip to [e-mail] today" in text
    assert "is a query of the benchmark prb" in text
    assert "no-store" in page["Cache-Control"]
    assert not LabelledQuery.objects.filter(use="few_shot").exists()
    done = client.post(
        "/catalog/queries/apply/",
        {
            "collection": "desk",
            "text-1": "send the slip to [e-mail] today",
            "text-2": "please book Maria Gonzales cafe for lunch",
            "person-2": "on",
            "text-4": "leave this one out please",
            "leave-4": "on",
        },
        follow=True,
    )
    assert "2 queries are in the registry" in done.content.decode()
    assert set(LabelledQuery.objects.filter(use="few_shot").values_list("text", flat=True)) == {
        "send the slip to [e-mail] today",
        "please book Maria Gonzales cafe for lunch",
    }
    assert AuditEntry.objects.get(action="queries.imported").detail["added"] == 2


def test_what_an_editor_types_is_scrubbed_and_checked_again(client_as):
    client = client_as("admin")
    page = client.post(
        "/catalog/queries/apply/",
        {"collection": "desk", "text-1": "mail my slip to evil@example.com", "text-2": "too short"},
    )
    assert page.status_code == 422 and "has 2 words" in page.content.decode()
    assert LabelledQuery.objects.get().text == "mail my slip to [e-mail]"


def test_a_file_or_a_paste_and_not_both(client_as, tmp_path):
    client = client_as("admin")
    assert client.post("/catalog/queries/import/", {"collection": "desk"}).status_code == 422
    path = tmp_path / "q.csv"
    path.write_text('id,query\n1,"who approves my trip, please"\n')
    with path.open("rb") as file:
        page = client.post("/catalog/queries/import/", {"collection": "desk", "file": file})
    assert "who approves my trip, please" in page.content.decode()
    assert "too many to read on one page" in preview(client, "one two three four\n" * 301).content.decode()


def test_who_imports_queries_does_not_read_those_of_others(client_as):
    client = client_as("expert")
    sent = {"collection": "desk", "text-1": "could you tell me when the next holiday is"}
    assert client.post("/catalog/queries/apply/", sent)["Location"] == "/catalog/queries/import/"
    assert client.get("/catalog/queries/").status_code == 403


def test_removing_a_query_is_for_admins_and_noted(client_as, client, user_with):
    row = few_shot()
    client.force_login(user_with("expert"))
    assert client.post(f"/catalog/queries/{row.pk}/remove/").status_code == 403
    client = client_as("admin")
    client.post(f"/catalog/queries/{row.pk}/remove/")
    assert not LabelledQuery.objects.exists()
    assert AuditEntry.objects.get(action="query.removed").actor.username == "admin"
    benchmark = make_benchmark_query("some benchmark query here")
    assert client.post(f"/catalog/queries/{benchmark.pk}/remove/").status_code == 404


def test_the_command_shows_first_and_stores_then(tmp_path, capsys):
    from django.core.management import call_command

    path = tmp_path / "q.txt"
    path.write_text("send the slip to dana.r@example.com today\nno\n")
    call_command("queries_import", str(path), collection="desk", dry_run=True)
    told = capsys.readouterr().out
    assert "+ send the slip to [e-mail] today  (e-mail replaced)" in told and "dana.r" not in told
    assert not LabelledQuery.objects.exists()
    call_command("queries_import", str(path), collection="desk", json=True)
    assert '"added": 1, "refused": 1, "reasons": {"too_short": 1}' in capsys.readouterr().out
    assert LabelledQuery.objects.get().text == "send the slip to [e-mail] today"
