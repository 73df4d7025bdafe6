"""Notices: told once, in the transaction of what happened; read, mailed, retried a few times, forgotten."""

import time
from datetime import timedelta
from email.header import decode_header, make_header

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from tests.mail_server import MailServer
from trace_site import deliveries, worker
from trace_site.deliveries import BACKOFF, Delivery, deliver_due
from trace_site.lib.errors import TraceError
from trace_site.notices import services as notices_services
from trace_site.notices.services import (
    KINDS,
    Notice,
    NoticeChoice,
    choose,
    mark_read,
    tell,
    unread,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(settings):
    running = MailServer()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", running.port
    settings.SITE_URL, settings.DEFAULT_FROM_EMAIL = "https://trace.example.com", "trace@example.com"
    yield running
    running.close()


@pytest.fixture
def rita(user_with) -> User:
    return wants_mail(user_with("reviewer", username="rita"))


def wants_mail(user: User) -> User:
    User.objects.filter(pk=user.pk).update(email=f"{user.username}@example.com")
    choose(person=user, kinds=KINDS)
    return user


def due_now() -> None:
    Delivery.objects.update(next_at=timezone.now() - timedelta(seconds=1))


def states() -> list[str]:
    return list(Delivery.objects.order_by("pk").values_list("state", flat=True))


def assigned(*people: User, text: str = "40 samples were given to you.", key: str = "") -> None:
    tell(people, "assignment", text, link="/synthesis/review/", key=key)


def test_what_is_rolled_back_is_never_told(rita):
    with pytest.raises(RuntimeError), transaction.atomic():
        assigned(rita)
        raise RuntimeError
    assert not Notice.objects.exists()


def test_a_key_makes_many_news_one_notice_until_it_is_read(rita, user_with):
    bert = user_with("reviewer", username="bert")
    for count in range(1, 51):
        tell([rita, bert], "adjudication", f"{count} samples wait.", link="/x/", key="adjudication")
    assert list(unread(rita).values_list("text", flat=True)) == ["50 samples wait."]
    mark_read(unread(rita))
    tell([rita, bert], "adjudication", "51 samples wait.", link="/x/", key="adjudication")
    assert Notice.objects.filter(recipient=rita).count() == 2
    assert Notice.objects.filter(recipient=bert).count() == 1


def test_telling_many_costs_the_same(rita, user_with, settings, django_assert_num_queries):
    settings.EMAIL_HOST = "mail.example.com"
    people = [user_with(username=f"p{number}") for number in range(30)]
    with django_assert_num_queries(4):  # savepoint and its end, who wants mail, insert
        assigned(*people)
    with django_assert_num_queries(5):  # and the update of those that were unread
        assigned(*people, key="k")


def test_a_site_without_a_mail_server_plans_no_mail(rita, settings):
    settings.EMAIL_HOST = ""
    assigned(rita)
    assert not Delivery.objects.exists() and deliver_due() == 0


def test_only_who_chose_the_kind_and_has_an_address_is_mailed(server, rita, user_with):
    bert = user_with("reviewer", username="bert")
    nobody = user_with("reviewer", username="nobody")
    choose(person=bert, kinds=["comment"])
    choose(person=rita, kinds=["comment"])
    assigned(rita, bert, nobody)
    tell(
        [rita, bert, nobody],
        "comment",
        "bert wrote a comment on sample 3.",
        link="/synthesis/samples/3/#comments",
    )
    due_now()
    assert deliver_due() == 2
    assert [message["To"] for message in server.received] == ["rita@example.com"]
    assert "no e-mail address" in Delivery.objects.get(notice__recipient=bert).last_error


def test_several_notices_are_one_plain_mail_with_absolute_links(server, rita):
    assigned(rita, text="12 samples were given to you: größer <<x>>.")
    tell([rita], "comment", "bert wrote a comment.", link="/synthesis/samples/3/#comments")
    due_now()
    assert deliver_due() == 2
    (message,) = server.received
    body = message.get_payload(decode=True).decode()
    assert message.get_content_type() == "text/plain" and message["From"] == "trace@example.com"
    assert str(make_header(decode_header(message["Subject"]))) == "[TRACE Rule Studio] 2 notices"
    assert "https://trace.example.com/synthesis/samples/3/#comments" in body and "größer <<x>>" in body
    assert (
        body.index("bert wrote") < body.index("12 samples") and "https://trace.example.com/account/" in body
    )
    assert states() == ["delivered", "delivered"]
    due_now()
    assert deliver_due() == 0 and len(server.received) == 1


def test_a_mail_waits_a_minute_for_more_to_say(server, rita):
    assigned(rita)
    assert deliver_due() == 0 and server.connections == 0


def test_what_was_read_meanwhile_is_not_mailed(server, rita):
    assigned(rita)
    due_now()
    mark_read(unread(rita))
    assert deliver_due() == 0 and server.connections == 0


def test_a_notice_told_anew_is_mailed_once(server, rita):
    for text in ("1 waits.", "2 wait."):
        assigned(rita, text=text, key="k")
        due_now()
        deliver_due()
    assert len(server.received) == 1


@pytest.mark.parametrize("fault", ["refuse", "cut"])
def test_a_server_that_refuses_is_asked_a_few_times_less_and_less_often(server, rita, fault):
    assigned(rita)
    server.faults = [fault] * 99
    pauses = []
    for _ in BACKOFF:
        due_now()
        deliver_due()
        pauses.append(round((Delivery.objects.get().next_at - timezone.now()).total_seconds(), -1))
    assert pauses == [pause.total_seconds() for pause in BACKOFF] and states() == ["pending"]
    for _ in range(3):
        due_now()
        deliver_due()
    assert server.connections == len(BACKOFF) + 1 and states() == ["failed"]
    assert "mail server" in Delivery.objects.get().last_error and Notice.objects.get().read_at is None


def test_a_server_that_came_back_gets_what_waited(server, rita):
    assigned(rita)
    server.faults = ["refuse"]
    for state in ("pending", "delivered"):
        due_now()
        assert deliver_due() == 1 and states() == [state]


def test_an_address_that_is_refused_keeps_no_other_waiting(server, rita, user_with):
    bert = wants_mail(user_with("reviewer", username="bert"))
    server.unknown = {"rita@example.com"}
    assigned(rita, bert)
    due_now()
    assert deliver_due() == 2
    assert [message["To"] for message in server.received] == ["bert@example.com"]
    assert "no such mailbox" in Delivery.objects.get(notice__recipient=rita).last_error


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_server_that_never_answers_costs_a_sweep_its_deadline_and_then_nothing(
    server, rita, user_with, settings, monkeypatch, fault
):
    monkeypatch.setattr(deliveries, "SECONDS", 0.4)
    server.faults = [fault] * 99
    bert = wants_mail(user_with("reviewer", username="bert"))
    assigned(rita, bert)
    due_now()
    began = time.monotonic()
    assert deliver_due() == 2 and states() == ["pending", "pending"]
    due_now()
    assert deliver_due() == 0  # the threads are still there: nothing is claimed
    assert time.monotonic() - began < 30 and server.connections <= 2
    assert set(Delivery.objects.values_list("attempt", flat=True)) == {1}
    server.ended.set()
    for thread in list(deliveries.left):
        thread.join(10)
    server.faults = []
    assert deliver_due() == 2 and states() == ["delivered", "delivered"]


def test_no_server_at_all_is_a_failure_like_others(rita, settings):
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.SITE_URL = "127.0.0.1", 9, "https://x.example"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    assigned(rita)
    due_now()
    assert deliver_due() == 1 and "not reached" in Delivery.objects.get().last_error


def test_a_sender_that_dies_leaves_its_notices_due(server, rita, monkeypatch):
    assigned(rita)
    due_now()
    monkeypatch.setattr(deliveries, "_attempt", lambda claimed: (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):
        deliver_due()
    monkeypatch.undo()
    assert deliver_due() == 0  # leased
    due_now()
    assert deliver_due() == 1


def test_the_sweep_mails_and_forgets(server, rita, settings):
    assigned(rita)
    assigned(rita, text="old")
    long_ago = timezone.now() - notices_services.KEPT - timedelta(days=1)
    Notice.objects.filter(text="old").update(read_at=long_ago)
    Notice.objects.exclude(text="old").update(at=long_ago)
    due_now()
    settings.SWEEPERS = [name for name in settings.SWEEPERS if "deliver" in name]
    worker.run_sweepers()
    assert len(server.received) == 1 and Notice.objects.get().text != "old"


def test_an_unknown_kind_is_refused(rita):
    with pytest.raises(TraceError, match="no kind 'news'"):
        choose(person=rita, kinds=["news"])
    for channel in ("pigeon", "webhook"):
        with pytest.raises(TraceError, match=f"no channel '{channel}'"):
            choose(person=rita, kinds=[], channel=channel)
    assert set(NoticeChoice.objects.get().kinds) == set(KINDS)


def test_the_bell_counts_what_is_unread(client_as, django_assert_num_queries):
    client = client_as("reviewer")
    user = User.objects.get()
    assigned(user)
    assigned(user)
    with django_assert_num_queries(4):  # session, user, roles, the count
        assert client.get("/notices/unread/").content == b"2"
    assert 'data-unread="/notices/unread/"' in client.get("/account/").content.decode()


def test_opening_a_notice_reads_it_and_goes_there(client_as):
    client = client_as("reviewer")
    assigned(User.objects.get())
    notice = Notice.objects.get()
    assert "40 samples were given to you." in client.get("/notices/").content.decode()
    answer = client.get(f"/notices/{notice.pk}/")
    assert answer["Location"] == "/synthesis/review/" and not unread(notice.recipient).exists()
    assert "Nothing new" in client.get("/notices/").content.decode()
    assert "40 samples" in client.get("/notices/?show=all").content.decode()


def test_one_is_marked_or_all_and_never_somebody_elses(client_as, rita):
    client = client_as("admin")
    admin = User.objects.get(username="admin")
    assigned(admin, admin, rita)
    assigned(admin)
    theirs = Notice.objects.get(recipient=rita)
    assert client.get(f"/notices/{theirs.pk}/").status_code == 404
    client.post("/notices/read/", {"notice": theirs.pk})
    assert unread(rita).count() == 1 and unread(admin).count() == 2
    client.post("/notices/read/", {"notice": unread(admin).first().pk})
    assert unread(admin).count() == 1
    page = client.post("/notices/read/", follow=True).content.decode()
    assert "1 notice marked as read" in page and unread(rita).count() == 1


def test_the_list_pages_and_costs_the_same(client_as, django_assert_num_queries):
    client = client_as("admin")
    admin = User.objects.get()
    for number in range(60):
        assigned(admin, text=f"notice {number} <b>")
    with django_assert_num_queries(6):  # session, user, roles, strip, notices, deliveries
        page = client.get("/notices/").content.decode()
    assert "notice 59 &lt;b&gt;" in page and "notice 9 " not in page
    after = Notice.objects.get(text="notice 10 <b>").pk
    assert "notice 9 " in client.get(f"/notices/?after={after}").content.decode()


def test_the_account_page_says_when_there_is_no_mail_and_offers_the_kinds_when_there_is(client_as, settings):
    client = client_as("reviewer")
    settings.EMAIL_HOST = ""
    assert "no mail server" in client.get("/account/").content.decode()
    settings.EMAIL_HOST = "mail.example.com"
    assert "no e-mail address" in client.get("/account/").content.decode()
    User.objects.update(email="r@example.com")
    client.post("/notices/mail/", {"kinds": ["comment"]})
    page = client.get("/account/").content.decode()
    assert 'value="comment" checked' in page and 'value="assignment" checked' not in page
    assert client.post("/notices/mail/", {"kinds": ["x"]}).status_code == 400
