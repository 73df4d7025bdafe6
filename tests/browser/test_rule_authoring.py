"""Writing a rule in a real browser: from the gap to a published rule, and nothing typed is ever lost."""

import pytest

from rules.models import ChangeRequest, Rule, RuleChange
from synthesis.datasets.build import preview
from tests.factories import count_rollups, make_sample
from tests.rules.saving import rule_save
from trace_site.audit.models import AuditEntry
from trace_site.people.sessions import Session

pytestmark = pytest.mark.browser
NEW, LINES = "PayrollNova/GetPayslip", "PayrollNova/GetPayslipLines"
TEXT = f"Whole payslips are read with {NEW}, and single lines of them with {LINES}, whatever the year is."
CLICKS = """
document.addEventListener("click", (event) => {
  if (event.isTrusted && event.detail > 0) sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1;
}, true);
"""


def expect(locator):
    from playwright.sync_api import expect as wait_for

    return wait_for(locator)


def tab_to(page, selector):
    """Press Tab until the element has the focus."""
    for _ in range(60):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached by Tab")


def saved(page):
    expect(page.locator("#save-state .tone-good")).to_have_text("saved")


def until(page, condition):
    """Wait for something that only the database shows."""
    for _ in range(200):
        if condition():
            return
        page.wait_for_timeout(25)
    raise AssertionError("it did not happen within five seconds")


def settled(page):
    """The checks have answered for what is typed now."""
    page.wait_for_load_state("networkidle")


@pytest.fixture
def rule(look_alikes):
    kept = {"target": NEW, "confusables": [LINES], "text": TEXT, "code": "PAYSLIP_PARTS"}
    return rule_save(**kept, publish=True).version.rule


def stale_samples():
    return preview(strategy="append", per_rule=12, branches=["rule"])["stale"]


def approve_and_apply(page, request):
    page.goto(f"/rules/requests/{request.pk}/")
    page.click("text=Approve revision")
    page.click("text=Apply now")
    page.wait_for_selector("text=Applied")


def test_expert_submits_a_rule_from_the_gap_list_and_a_second_one_publishes_it(open_page, look_alikes):
    page = open_page("expert")
    page.context.add_init_script(CLICKS)
    count_rollups()
    page.goto("/")
    page.get_by_role("link", name="Draft a rule", exact=True).first.click()
    page.wait_for_selector("#text:focus")
    page.keyboard.type("Payslips have two homes. When the whole slip is asked for, use @getpayslip")
    expect(page.locator("#names-list [role=option]")).to_have_count(2)
    page.keyboard.press("Enter")
    page.keyboard.type(". When one line is questioned, use @lin")
    page.keyboard.press("Enter")
    page.keyboard.type(".")
    expect(page.locator("[data-note-of=offers]")).to_contain_text("2 sentences of the text")
    page.keyboard.press("Alt+Enter")
    expect(page.locator("#clauses [data-row]")).to_have_count(2)
    tab_to(page, "[data-add-row=tests]")
    page.keyboard.press("Enter")
    page.keyboard.type("my pay in may")
    page.keyboard.press("Enter")
    page.keyboard.type("why was 12 taken off")
    page.keyboard.press("Tab")
    page.keyboard.type("lines")
    expect(page.locator("#test-1-list [role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#test-1-tools")).to_have_value(LINES)
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/rules/requests/*/")
    clicks = int(page.evaluate("sessionStorage.clicks"))
    assert clicks == 1  # eight are allowed

    asked = ChangeRequest.objects.get()
    content = asked.changes.get().content
    assert asked.state == "in_review" and content["text"] == (
        f"Payslips have two homes. When the whole slip is asked for, use {NEW}. "
        f"When one line is questioned, use {LINES}."
    )
    assert [clause["route_to"] for clause in content["clauses"]] == [NEW, LINES]
    assert [test["tools"] for test in content["tests"]] == [[NEW], [LINES]]
    second = open_page("admin")
    approve_and_apply(second, asked)
    made = Rule.objects.get()
    assert made.published.text == content["text"]
    second.goto(f"/rules/{made.pk}/")
    expect(second.locator(".lead")).to_contain_text("published")
    second.goto("/audit/")
    page_text = second.locator("main").inner_text()
    for word in ("submitted", "approved", "applied", "published"):
        assert word in page_text
    told = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"request.submitted", "request.approved", "request.applied", "rule.published"} <= told


def test_editing_a_taught_rule_shows_before_and_after_what_becomes_stale(open_page, rule):
    make_sample(rule=rule, human="approved")
    assert stale_samples() == 0
    page = open_page("expert")
    page.goto(f"/rules/{rule.pk}/")
    page.click("text=Edit")
    page.wait_for_selector("#text:focus")
    expect(page.locator("aside")).to_contain_text("1 sample")
    page.keyboard.press("Control+End")
    page.keyboard.type(" Ask payroll when in doubt.")
    saved(page)
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/rules/requests/*/")
    second = open_page("admin")
    approve_and_apply(second, ChangeRequest.objects.get())
    expect(second.locator("main")).to_contain_text("It touched 1 sample")
    assert stale_samples() == 1
    rule.refresh_from_db()
    assert rule.published.number == 2 and rule.published.text.endswith("Ask payroll when in doubt.")


