"""Roles exist wherever the database was migrated, and only admins may apply what nobody approved."""

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from trace_site.access import ROLES
from trace_site.accounts import ensure_roles

pytestmark = pytest.mark.django_db


def test_migrating_makes_the_roles_and_doing_it_again_changes_nothing():
    assert set(ROLES) <= set(Group.objects.values_list("name", flat=True))
    Group.objects.filter(name="expert").delete()
    call_command("migrate", verbosity=0)
    ensure_roles()
    assert Group.objects.filter(name__in=ROLES).count() == len(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_only_the_admin_role_may_bypass_review(user_with, role):
    user = User.objects.get(pk=user_with(role).pk)
    assert user.has_perm("rules.bypass_review") == (role == "admin")
