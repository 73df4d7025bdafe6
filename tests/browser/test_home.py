"""The start page in the browser: a gap is given to somebody where it stands, and without scripts on its own page."""

from catalog.models import Cluster
from tests.factories import count_rollups, make_cluster, make_tool


def test_a_gap_is_given_away_where_it_stands(open_page, site, user_with):
    user_with("expert", username="erin")
    cluster = make_cluster(make_tool(), make_tool(), label="refunds or payments")
    count_rollups()
    for width in (1280, 390):
        page = open_page("admin", width=width)
        page.goto(f"{site}/")
        gap = page.locator(f"#gap-{cluster.pk}")
        for word, field in (
            ("Dismiss", "Why the descriptions are enough"),
            ("Assign", "Who writes the rule"),
        ):
            opener = gap.locator("summary", has_text=word)
            opener.click()
            gap.get_by_label(field).wait_for()
            wide = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0, (width, word)
            opener.click()
        opener.click()
        gap.get_by_label("Who writes the rule").select_option("erin")
        gap.get_by_role("button", name="Save").click()
        page.get_by_text("refunds or payments is given to erin.").wait_for()
        assert page.url == f"{site}/"
        assert Cluster.objects.get(pk=cluster.pk).owner.username == "erin"
        Cluster.objects.update(owner=None)


def test_without_scripts_a_gap_is_given_away_on_its_page(open_page, site, user_with):
    user_with("expert", username="erin")
    cluster = make_cluster(make_tool(), make_tool(), label="refunds or payments")
    count_rollups()
    page = open_page("product_manager", scripts=False)
    page.goto(f"{site}/")
    gap = page.locator(f"#gap-{cluster.pk}")
    gap.get_by_text("Assign", exact=True).click()
    gap.get_by_role("link", name="On the cluster's page").click()
    page.locator("#owner summary").click()
    page.get_by_label("Who writes the rule").select_option("erin")
    page.get_by_role("button", name="Save").click()
    assert Cluster.objects.get(pk=cluster.pk).owner.username == "erin"
    assert page.url == f"{site}/clusters/{cluster.pk}/"
