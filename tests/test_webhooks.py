"""Webhooks: what is told, how it is signed, and what happens when the other side does not listen."""

import hashlib
import hmac
import json
import multiprocessing
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from trace_site import deliveries as outgoing
from trace_site import worker
from trace_site.audit.models import AuditEntry
from trace_site.database import delete_in_parts
from trace_site.deliveries import BACKOFF, Delivery, Sent, deliver_due, deliver_now
from trace_site.lib.errors import TraceError
from trace_site.lib.outbound import is_public
from trace_site.notices.services import tell
from trace_site.webhooks import services as webhooks
from trace_site.webhooks.services import (
    EVENTS,
    PAUSE_AFTER,
    Webhook,
    check_url,
    emit,
    emit_all,
    ping,
    post,
    webhook_create,
    webhook_pause,
    webhook_rotate,
)


@pytest.fixture
def hook(receiver, user_with):
    return webhook_create(url=receiver.url, events=["rule.published"], actor=user_with("admin"))


def due_now() -> None:
    Delivery.objects.update(next_at=timezone.now() - timedelta(seconds=1))


def test_a_receiver_can_verify_who_sent_what(hook, receiver):
    emit("rule.published", {"code": "A_B", "text": "größer <<x>>"})
    assert deliver_due() == 1
    got = receiver.received[0]
    assert got["path"] == "/hook?a=b" and got["Host"] == f"127.0.0.1:{receiver.port}"
    stamp, mac = (part.split("=", 1)[1] for part in got["X-Trace-Signature"].split(","))
    signed = stamp.encode() + b"." + got["body"]
    assert hmac.new(hook.secret.encode(), signed, hashlib.sha256).hexdigest() == mac
    assert abs(time.time() - int(stamp)) < 120
    told = json.loads(got["body"])
    assert told["data"] == {"code": "A_B", "text": "größer <<x>>"} and told["event"] == "rule.published"
    row = Delivery.objects.get()
    assert got["X-Trace-Delivery"] == told["delivery"] == str(row.delivery_id)
    assert row.state == "delivered" and row.status == 200 and row.log[0]["excerpt"] == "received"
    assert deliver_due() == 0


def test_only_what_was_asked_for_and_committed_is_told(hook, django_assert_num_queries):
    with django_assert_num_queries(1):
        emit("catalog.imported", {})
    with django_assert_num_queries(2):
        emit_all("rule.published", [{"n": n} for n in range(100)])
    assert Delivery.objects.count() == 100
    with pytest.raises(RuntimeError), transaction.atomic():
        emit("rule.published", {})
        raise RuntimeError
    assert Delivery.objects.count() == 100


def test_a_receiver_that_fails_is_asked_again_less_and_less_often(hook, receiver):
    receiver.faults = ["500"] * 6
    emit("rule.published", {})
    waits = []
    for _ in range(5):
        assert deliver_due() == 1 and deliver_due() == 0
        row = Delivery.objects.get()
        assert row.state == "pending" and "answered 500" in row.log[-1]["error"]
        waits.append(row.next_at - timezone.now())
        due_now()
    assert [round(wait.total_seconds(), -1) for wait in waits] == [step.total_seconds() for step in BACKOFF]
    assert deliver_due() == 1
    row.refresh_from_db()
    assert row.state == "failed" and len(row.log) == 6
    assert len({got["X-Trace-Delivery"] for got in receiver.received}) == 1
    assert len({got["body"] for got in receiver.received}) == 1
    due_now()
    assert deliver_due() == 0
    again = deliver_now(row)
    assert again.state == "delivered" and again.delivery_id == row.delivery_id


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("302", "redirects are not followed"),
        ("slow", "did not answer in 0.5 s"),
        ("slow-head", "did not answer in 0.5 s"),
        ("hang", "did not answer in 0.5 s"),
        ("reset", "cannot be reached"),
    ],
)
def test_faults_of_the_receiver_end_in_time_and_are_told(hook, receiver, monkeypatch, fault, words):
    if "0.5 s" in words:  # the others answer at once, which a busy machine may take longer for
        monkeypatch.setattr(webhooks, "SECONDS", 0.5)
    receiver.faults = [fault]
    emit("rule.published", {})
    began = time.monotonic()
    assert deliver_due() == 1
    assert time.monotonic() - began < webhooks.SECONDS + 5
    row = Delivery.objects.get()
    assert row.state == "pending" and words in row.log[0]["error"]
    assert [got["path"] for got in receiver.received] == ["/hook?a=b"]


def test_an_endless_answer_is_read_up_to_a_cap(hook, receiver):
    receiver.faults = ["flood"]
    emit("rule.published", {})
    deliver_due()
    assert len(Delivery.objects.get().log[0]["excerpt"]) == 1000


