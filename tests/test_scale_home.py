"""The made-up home of the bench, in small: every page it measures answers."""

import pytest
from django.contrib.auth.models import Group, User

from bench.scale_home import Home, made_tools
from bench.scale_pages import pages
from catalog.models import Tool
from rules.models import Rule

pytestmark = pytest.mark.django_db


def test_every_page_of_the_bench_answers_in_a_small_home(client):
    Home(tools=600, rules=40, samples=80).build(lambda line: None)
    assert (Tool.objects.count(), Rule.objects.count()) == (600, 40)
    admin = User.objects.get(username="admin")
    admin.groups.set(Group.objects.all())
    client.force_login(admin)
    answers = {title: client.get(address(0)).status_code for title, address in pages()}
    assert len(answers) > 60
    assert {title: status for title, status in answers.items() if status != 200} == {}


def test_made_up_tools_are_the_same_every_time_and_have_names_of_their_own():
    first, again = list(made_tools(3000)), list(made_tools(3000))
    assert first == again and len({tool.name for tool in first}) == 3000
