"""Wrong passwords run out, for a name from an address and for an address; sign-ins stand in the audit."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.conf import settings as configured
from django.test import Client, RequestFactory
from redis.exceptions import ConnectionError as RedisAway

from trace_site.audit.models import AuditEntry
from trace_site.people.sessions import forget_old
from trace_site.rest import throttles
from trace_site.rest.throttles import address_of, client_of, seconds_to_wait

pytestmark = pytest.mark.django_db
HERE, ELSEWHERE = "203.0.113.7", "198.51.100.9"


@pytest.fixture(autouse=True)
def counting(settings):
    settings.AXES_ENABLED = True


@pytest.fixture
def ada(user_with):
    return user_with("admin", username="ada")


def sign_in(name: str, password: str, address: str = HERE, **more: str):
    return Client(REMOTE_ADDR=address, **more).post("/login/", {"username": name, "password": password})


def told(action: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=action).order_by("id"))


def test_the_right_password_after_forty_wrong_ones_is_refused_here_and_taken_elsewhere(ada):
    answers = [sign_in("ada", f"wrong {number}") for number in range(40)]
    assert [answer.status_code for answer in answers] == [200] * 9 + [429] * 31
    refused = sign_in("ada", "pass")
    assert refused.status_code == 429 and refused["Retry-After"] == "900"
    assert "Too many wrong passwords" in refused.content.decode()
    assert sign_in("ada", "pass", ELSEWHERE).status_code == 302


def test_the_lock_ends_after_a_quarter_of_an_hour_however_often_one_tried_meanwhile(ada):
    for number in range(12):
        sign_in("ada", f"wrong {number}")
    AccessAttempt.objects.update(
        attempt_time=AccessAttempt.objects.get().attempt_time - timedelta(minutes=16)
    )
    assert sign_in("ada", "pass").status_code == 302


def test_another_browser_gives_no_more_guesses(ada):
    for number in range(10):
        sign_in("ada", "wrong", HTTP_USER_AGENT=f"browser {number}")
    assert sign_in("ada", "pass", HTTP_USER_AGENT="another").status_code == 429


def test_names_tried_from_one_address_run_out_together(ada):
    codes = [sign_in(f"person {number}", "Summer2026").status_code for number in range(70)]
    assert codes == [200] * 60 + [429] * 10
    assert sign_in("ada", "pass").status_code == 429
    assert sign_in("ada", "pass", ELSEWHERE).status_code == 302


def test_guesses_of_others_keep_nobody_out_who_came_from_there_before(ada, user_with):
    user_with("expert", username="erin")
    assert sign_in("ada", "pass").status_code == 302
    for number in range(61):
        sign_in(f"person {number}", "Summer2026")
    assert sign_in("erin", "pass").status_code == 429  # nobody has seen her here
    assert sign_in("ada", "pass").status_code == 302
    answers = [sign_in("ada", f"wrong {number}").status_code for number in range(11)]
    assert answers == [200] * 9 + [429] * 2 and sign_in("ada", "pass").status_code == 429


def test_signing_in_forgets_only_the_failures_of_that_name(ada):
    for _ in range(9):
        sign_in("ada", "wrong")
        sign_in("eve", "wrong")
    assert sign_in("ada", "pass").status_code == 302
    assert [attempt.username for attempt in AccessAttempt.objects.all()] == ["eve"]


def test_a_flood_writes_as_many_audit_lines_as_it_has_guesses(ada):
    for number in range(40):
        sign_in("ada", f"wrong {number}")
    for number in range(80):
        sign_in(f"person {number}", "wrong")
    assert len(told("login.failed")) == configured.SIGN_IN_FAILURES
    assert len(told("login.locked")) == 1


def test_the_audit_says_who_signed_in_from_where_and_never_what_was_typed(ada):
    sign_in("ada", "a password of mine")
    sign_in("a password typed in the wrong field", "x")
    client = Client(REMOTE_ADDR=HERE, HTTP_USER_AGENT="Firefox")
    client.post("/login/", {"username": "ada", "password": "pass"})
    client.post("/logout/")
    (came,), (left,), (wrong, unknown) = told("login.ok"), told("logout"), told("login.failed")
    assert came.actor == left.actor == ada and came.detail == {"address": HERE, "agent": "Firefox"}
    assert (wrong.actor, wrong.object_id, wrong.object_label) == (None, str(ada.pk), "ada")
    assert (unknown.object_id, unknown.object_label) == ("", "a name that nobody has")
    stored = " ".join(f"{entry.object_label} {entry.detail}" for entry in AuditEntry.objects.all())
    assert "password" not in stored


def test_what_was_typed_is_kept_no_longer_than_it_counts(ada):
    for name in ("a password typed in the wrong field", "eve"):
        sign_in(name, "x")
    old = AccessAttempt.objects.exclude(username="eve")
    old.update(attempt_time=AccessAttempt.objects.first().attempt_time - timedelta(minutes=16))
    assert "trace_site.people.sessions.forget_old" in configured.SWEEPERS and forget_old() == 1
    assert [attempt.username for attempt in AccessAttempt.objects.all()] == ["eve"]


def test_a_name_longer_than_any_is_a_wrong_name(ada):
    assert sign_in("x" * 5000, "wrong").status_code == 200


def test_guesses_are_counted_while_the_cache_is_away(ada, monkeypatch):
    class Away:
        def count(self, *_args: object) -> None:
            raise RedisAway("gone")

    monkeypatch.setattr(throttles, "cache", Away())
    assert seconds_to_wait("api", "x", most=0, seconds=60) == 0
    codes = {sign_in("ada", f"wrong {number}").status_code for number in range(12)}
    assert codes == {200, 429}


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (0, "192.0.2.1", HERE),  # anybody may send the header
        (1, "192.0.2.1", "192.0.2.1"),
        (1, "10.9.9.9, 192.0.2.1", "192.0.2.1"),  # the first is what the visitor made up
        (2, "192.0.2.1, 10.0.0.1", "192.0.2.1"),
        (1, "", HERE),
        (1, "no address", ""),
    ],
)
def test_the_address_is_what_our_own_proxies_saw(settings, proxies, forwarded, expected):
    settings.PROXIES = proxies
    request = RequestFactory().get("/", REMOTE_ADDR=HERE, HTTP_X_FORWARDED_FOR=forwarded)
    assert address_of(request) == expected


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::"),
        ("::ffff:203.0.113.7", HERE),
        (HERE, HERE),
        ("", None),
    ],
)
def test_a_network_of_ipv6_counts_as_one_and_a_mapped_address_as_itself(address, counted):
    assert client_of(RequestFactory().get("/", REMOTE_ADDR=address)) == counted
