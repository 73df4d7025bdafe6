"""The API of models: lists, lineage, and moving the champion."""

import pytest
from rest_framework.test import APIClient

from tests.factories import crown, make_gate_report, make_model, make_tool
from training.registry import registry
from training.registry.registry import current_aliases

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(user_with):
    client = APIClient()
    client.force_authenticate(user_with("admin"))
    return client


def test_models_are_listed_newest_first_and_one_shows_its_lineage(admin):
    models = [make_model(lineage={"code": "abc"}) for _ in range(3)]
    rows = admin.get("/api/v1/training/models", {"limit": 2}).json()
    assert [row["id"] for row in rows["results"]] == [models[2].pk, models[1].pk] and rows["next"]
    found = admin.get(f"/api/v1/training/models/{models[0].pk}").json()
    assert found["lineage"] == {"code": "abc"} and found["cell"] == "(a, none, r+R)"


def test_promoting_and_going_back_move_the_aliases(admin):
    first, second = make_model(), make_model()
    crown(model=first, actor=None)
    make_gate_report(second, first)
    move = admin.post(
        f"/api/v1/training/models/{second.pk}/promote", {"note": "better"}, format="json"
    ).json()
    assert (move["alias"], move["model"], move["by"]) == ("champion", second.pk, "admin")
    admin.post(f"/api/v1/training/models/{first.pk}/rollback", {}, format="json")
    assert current_aliases() == {"champion": first, "previous": second}
    rows = {row["alias"]: row["model"] for row in admin.get("/api/v1/training/aliases").json()}
    assert rows == {"champion": first.pk, "previous": second.pk}


def test_going_back_to_a_model_that_never_was_champion_is_a_conflict(admin):
    crown(model=make_model(), actor=None)
    crown(model=make_model(), actor=None)
    answer = admin.post(f"/api/v1/training/models/{make_model().pk}/rollback", {}, format="json")
    assert answer.status_code == 409 and answer.json()["code"] == "bad_state"


def test_a_model_names_the_active_tools_that_came_after_it(admin, monkeypatch):
    model = make_model()
    address = f"/api/v1/training/models/{model.pk}"
    assert admin.get(address).json()["newer_tools"] is None  # its files are gone
    monkeypatch.setattr(registry, "facts_of", lambda _: registry.Facts(frozenset({"Pay/Get"})))
    for name, status in (("Pay/Get", "active"), ("Pay/New", "active"), ("Pay/Old", "retired")):
        make_tool(name, status=status)
    assert admin.get(address).json()["newer_tools"] == {"count": 1, "names": ["Pay/New"]}
