"""Where an endpoint may be: hosts of the list only, and never the address where a cloud keeps its secrets."""

import asyncio
import shutil
import socket
import ssl
import subprocess

import pytest

from tests.lib.simulated import SCHEMA
from tests.llm_server import LlmServer
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import FATAL, Endpoint
from trace_site.lib.outbound import certificates


def refused(url, hosts=()):
    with pytest.raises(TraceError) as caught:
        Client(Endpoint(url, "m", "key", allowed_hosts=hosts))
    assert caught.value.code == "llm_host_refused"
    assert caught.value.code in FATAL
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://models.example.com/v1",
        "file:///etc/passwd",
        "models.example.com/v1",
        "http:///v1",
        "https://name:secret@models.example.com/v1",
        "https://models.example.com/v1?key=secret",
        "https://models.example.com:99999/v1",
        "https://[::1/v1",
        "http://169.254.169.254/latest",
        "http://[fe80::1]/v1",
        "http://[::ffff:169.254.169.254]/v1",
        "http://[64:ff9b::a9fe:a9fe]/v1",
        "http://[fd00:ec2::254]/v1",
        "http://100.100.100.200/v1",
        "http://0.0.0.0/v1",
        "http://224.0.0.1/v1",
    ],
)
def test_addresses_no_model_is_served_from_are_refused(url):
    assert "secret" not in refused(url).replace(url, "")


@pytest.mark.parametrize(
    ("url", "hosts", "fits"),
    [
        ("https://models.example.com/v1", ("models.example.com",), True),
        ("https://Models.Example.com/v1", (" models.example.com",), True),
        ("https://models.example.com:8443/v1", ("models.example.com:8443",), True),
        ("https://models.example.com:8443/v1", ("models.example.com",), True),
        ("https://models.example.com/v1", ("models.example.com:8443",), False),
        ("https://evil.example.com/v1", ("models.example.com",), False),
        ("https://models.example.com.evil.com/v1", ("models.example.com",), False),
        ("http://10.0.0.7:8000/v1", ("10.0.0.7",), True),
    ],
)
def test_only_listed_hosts_are_allowed(url, hosts, fits):
    if fits:
        Client(Endpoint(url, "m", "key", allowed_hosts=hosts))
    else:
        assert "LLM_ALLOWED_HOSTS" in refused(url, hosts)


def ask(url):
    async def main():
        client = Client(Endpoint(url, "m", "key", retries=0))
        try:
            return await client.ask([{"role": "user", "content": "q"}], schema=SCHEMA, purpose="t")
        finally:
            await client.close()

    return asyncio.run(main())


@pytest.mark.parametrize("answer", ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"])
def test_a_name_that_leads_to_a_forbidden_address_is_not_connected_to(monkeypatch, answer):
    looked_up = []

    def look_up(host, port, *args, **options):
        looked_up.append(host)
        family = socket.AF_INET6 if ":" in answer else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (answer, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("connected"))
    with pytest.raises(TraceError) as caught:
        ask("http://models.example.com/v1")
    assert caught.value.code == "llm_host_refused"
    assert "models.example.com" in looked_up


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    """A name server that answers differently the second time is not asked a second time."""
    server = LlmServer()
    real, answers = socket.getaddrinfo, ["127.0.0.1", "169.254.169.254", "169.254.169.254"]

    def look_up(host, *args, **options):
        return real(answers.pop(0) if host == "models.example.com" else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        assert ask(server.url.replace("127.0.0.1", "models.example.com")).data == {"ok": True}
    finally:
        server.close()
    assert len(answers) == 2


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl to make a certificate")
def test_over_https_the_certificate_must_name_the_host(monkeypatch, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    server = LlmServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    certificates.cache_clear()
    url = server.url.replace("http:", "https:")
    try:
        assert ask(url.replace("127.0.0.1", "localhost")).data == {"ok": True}
        with pytest.raises(TraceError) as caught:
            ask(url)
        assert caught.value.code == "llm_unreachable"
    finally:
        server.close()
        certificates.cache_clear()
