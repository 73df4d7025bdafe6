"""What production is started with: the settings that .env.example documents, and the services of docker-compose.yml."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.db import connection

from catalog.core.importers.read import MAX_BYTES as LARGEST_UPLOAD
from trace_site.artefacts import engine_store
from trace_site.database import grant_rights
from trace_site.dev.supervisor import children
from trace_site.lib.errors import TraceError
from trace_site.limits import most_bytes

ROOT = Path(__file__).resolve().parent.parent
PASSWORDS = {"SECRET_KEY", "POSTGRES_PASSWORD", "POSTGRES_OWNER_PASSWORD", "REDIS_PASSWORD", "ENGINE_TOKEN"}


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def check(role, **more):
    """`manage.py check --deploy` with the settings of production, on the test database as `role`."""
    here = connection.settings_dict
    place = f"{here['HOST']}:{here['PORT']}/{here['NAME']}"
    environment = {
        **{name: value for name, value in os.environ.items() if name != "DJANGO_ALLOW_ASYNC_UNSAFE"},
        "DATABASE_URL": f"postgresql://{role['USER']}:{role['PASSWORD']}@{place}",
        "SECRET_KEY": "a-secret-of-fifty-characters-and-more-for-production-only-0123456789",
        "HTTPS": "1",
        "PROXIES": "1",
        "ALLOWED_HOSTS": "trace.example.com,127.0.0.1",
        **more,
    }
    command = [sys.executable, ROOT / "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_check_deploy_has_nothing_to_say_of_production(db):
    result = check(settings.DATABASE_APPLICATION)
    assert result.returncode == 0, result.stderr


def test_check_deploy_tells_of_the_owner_of_the_proxys_address_and_of_subdomains_without_https(db):
    result = check(settings.DATABASE_OWNER, HSTS_SUBDOMAINS="0", PROXIES="0")
    told = set(re.findall(r"\(([\w.]+)\)", result.stderr))
    assert told >= {"trace.W001", "trace.W003", "security.W005", "security.W021"}
    assert result.returncode == 1


def test_check_deploy_says_so_when_no_database_answers(db):
    result = check({"USER": "nobody", "PASSWORD": "wrong"})
    assert result.returncode == 1 and "trace.W002" in result.stderr


def test_an_owner_who_may_make_no_role_is_told_what_to_do(db, monkeypatch):
    monkeypatch.setitem(settings.DATABASE_APPLICATION, "USER", "missing_role")
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE poor_owner")
        cursor.execute("SET LOCAL ROLE poor_owner")
    with pytest.raises(TraceError, match='CREATE ROLE "missing_role" LOGIN') as refused:
        grant_rights()
    assert refused.value.code == "bad_setting" and "poor_owner" in str(refused.value)


def test_only_the_proxy_is_reached_from_outside(compose):
    assert [name for name, service in compose.items() if "ports" in service] == ["proxy"]
    assert compose["web"]["expose"] == ["8000"]
    assert "HTTPS:-1" in compose["web"]["environment"]["HTTPS"]


def test_only_migrate_knows_the_owner_of_the_database(compose):
    knows = {name for name, service in compose.items() if "POSTGRES_OWNER_PASSWORD:?" in json.dumps(service)}
    assert knows == {"migrate"}
    for name, service in compose.items():
        given = service.get("environment", {})
        if service.get("env_file"):
            assert given["POSTGRES_OWNER_PASSWORD"] == "", name
        if name not in {"migrate", "postgres"}:
            assert "trace:" not in given.get("DATABASE_URL", "") and "DATABASE_OWNER_URL" not in given
    for name in ("web", "worker", "beat", "gpu-worker"):
        assert compose[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_the_engine_is_told_a_token_and_where_models_lie_and_nothing_else(compose):
    engine, site = compose["engine"], compose["web"]["environment"]
    store = {"STORE_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    told = {"ENGINE_TOKEN", "ENGINE_HOSTS", "ML_THREADS", "TRACE_BACKEND_URL", "TRACE_BACKEND_KEY"}
    assert set(engine["environment"]) == told | store and not engine["env_file"]
    assert all(engine["environment"][name] == site[name] for name in store)
    assert f"--store {site['STORE_URL']} --cache /cache" in engine["command"]
    assert engine["volumes"] == ["data:/data:ro", "engine:/cache"]
    assert "ENGINE_TOKEN:?" in compose["web"]["environment"]["ENGINE_TOKEN"]


@pytest.mark.ml
def test_vllm_names_its_model_as_the_engine_asks_for_it(compose, tmp_path):
    from evaluation.ml.manifest import digest
    from evaluation.ml.remote import name_of

    (command,) = compose["vllm"]["command"]
    (name,) = re.findall(r"\$\$\((.+?)\)", command)
    (tmp_path / "manifest.json").write_text('{"files": {}}')
    told = name.replace("/models/${VLLM_MODEL:-champion}", str(tmp_path))
    done = subprocess.run(["sh", "-c", f"echo trace-$({told})"], capture_output=True, text=True)
    assert done.stdout.strip() == name_of(digest(tmp_path))


def test_every_setting_that_has_no_default_in_compose_is_explained(compose):
    asked = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yml").read_text()))
    assert asked == PASSWORDS
    head = (ROOT / "docker-compose.yml").read_text().split("x-app:")[0]
    assert all(name in head for name in PASSWORDS)


def test_the_proxy_lets_through_what_the_site_takes_and_ends_headers_that_do_not(compose):
    text = (ROOT / "deploy" / "Caddyfile").read_text()
    most = int(re.search(r"max_size (\d+)MB", text).group(1)) * 1_000_000
    assert most >= most_bytes("/catalog/imports/new/") >= LARGEST_UPLOAD
    assert "read_header 10s" in text and "reverse_proxy web:8000" in text
    assert "./deploy/Caddyfile:/etc/caddy/Caddyfile:ro" in compose["proxy"]["volumes"]


def test_up_gives_the_engine_a_token_of_its_own_and_the_store_of_the_site():
    [engine] = [child for child in children(8000, 8001, 8100, "a-token") if child.name == "engine"]
    assert engine.secrets == {"ENGINE_TOKEN": "a-token"} and "a-token" not in engine.command
    assert engine.command[-4:] == engine_store()
    assert "a-token" not in repr(engine)
