"""Every way to break change control is refused with the right status and words, and nothing is written."""

import pytest

from rules.changes import services as changes_services
from rules.models import ChangeRequest, RuleChange
from tests.rules.ways import ways
from trace_site.lib.errors import TraceError, status_of

pytestmark = pytest.mark.django_db


WAYS = [
    pytest.param(way, id=way.name, marks=[pytest.mark.long] if number % 2 else [])
    for number, way in enumerate(ways())
]


@pytest.mark.parametrize("way", WAYS)
def test_service_and_page_refuse(world, way, client, settings):
    settings.CHANGE_APPROVALS = way.approvals
    request = world.after(way.start)
    before = world.written()
    with pytest.raises(TraceError) as caught:
        way.serve(request, world[way.who])
    assert (caught.value.code, status_of(caught.value.code)) == (way.code, way.status)
    assert way.words in str(caught.value)
    client.force_login(world[way.who])
    response = client.post(f"/rules/requests/{request.pk}/{way.verb}/", way.posted(request))
    assert response.status_code == way.status
    assert way.words in response.content.decode().replace("&#x27;", "'")
    assert world.written() == before


def post(client, world, who, path, **data):
    client.force_login(world[who])
    return client.post(path, data)


@pytest.mark.parametrize("revision", ["", "two", "-1", "1.5", "99999999999999999999", "\N{SUPERSCRIPT TWO}"])
def test_tampered_revision_is_no_revision(world, client, revision):
    request = world.review()
    before = world.written()
    response = post(client, world, "rui", f"/rules/requests/{request.pk}/approve/", revision=revision)
    assert response.status_code == 409 and "which revision you saw" in response.content.decode()
    assert world.written() == before


@pytest.mark.parametrize("verb", ["approve", "submit", "apply", "reject", "bypass", "remove", "comment"])
def test_verb_asked_for_by_a_link_does_nothing(world, client, verb):
    request = world.review()
    before = world.written()
    client.force_login(world["rui"])
    response = client.get(f"/rules/requests/{request.pk}/{verb}/")
    assert response.status_code == 405 and response["Allow"] == "POST"
    assert "Nothing was done" in response.content.decode()
    assert world.written() == before


@pytest.mark.parametrize(
    "path",
    [
        "/rules/requests/999999/approve/",
        "/rules/requests/1{0}/explode/",
        "/rules/requests/99999999999999999999/cancel/",
    ],
)
def test_unknown_request_or_verb_is_not_found(world, client, path):
    client.force_login(world["rui"])
    assert client.post(path.format(0), {"revision": 1}).status_code == 404


def test_change_of_another_request_is_not_removed_through_this_one(world, client):
    mine, theirs = world.draft(), world.new_rule()
    other = theirs.changes.get()
    for given in (str(other.pk), "", "x", "0"):
        response = post(
            client, world, "erin", f"/rules/requests/{mine.pk}/remove/", change=given, revision=other.revision
        )
        assert response.status_code == 404
    assert RuleChange.objects.count() == 2


def test_deactivated_person_is_signed_out_and_refused(world, client):
    request = world.review()
    client.force_login(world["rui"])
    world.deactivated(request, "rui")
    before = world.written()
    url = f"/rules/requests/{request.pk}/approve/"
    response = client.post(url, {"revision": request.revision})
    assert response.status_code == 401 and "nothing was saved" in response.content.decode()
    with pytest.raises(TraceError, match="Only the role"):
        changes_services.request_approve(request=request, actor=world["rui"], revision=request.revision)
    assert world.written() == before


def test_nul_in_a_comment_is_refused(world, client):
    request = world.review()
    before = world.written()
    response = post(
        client,
        world,
        "rui",
        f"/rules/requests/{request.pk}/approve/",
        revision=request.revision,
        comment="a\0b",
    )
    assert response.status_code == 400 and "NUL" in response.content.decode()
    assert world.written() == before


@pytest.mark.parametrize("at", ["", "tomorrow", "2099-13-01T00:00"])
def test_time_that_is_none_schedules_nothing(world, client, at):
    request = world.approved()
    response = post(
        client, world, "rui", f"/rules/requests/{request.pk}/schedule/", revision=request.revision, at=at
    )
    assert response.status_code == 400 and "not a date and time" in response.content.decode()
    assert ChangeRequest.objects.get(pk=request.pk).state == "approved"


@pytest.mark.parametrize("path", ["versions/7/propose/", "versions/0/propose/"])
def test_rolling_back_to_an_unknown_version_is_not_found(world, client, path):
    assert post(client, world, "erin", f"/rules/{world.rule.pk}/{path}").status_code == 404
    assert not ChangeRequest.objects.exists()


def test_publishing_what_is_published_is_refused(world, client):
    response = post(client, world, "erin", f"/rules/{world.rule.pk}/versions/1/propose/")
    assert response.status_code == 409 and "v1 is published" in response.content.decode()
    assert not ChangeRequest.objects.exists()


def test_withdrawing_what_is_not_published_is_refused(world, client):
    world.withdrawn(world.draft())
    response = post(client, world, "erin", f"/rules/{world.rule.pk}/withdraw/")
    assert response.status_code == 409 and "is not published" in response.content.decode()
    assert ChangeRequest.objects.count() == 1


@pytest.mark.parametrize("who", ["rita", "pam", "nobody"])
@pytest.mark.parametrize("path", ["withdraw/", "versions/1/propose/"])
def test_readers_propose_nothing_from_the_rule_page(world, client, who, path):
    response = post(client, world, who, f"/rules/{world.rule.pk}/{path}")
    assert response.status_code == 403 and "domain expert or admin" in response.content.decode()
    assert not ChangeRequest.objects.exists()


@pytest.mark.parametrize("path", ["withdraw/", "versions/1/propose/"])
def test_proposals_are_posted(world, client, path):
    client.force_login(world["erin"])
    assert client.get(f"/rules/{world.rule.pk}/{path}").status_code == 405
