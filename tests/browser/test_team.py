"""Around the review queue, in a browser: comments, saved views, guidelines, assignments and the bell."""

import re

import pytest
from django.contrib.auth.models import User

from synthesis.models import Guideline, SampleComment, SavedView
from synthesis.review import services as review_services
from tests.browser.reviewing import SETTLED_MS, widths
from tests.factories import make_rule, make_sample, make_tool
from trace_site.notices.services import tell

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(3)] + [make_sample()]


@widths
def test_filters_are_saved_under_a_name_and_come_back(open_page, samples, width):
    page = open_page("reviewer", width=width)
    page.goto("/synthesis/samples/")
    page.select_option("#id_branch", "rule")
    page.wait_for_url("**branch=rule**")
    page.click("#saved-views summary")
    page.fill("#saved-view-name", "Rules only")
    page.click("#saved-views .saved-new button")
    page.wait_for_selector("#saved-views:has-text('branch rule')", state="attached")
    assert SavedView.objects.get().query == "branch=rule"
    page.goto("/synthesis/samples/")
    page.click("#saved-views summary")
    box = page.locator("#saved-views > .card").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    page.click("#saved-views a:has-text('Rules only')")
    page.wait_for_url("**?branch=rule")
    assert "3 samples" in page.inner_text("h1")


def test_a_comment_written_beside_the_sample_decides_nothing(open_page, samples):
    page = open_page("reviewer")
    page.goto("/synthesis/review/")
    page.wait_for_timeout(SETTLED_MS)
    page.keyboard.press("c")
    page.fill(".comments textarea", "are rejects right here? see @expert")
    page.click(".comments button")
    page.wait_for_selector(".comment:has-text('are rejects right')")
    assert SampleComment.objects.count() == 1
    assert not samples[0].decisions.exists() and page.input_value(".comments textarea") == ""


def test_the_guideline_opens_beside_the_sample(open_page, samples):
    admin = open_page("admin")
    admin.goto("/synthesis/guidelines/edit/?domain=hr&style=explicit")
    admin.fill("#guideline-text", "Look at the year first.")
    admin.click("text=Add an example")
    admin.fill("#example-0-query", "my slip of 2022")
    admin.fill("#example-0-answer", "Old/GetSlip")
    admin.click("text=Save version 1")
    admin.wait_for_selector("text=Saved as version 1.")
    assert Guideline.objects.get().examples[0]["answer"] == ["Old/GetSlip"]
    page = open_page("reviewer")
    page.goto("/synthesis/review/")
    page.wait_for_timeout(SETTLED_MS)
    page.keyboard.press("g")
    page.wait_for_selector(".guideline-pane:has-text('Look at the year first.')")


def test_items_are_given_and_taken_back(open_page, samples):
    open_page("reviewer")
    page = open_page("admin", width=390)
    page.goto("/synthesis/team/")
    page.select_option("#id_branch", "rule")
    page.select_option("#id_assignee", label=User.objects.get(groups__name="reviewer").username)
    page.fill("#id_count", "2")
    page.wait_for_selector("#assignable:has-text('2 of the 3 that are free')")
    page.click("text=Give them")
    page.click("text=Take back 2")
    page.wait_for_selector("text=2 taken back")


def test_the_bell_counts_and_leads_to_what_happened(open_page, samples):
    page = open_page("reviewer")
    user = User.objects.get(groups__name="reviewer")
    review_services.approve(sample=samples[0], reviewer=user)
    tell([user], "comment", "erin wrote a comment.", link=f"/synthesis/samples/{samples[0].pk}/#comments")
    page.goto("/account/")
    page.wait_for_selector(".bell-count:has-text('1')")
    assert page.get_attribute(".bell", "aria-label") == "Notices: 1 unread"
    page.click(".bell")
    page.click("text=erin wrote a comment.")
    page.wait_for_url(re.compile(rf"/synthesis/samples/{samples[0].pk}/#comments$"))
    page.wait_for_selector(".comments textarea")
    page.wait_for_selector(".bell-count", state="hidden")
