"""The migration that gives old tools what imports and clusterings keep from now on."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from catalog.models import CatalogWord, Tool
from tests.factories import make_cluster, make_tool

fill = import_module("catalog.migrations.0006_fill_families")
pytestmark = pytest.mark.django_db


def test_old_tools_get_family_version_and_words():
    make_tool("PayoutV68/GetSlip", description="Prints it.")
    make_tool("Office365/x")
    fill.fill(apps, None)
    found = Tool.objects.order_by("name").values_list("family", "api_version")
    assert list(found) == [("Office365", None), ("Payout", 68)]
    assert (
        CatalogWord.objects.filter(word__in=["slip", "prints"], trigrams__contains=["rin"]).get().word
        == "prints"
    )


def test_old_tools_get_the_cluster_of_the_newest_clustering_only():
    one, two, three = make_tool("A/One"), make_tool("A/Two"), make_tool("A/Three")
    make_cluster(one, two)
    newest = make_cluster(two, three)
    Tool.objects.update(cluster=None)
    with connection.cursor() as cursor:
        cursor.execute(fill.CLUSTERS)
    assert dict(Tool.objects.values_list("name", "cluster")) == {
        "A/One": None,
        "A/Two": newest.pk,
        "A/Three": newest.pk,
    }
