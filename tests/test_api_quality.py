"""GET /api/v1/review/quality: the same figures as the pages, and to whom."""

import pytest
from rest_framework.test import APIClient

from synthesis.models import SynthesisRun
from tests.factories import make_rule, make_tool
from tests.synthesis.readings import read, read_by_two
from tests.synthesis.test_calibration import refused
from tests.tokens import token_of

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/review/quality"


def api(user) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user)}")
    return client


@pytest.fixture
def people(user_with):
    """ada and bob have read one sample, bob and cyd another; the judge refused a third."""
    ada, bob, cyd = (user_with("reviewer", username=name) for name in ("ada", "bob", "cyd"))
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    run = SynthesisRun.objects.create(branch="rule", writer="offline")
    texts = {"rule": make_rule(*tools, code="SLIP_YEAR"), "tools": tools, "run": run}
    read_by_two()
    read(None, (ada, "approve"), (bob, "approve"), **texts)
    read(None, (bob, "edit"), (cyd, "edit"), **texts)
    refused(**texts)
    return ada, bob, cyd


def test_an_admin_gets_everybody_and_a_reviewer_the_totals_and_what_is_own(people, user_with):
    whole = api(user_with("admin")).get(ADDRESS).json()
    assert [row["name"] for row in whole["reviewers"]] == ["bob", "ada", "cyd"]
    assert len(whole["agreement"]["pairs"]) == 2
    own = api(people[0]).get(ADDRESS).json()
    assert [row["name"] for row in own["reviewers"]] == ["ada"]
    assert [(pair["one"], pair["other"]) for pair in own["agreement"]["pairs"]] == [("ada", "bob")]
    assert own["agreement"]["overall"] == whole["agreement"]["overall"]
    assert own["agreement"]["overall"]["n"] == 2


def test_the_judge_is_held_against_people_with_what_was_asked(people):
    client = api(people[0])
    (judge,) = client.get(ADDRESS).json()["judges"]
    (cell,) = judge["cells"]
    assert (cell["accepted"]["approved"], cell["accepted"]["edited"], cell["refused"]["samples"]) == (1, 1, 1)
    assert cell["false_accept"]["value"] == 0
    assert judge["kappa"]["value"] is None and "refused" in judge["kappa"]["why"]
    (strict,) = client.get(ADDRESS, {"edits": "reject", "target": 0.1, "floor": 0.5}).json()["judges"]
    assert strict["overall"]["false_accept"]["value"] == 0.5
    assert strict["overall"]["proposal"]["why"].startswith("1 - 0.100 / ")
    assert strict["overall"]["proposal"]["share"] >= 0.5


@pytest.mark.parametrize("given", [{"target": 0}, {"target": "nan"}, {"floor": 2}, {"edits": "x"}, {"of": 1}])
def test_what_cannot_be_asked_is_refused(people, given):
    answer = api(people[0]).get(ADDRESS, given)
    assert answer.status_code == 400 and answer.json()["code"] == "bad_input"


def test_others_are_refused_with_the_reason(user_with):
    answer = api(user_with("expert")).get(ADDRESS)
    assert answer.status_code == 403 and "reviewer or admin" in answer.json()["message"]
