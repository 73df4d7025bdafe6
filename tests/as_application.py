"""Tests that speak to the database as the application does: `from tests.as_application import as_application`.

The role may not empty tables, so such a module holds no test with `transaction=True`.
"""

import pytest
from django.conf import settings
from django.db import connection


@pytest.fixture(autouse=True, scope="module")
def as_application(django_db_setup, django_db_blocker):
    application = settings.DATABASE_APPLICATION
    owner = {key: connection.settings_dict[key] for key in ("USER", "PASSWORD")}
    if application["USER"] == owner["USER"]:
        pytest.skip("one role is configured for both: set DATABASE_OWNER_URL beside DATABASE_URL")
    with django_db_blocker.unblock():
        connection.close()
        connection.settings_dict.update({key: application[key] for key in owner})
        yield
        connection.close()
        connection.settings_dict.update(owner)
