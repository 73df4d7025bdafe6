"""Fixtures every test may use."""

from pathlib import Path

import pytest
from django.conf import settings as trace_settings
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.management.commands import flush
from django.db import OperationalError, connection
from django.db.backends.postgresql.operations import DatabaseOperations
from hypothesis import HealthCheck, settings

from catalog.imports.services import catalog_import
from tests.hook_server import HookServer
from trace_site.database import become_owner
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_jsonl
from trace_site.management.commands.migrate import refuse_old_home

# how long an example takes says something of the machine, nothing of the property
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

trace_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
trace_settings.STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
trace_settings.WHITENOISE_AUTOREFRESH = True  # each new client would look through all static files, at 50 ms
trace_settings.AXES_ENABLED = False  # no line in the audit for each client that is signed in

truncating_sql_flush = DatabaseOperations.sql_flush  # what manage.py flush does
# what migrations make; made anew after each flush it would take longer than the tests that need it
SAME_ALWAYS = ("django_content_type", "auth_permission", "auth_group", "auth_group_permissions")


def sql_flush_of_small_tables(self, style, tables, **options):
    """After a test that commits: TRUNCATE would make new files for every table, and frozen ones' triggers refuse it.

    As a replica no trigger fires: those of foreign keys and of frozen tables.
    """
    emptied = [f"DELETE FROM {self.quote_name(table)}" for table in tables if table not in SAME_ALWAYS]
    return ["SET LOCAL session_replication_role = replica", *emptied] if emptied else []


DatabaseOperations.sql_flush = sql_flush_of_small_tables
flush.emit_post_migrate_signal = lambda *args, **options: None


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix, django_db_blocker):
    """Tests make and empty their database as its owner; see tests/as_application.py for those that must not."""
    become_owner()
    under_way = Path(trace_settings.TRACE_HOME) / "tests-under-way"
    with django_db_blocker.unblock():
        _drop_old_database(unfinished=under_way.exists())
    under_way.touch()
    yield
    under_way.unlink()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """What the audit says of the migrations is gone for the first tests too, as it is after the first flush."""
    if connection.settings_dict["NAME"].startswith("test_"):  # else no test asks for a database
        with django_db_blocker.unblock():
            call_command("flush", interactive=False, verbosity=0)


def _drop_old_database(unfinished: bool) -> None:
    """The one kept from an earlier run of the tests (--reuse-db): of an earlier version, or not emptied at the end."""
    name, kept = connection.settings_dict["NAME"], connection.creation._get_test_db_name()
    connection.close()
    connection.settings_dict["NAME"] = kept
    try:
        refuse_old_home()
        old = unfinished
    except OperationalError:  # there is none
        old = False
    except TraceError:
        old = True
    finally:
        connection.close()
    if old:
        with connection.creation._nodb_cursor() as cursor:
            connection.close()
            cursor.execute(f"DROP DATABASE {connection.ops.quote_name(kept)} WITH (FORCE)")
    connection.close()
    connection.settings_dict["NAME"] = name


def pytest_collection_modifyitems(items):
    """Browser tests first and together: one browser serves them all, and while it draws the others compute."""
    items.sort(key=lambda item: "browser" not in item.keywords)


@pytest.fixture(autouse=True)
def counts_of_its_own(settings, request):
    cache = {"BACKEND": "tests.counting_memory.CountingMemory", "LOCATION": request.node.nodeid}
    settings.CACHES = {"default": cache}


@pytest.fixture
def user_with(db):
    """user_with("reviewer") -> a user who holds exactly that role."""

    def make(*roles: str, username: str = "") -> User:
        user = User.objects.create_user(username or "-".join(roles) or "nobody", password="pass")
        user.groups.set(Group.objects.get_or_create(name=role)[0] for role in roles)
        return user

    return make


@pytest.fixture
def client_as(client, user_with):
    """client_as("admin") -> a logged-in test client."""

    def login(*roles: str):
        client.force_login(user_with(*roles))
        return client

    return login


@pytest.fixture
def load(db, tmp_path):
    """load(row, ...) imports tools from JSON lines, into `hr` unless said otherwise."""

    def run(*rows, **options):
        write_jsonl(tmp_path / "tools.jsonl", rows)
        return catalog_import(path=tmp_path / "tools.jsonl", **{"domain": "hr", **options})

    return run


@pytest.fixture
def receiver(settings):
    """Where webhooks are sent to."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    server = HookServer()
    yield server
    server.close()


@pytest.fixture
def trace_home(settings, tmp_path):
    """Files of its own; and no lease ends, as a heartbeat's own connection does not see a test's transaction."""
    settings.TRACE_HOME = tmp_path
    settings.STORE_URL = (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable():
    """Half a character, which a log may hold where a test sent one, cannot go from process to process."""
    data = yield
    return _sendable(data)


def _sendable(value):
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _sendable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_sendable, value))
    return value