def test_a_webhook_that_always_fails_is_paused_with_a_sentence(hook, receiver):
    receiver.faults = ["500"] * PAUSE_AFTER
    emit_all("rule.published", [{"n": n} for n in range(PAUSE_AFTER)])
    for row in Delivery.objects.all():
        deliver_now(row)
    hook.refresh_from_db()
    assert not hook.active and "20 attempts in a row failed" in hook.paused_because
    assert AuditEntry.objects.filter(action="webhook.paused", actor=None).count() == 1
    due_now()
    assert deliver_due() == 0
    webhook_pause(webhook=hook, actor=hook.created_by, active=True)
    assert deliver_due() == PAUSE_AFTER


def test_another_channel_is_one_function_and_people_may_choose_it(settings, client_as, monkeypatch):
    settings.CHANNELS = {
        **settings.CHANNELS,
        "chat": ("trace_site.webhooks.services.chat", "chat", "SITE_URL"),
    }
    settings.SITE_URL, heard = "https://trace.example.com", []
    hear = lambda rows, at: heard.append([row.notice.text for row in rows]) or Sent()  # noqa: E731
    monkeypatch.setattr(webhooks, "chat", hear, raising=False)
    client = client_as("reviewer")
    client.post("/notices/mail/", {"channel": "chat", "kinds": ["comment"]})
    assert "Notices by chat" in client.get("/account/").content.decode()
    rita = User.objects.get()
    for text in ("first", "second"):
        tell([rita], "comment", text, link="/x/")
    due_now()
    assert deliver_due() == 2 and heard == [["first", "second"]]
    assert client.get("/notices/").content.decode().count("by chat too") == 2
    monkeypatch.delattr(webhooks, "chat")
    tell([rita], "comment", "third", link="/x/")
    due_now()
    assert deliver_due() == 1 and "its log says why" in Delivery.objects.latest("pk").last_error


def test_one_success_forgets_the_failures(hook, receiver):
    receiver.faults = ["500", "ok"]
    for _ in range(2):
        ping(webhook=hook, actor=hook.created_by)
    hook.refresh_from_db()
    assert hook.failures == 0
    assert [row.state for row in Delivery.objects.order_by("id")] == ["failed", "delivered"]


def _die_when_received(url_port: int) -> None:
    connection.close()
    deliver_due()


@pytest.mark.django_db(transaction=True)
def test_a_sender_killed_before_it_could_note_the_answer_sends_the_same_delivery_again(hook, receiver):
    emit("rule.published", {"n": 1})
    connection.close()
    sender = multiprocessing.get_context("fork").Process(target=_die_when_received, args=(receiver.port,))
    receiver.on_received = lambda: os.kill(sender.pid, signal.SIGKILL)
    sender.start()
    sender.join(20)
    assert sender.exitcode == -signal.SIGKILL
    row = Delivery.objects.get()
    assert row.state == "pending" and row.log == [] and deliver_due() == 0
    receiver.on_received = lambda: None
    due_now()
    assert deliver_due() == 1
    row.refresh_from_db()
    assert row.state == "delivered"
    first, second = receiver.received
    assert first["X-Trace-Delivery"] == second["X-Trace-Delivery"] and first["body"] == second["body"]


def test_a_sweep_sends_many_at_once_and_each_once(hook, receiver):
    emit_all("rule.published", [{"n": n} for n in range(30)])
    assert deliver_due() == 30
    assert len({got["X-Trace-Delivery"] for got in receiver.received}) == 30
    assert not Delivery.objects.exclude(state="delivered").exists()


def test_the_secret_is_nowhere_in_the_database_and_can_be_replaced(hook, receiver):
    old = hook.secret
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(w::text, '') FROM trace_site_webhook w")
        assert old.removeprefix("whsec_") not in cursor.fetchone()[0]
    assert Webhook.objects.get().secret == old
    assert webhook_rotate(webhook=hook, actor=hook.created_by).secret != old


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com/", "must begin with https://"),
        ("ftp://example.com/", "must begin with https://"),
        ("https:///path", "no web address"),
        ("https://user:pw@example.com/", "password"),
        ("https://127.0.0.1/", "private network"),
        ("https://[::1]/", "private network"),
        ("https://[::ffff:10.0.0.1]/", "private network"),
        ("https://169.254.169.254/latest/meta-data", "private network"),
        ("https://example.com:99999/", "no web address"),
        ("https://exa mple.com/", "no web address"),
        ("https://example.com/\n", "no web address"),
        ("https://example.com/" + "x" * 481, "longer than 500"),
    ],
)
def test_addresses_one_may_not_post_to_are_refused_when_typed(user_with, url, words):
    with pytest.raises(TraceError, match=words):
        webhook_create(url=url, events=["rule.published"], actor=user_with("admin"))