def test_rule_is_written_and_submitted_on_a_phone(open_page, look_alikes):
    page = open_page("expert", width=390)
    count_rollups()
    page.goto("/")
    page.get_by_role("link", name="Draft a rule", exact=True).first.click()
    page.fill("#text", TEXT)
    saved(page)
    root = "document.documentElement"
    assert page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
    bar = page.locator(".editor-bar").bounding_box()
    assert bar["height"] < 140 and bar["y"] + bar["height"] <= 901
    cards = page.locator(".compare-others")
    assert cards.evaluate("box => box.scrollWidth > box.clientWidth")  # the look-alikes are swiped
    page.get_by_role("button", name="Submit for review").click()
    page.wait_for_url("**/rules/requests/*/")
    assert ChangeRequest.objects.get().state == "in_review"


def test_second_person_on_one_draft_is_told_and_both_sides_are_kept(open_page, look_alikes):
    open_page.expected.append("409")
    first, second = open_page("expert"), open_page("expert")
    first.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    first.fill("#text", TEXT)
    saved(first)
    second.goto(first.url)
    second.locator("#text").press("Control+End")
    second.keyboard.type(" Hers.")
    saved(second)
    first.locator("#text").press("Control+Home")
    first.keyboard.type("Mine. ")
    expect(first.locator("[data-clash]")).to_contain_text("saved revision 2")
    expect(first.locator("[data-clash] .old mark")).to_contain_text("Hers.")
    assert RuleChange.objects.get().content["text"] == TEXT + " Hers."
    assert first.input_value("#text") == "Mine. " + TEXT
    first.click("text=Keep mine on top of theirs")
    expect(first.locator("#text")).to_have_value(f"Mine. {TEXT} Hers.")
    assert RuleChange.objects.get().content["text"] == f"Mine. {TEXT} Hers."
    second.locator("#text").press("Control+End")
    second.keyboard.type(" Again.")
    expect(second.locator("[data-clash]")).to_be_visible()
    second.click("text=Take theirs")
    expect(second.locator("#text")).to_have_value(f"Mine. {TEXT} Hers.")


def test_text_survives_a_session_that_ended(open_page, look_alikes):
    open_page.expected.append("401")
    page = open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    settled(page)
    Session.objects.all().delete()
    page.locator("#text").press_sequentially("Typed while signed out.")
    expect(page.locator("#save-state")).to_contain_text("You are signed out")
    assert not RuleChange.objects.exists()
    page.click("text=Sign in again")
    page.fill("#id_username", "expert-1")
    page.fill("#id_password", "pass")
    page.keyboard.press("Enter")
    expect(page.locator("#text")).to_have_value("Typed while signed out.")
    saved(page)
    assert RuleChange.objects.get().content["text"] == "Typed while signed out."


def test_lost_connection_is_told_and_what_was_typed_is_saved_when_it_is_back(open_page, look_alikes):
    open_page.expected += ["ERR_INTERNET_DISCONNECTED", "htmx:"]
    page = open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    settled(page)
    page.context.set_offline(True)
    page.locator("#text").press_sequentially("Typed on a train.")
    expect(page.locator("#save-state")).to_contain_text("kept in this browser")
    page.context.set_offline(False)
    saved(page)
    assert RuleChange.objects.get().content["text"] == "Typed on a train."


