"""The fragment that says what a new version makes stale."""

import pytest

from synthesis.models import Sample, SynthesisRun
from tests.factories import make_rule, make_tool

pytestmark = pytest.mark.django_db


def make_sample(rule, number, **fields):
    run = SynthesisRun.objects.get_or_create(branch="rule", writer="offline")[0]
    return Sample.objects.create(
        run=run,
        key=f"impact-{number}",
        branch="rule",
        domain=rule.domain,
        rule_version=rule.published,
        seed=number,
        writer="offline",
        **fields,
    )


def test_impact_counts_ready_samples_of_the_published_version(client_as):
    rule, other = make_rule(make_tool(), make_tool()), make_rule(make_tool(), make_tool())
    make_sample(rule, 1, machine="ready", human="approved")
    make_sample(rule, 2, machine="ready")
    make_sample(rule, 3, machine="dropped")
    make_sample(other, 4, machine="ready")
    page = client_as("expert").get(f"/synthesis/samples/impact/{rule.pk}/")
    assert (page.context["found"].samples, page.context["found"].approved) == (2, 1)
    assert "2 samples</a> stale (1 approved)" in page.content.decode()


def test_draft_rule_makes_nothing_stale(client_as):
    rule = make_rule(make_tool(), make_tool(), published=False)
    page = client_as("expert").get(f"/synthesis/samples/impact/{rule.pk}/").content.decode()
    assert "No sample depends" in page


def test_counts_are_of_approved_samples_and_find_their_row(client_as):
    rule = make_rule(make_tool(), make_tool())
    make_sample(rule, 1, machine="ready", human="approved")
    make_sample(rule, 2, machine="ready")
    page = client_as("expert").get(f"/synthesis/samples/counts/?rules={rule.pk}").content.decode()
    assert f'id="samples-of-{rule.pk}" hx-swap-oob="true"' in page and page.count("<b>1</b>") == 1
    assert f"/synthesis/samples/?rule={rule.code}&amp;human=approved" in page