@pytest.mark.parametrize("events", [[], ["rule.publish"]])
def test_a_webhook_asks_for_known_events(user_with, events):
    with pytest.raises(TraceError) as refused:
        webhook_create(url="https://example.com/", events=events, actor=user_with("admin"))
    assert refused.value.code == "bad_input" and all(event in refused.value.hint for event in EVENTS)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::", "localhost",
    ],
)  # fmt: skip
def test_private_addresses_are_known_in_every_dress(address):
    assert not is_public(address)


def test_public_addresses_are_public():
    assert is_public("93.184.216.34") and is_public("2606:2800:220:1:248:1893:25c8:1946")


def test_a_name_that_leads_inside_is_refused_and_looked_up_only_once(settings, monkeypatch):
    settings.WEBHOOK_ALLOW_PRIVATE = False
    asked = []

    def answers(host, port, **kwargs):
        asked.append(host)
        address = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
        rows = [address, "127.0.0.1"] if host == "mixed.example" else [address]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (row, port)) for row in rows]

    connected = []

    async def connect(self, host, port, timeout=None, **kwargs):
        connected.append(host)
        raise OSError("not in a test")

    monkeypatch.setattr(socket, "getaddrinfo", answers)
    monkeypatch.setattr("httpcore2.AnyIOBackend.connect_tcp", connect)
    for host in ("mixed.example", "inside.example"):
        with pytest.raises(TraceError, match="private network"):
            post(f"https://{host}/", b"", {})
    assert connected == []
    asked.clear()
    with pytest.raises(TraceError, match="cannot be reached"):
        post("https://rebinding.example/", b"", {})
    assert asked == ["rebinding.example"] and connected == ["93.184.216.34"]


def test_odd_spellings_of_this_machine_do_not_pass(receiver, settings):
    assert check_url(f"http://localhost:{receiver.port}/").port == receiver.port
    settings.WEBHOOK_ALLOW_PRIVATE = False
    for host in ("localhost", "0x7f.1", "2130706433", "127.1"):
        with pytest.raises(TraceError, match="private network|not found"):
            post(f"https://{host}:{receiver.port}/", b"", {})
    assert receiver.received == []


def test_a_sweeper_that_fails_stops_none_of_the_others(settings, monkeypatch, db):
    ran = []
    worker.first = lambda: 1 / 0
    worker.second = lambda: ran.append(1)
    settings.SWEEPERS = ["trace_site.worker.first", "no.such.path", "trace_site.worker.second"]
    worker.rows = lambda: "rows"
    settings.EXPIRED = ["trace_site.worker.first", "trace_site.worker.rows"]
    monkeypatch.setattr(worker, "delete_in_parts", ran.append)
    worker.run_sweepers()
    assert ran == [1, "rows"]


def test_deliveries_that_ended_long_ago_are_forgotten(hook, receiver):
    emit_all("rule.published", [{}, {}])
    deliver_now(Delivery.objects.first())
    Delivery.objects.update(created_at=timezone.now() - timedelta(days=31))
    assert delete_in_parts(outgoing.expired()) == 1 and Delivery.objects.get().state == "pending"


def test_what_the_pipeline_does_is_told(receiver, user_with, tmp_path):
    from synthesis.review.services import approve, policy_approve, reject
    from tests.factories import crown, make_model, make_sample

    admin = user_with("admin")
    webhook_create(url=receiver.url, events=["sample.approved", "model.promoted"], actor=admin)
    first, second, third = (make_sample(machine="ready", human="pending") for _ in range(3))
    approve(sample=first, reviewer=admin)
    reject(sample=second, reviewer=admin, reason="other", note="no")
    policy_approve(count=None, actor=admin)
    model = make_model()
    crown(model=model, actor=admin)
    crown(model=model, actor=admin)
    told = list(Delivery.objects.order_by("id").values_list("event", "payload"))
    assert told[0] == ("sample.approved", {"count": 1, "sample": first.pk, "by": "admin"})
    assert told[1][1]["count"] == 1 and told[1][1]["by"].startswith("policy auto-approve all")
    assert told[2:] == [("model.promoted", {"alias": "champion", "model": model.pk, "previous": None})]


def test_a_certificate_that_nobody_vouches_for_is_refused(receiver, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    made = "req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 -keyout key.pem -out cert.pem"
    subprocess.run(["openssl", *made.split()], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    receiver.listen_with(context)
    with pytest.raises(TraceError, match="(?i)certificate"):
        post(f"https://localhost:{receiver.port}/", b"{}", {})
    assert receiver.received == []


def test_letters_beyond_ascii_in_an_address_arrive(receiver):
    status, _ = post(f"http://127.0.0.1:{receiver.port}/größe?q=ä b%20c".replace(" ", ""), b"", {})
    assert status == 200 and receiver.received[0]["path"] == "/gr%C3%B6%C3%9Fe?q=%C3%A4b%20c"