def test_text_that_was_never_saved_is_offered_after_somebody_else_saved(open_page, look_alikes):
    open_page.expected += ["409", "ERR_FAILED"]
    page, other = open_page("expert"), open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    page.fill("#text", TEXT)
    saved(page)
    page.route("**/rules/changes/save/", lambda route: route.abort())
    page.locator("#text").press("Control+Home")
    page.keyboard.type("Mine. ")
    expect(page.locator("#save-state")).to_contain_text("kept in this browser")
    other.goto(page.url)
    other.fill("#text", TEXT + " Hers.")
    saved(other)
    page.reload()
    expect(page.locator("#text")).to_have_value(TEXT + " Hers.")
    page.get_by_role("button", name="Show it").click()
    expect(page.locator("#text")).to_have_value("Mine. " + TEXT)
    page.unroute("**/rules/changes/save/")
    page.keyboard.press("Control+s")
    expect(page.locator("[data-clash] .old mark")).to_contain_text("Hers.")


def test_editor_works_without_scripts(open_page, look_alikes):
    page = open_page("expert", scripts=False)
    page.goto(f"/rules/new/?tools={look_alikes[0].pk}")
    page.fill("#text", TEXT)
    page.fill("#add-confusable", LINES)
    page.fill("#test-0-query", "my pay in may")
    page.fill("#test-0-tools", NEW)
    page.get_by_role("button", name="Save", exact=True).last.click()
    assert page.locator("#chips input:checked").count() == 1
    page.fill("#test-1-query", "what is line 12")
    page.fill("#test-1-tools", LINES)
    page.get_by_role("button", name="Submit for review").click()
    assert "/rules/requests/" in page.url
    content = RuleChange.objects.get().content
    assert [test["query"] for test in content["tests"]] == ["my pay in may", "what is line 12"]
    assert content["confusables"] == [LINES]


def test_what_is_typed_before_the_scripts_have_come_is_saved(open_page, look_alikes):
    page, waiting = open_page("expert"), []
    page.route("**/js/editor.*", lambda route: waiting.append(route))
    with page.expect_request("**/js/editor.*"):
        page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}", wait_until="commit")
    page.fill("#text", TEXT)
    waiting.pop().continue_()
    saved(page)
    assert RuleChange.objects.get().content["text"] == TEXT


def test_leaving_at_once_saves_what_was_typed(open_page, look_alikes):
    page = open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    settled(page)
    page.locator("#text").press_sequentially("Typed and gone.")
    page.goto("/rules/requests/")
    until(page, RuleChange.objects.exists)
    page.goto(f"/rules/changes/{RuleChange.objects.get().pk}/")
    expect(page.locator("#text")).to_have_value("Typed and gone.")


def test_looking_at_the_editor_leaves_no_draft_behind(open_page, rule):
    page = open_page("expert")
    for path in ("/rules/new/", f"/rules/{rule.pk}/edit/"):
        page.goto(path)
        settled(page)
    page.goto("/rules/")
    assert not ChangeRequest.objects.exists()


def test_set_is_chosen_from_the_keyboard(open_page, look_alikes):
    page = open_page("expert")
    page.goto("/rules/new/")
    page.wait_for_selector("#target:focus")
    page.keyboard.type("getpayslip")
    expect(page.locator("#target-list [role=option]")).not_to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator("#target")).to_have_value(NEW)
    expect(page.locator(".compare-card.is-target")).to_contain_text("Returns the payslip")
    tab_to(page, "#add-confusable")
    page.keyboard.type("sta")
    saved(page)  # a half-typed name is no look-alike
    assert RuleChange.objects.get().content["confusables"] == []
    page.keyboard.type("tement")
    expect(page.locator("#add-list [role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    chips = page.locator("#chips .tool-chip")
    expect(chips).to_have_count(1)
    tab_to(page, "#set summary")
    tab_to(page, "#set .pick input")
    page.keyboard.press("Space")
    expect(chips).to_have_count(2)
    expect(page.locator("#set .pick input").first).to_be_focused()
    page.locator("#add-confusable").focus()
    page.keyboard.press("Backspace")
    page.keyboard.press("Delete")
    expect(chips).to_have_count(1)
    expect(page.locator(".compare-others .compare-card")).to_have_count(1)


def test_clause_and_text_are_brought_into_step_with_one_key_each_way(open_page, look_alikes):
    page = open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    page.fill("#text", f"Slips. When it is whole, use {NEW}. Else use {LINES}.")
    expect(page.locator("[data-follow]")).to_be_visible()
    page.locator("#text").press("Alt+Enter")
    expect(page.locator("#clause-0-when")).to_have_value("it is whole")
    page.fill("#clause-0-when", "it is a whole slip")
    expect(page.locator("#clause-0-note")).to_contain_text("The text says: when it is whole")
    page.get_by_role("button", name="Write the clause into the text").click()
    expect(page.locator("#text")).to_have_value(
        f"Slips. When it is a whole slip, use {NEW}. Else use {LINES}."
    )
    page.fill("#text", f"Slips. When it is the full slip, use {NEW}. Else use {LINES}.")
    expect(page.locator("#clause-0-note")).to_contain_text("the full slip")
    page.locator("#clause-0-when").press("Alt+Enter")
    expect(page.locator("#clause-0-when")).to_have_value("it is the full slip")
    expect(page.locator("#clause-0-note")).not_to_contain_text("out of step")


def test_finding_is_marked_in_the_text_and_at_its_row(open_page, look_alikes):
    page = open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    page.fill("#text", f"{TEXT} PayrollNova/GetStatement is another matter.")
    expect(page.locator(".marked-back mark")).to_have_text("PayrollNova/GetStatement")
    page.click("[data-add-row=tests]")
    page.keyboard.type("certified proof")
    page.fill("#test-0-tools", "PayrollNova/GetStatement")
    expect(page.locator("[data-row=test-0]")).to_have_class("form-row test has-error")
    expect(page.locator("#test-0-note")).to_contain_text("PayrollNova/GetStatement")


def test_two_columns_of_a_spreadsheet_become_tests(open_page, look_alikes):
    page = open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    page.click("[data-add-row=tests]")
    page.evaluate(
        """text => {
          const data = new DataTransfer();
          data.setData("text/plain", text);
          const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
          document.activeElement.dispatchEvent(event);
        }""",
        f"my pay in may\t{NEW}\nwhat is line 12\t{LINES}\nand line 13\n",
    )
    expect(page.locator("#tests [data-row]")).to_have_count(3)
    saved(page)
    tests = RuleChange.objects.get().content["tests"]
    assert [(test["query"], test["tools"]) for test in tests] == [
        ("my pay in may", [NEW]),
        ("what is line 12", [LINES]),
        ("and line 13", [NEW]),
    ]


def test_submitted_change_is_only_saved_on_purpose(open_page, look_alikes):
    page = open_page("expert")
    page.goto(f"/rules/new/?tools={look_alikes[0].pk},{look_alikes[1].pk}")
    page.fill("#text", TEXT)
    saved(page)
    address = page.url
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/rules/requests/*/")
    page.goto(address)
    page.fill("#text", TEXT + " More.")
    page.locator("#note").focus()
    settled(page)
    assert RuleChange.objects.get().content["text"] == TEXT
    page.get_by_role("button", name="Save", exact=True).last.click()
    expect(page.locator("#save-state")).to_contain_text("revision 2")
    assert RuleChange.objects.get().content["text"] == TEXT + " More."


def test_a_rule_without_everyday_words_asks_for_example_requests_and_writes_from_them(open_page, look_alikes):
    page = open_page("expert")
    count_rollups()
    page.goto("/")
    page.get_by_role("link", name="Draft a rule", exact=True).first.click()
    page.wait_for_selector("#text:focus")
    page.keyboard.type(f"Use {NEW} for cost centre owners that changed after a reorganisation.")
    page.click("text=Show pool and sample queries")
    expect(page.locator("#preview")).to_contain_text("Type two requests that a colleague would send.")
    page.click("text=Type two example requests")
    expect(page.locator("#clauses [data-row]")).to_have_count(1)  # of the tool that the text names
    page.keyboard.type("my pay since we merged")
    expect(page.locator("#clauses input[name$=signals]")).to_have_value("my pay since we merged")
    page.click("text=Show pool and sample queries")
    expect(page.locator("#preview .preview-query", has_text="since we merged").first).to_be_visible()
