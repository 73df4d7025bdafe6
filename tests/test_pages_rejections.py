"""Pages about rejected samples: beside the rule and its text, on the yield page, and the button to write them again."""

import re

import pytest

from synthesis.generate import regeneration
from synthesis.generate.regeneration import calls_to_write_again
from synthesis.models import Regeneration, Sample, SynthesisRun
from synthesis.review import services as review_services
from tests.synthesis.test_rejections import a_rule, person, reject, sample_of

pytestmark = pytest.mark.django_db


def test_the_rule_page_says_why_in_the_readers_words_escaped(client_as):
    rule = a_rule()
    sample = reject(rule, "rule_unclear", "<script>about 'year'</script>")
    client = client_as("expert")
    assert (
        f'hx-get="/synthesis/samples/rejections/{rule.pk}/"'
        in client.get(f"/rules/{rule.pk}/").content.decode()
    )
    page = client.get(f"/synthesis/samples/rejections/{rule.pk}/").content.decode()
    assert "<b>1 of 1 rejected</b>" in page and "Rule text ambiguous" in page
    assert "<span>&lt;script&gt;about &#x27;year&#x27;&lt;/script&gt;</span>" in page
    assert f'href="/synthesis/samples/{sample.pk}/"' in page
    assert "rule=PAY&amp;domain=hr&amp;human=rejected" in page


def test_a_reason_leads_to_the_samples_rejected_for_it(client_as):
    rule = a_rule()
    unclear = [reject(rule, "rule_unclear").pk for _ in range(2)]
    reject(rule, "leak")
    client = client_as("expert")
    page = client.get(f"/synthesis/samples/rejections/{rule.pk}/").content.decode()
    link = re.search(r'<a href="([^"]*reason=rule_unclear)">Rule text ambiguous</a>', page)[1].replace(
        "&amp;", "&"
    )
    assert "&version=1&" in link
    found = client.get(link)
    assert sorted(row.pk for row in found.context["page"].rows) == unclear
    assert found.context["found"].total == 2 and "rejected: rule text ambiguous" in found.content.decode()
    assert client.get(link.replace("version=1", "version=2")).context["page"].rows == []
    without = client.get(link.replace("rule=PAY&", "")).context  # of a rule alone
    assert len(without["page"].rows) == 3 and "reason" not in without["active"]
    assert client.get(link.replace("rule_unclear", "nonsense")).status_code == 200


def test_a_reason_taken_back_and_given_anew_counts_as_the_newest(client_as):
    rule = a_rule()
    sample = reject(rule, "leak", by="rita")
    review_services.undo(reviewer=person("rita"))
    review_services.reject(
        sample=sample.pk, reviewer=person("rita"), reason="unclear", note="", follow_up="drop"
    )
    client = client_as("expert")
    for reason, many in (("leak", 0), ("unclear", 1)):
        found = client.get(f"/synthesis/samples/?rule=PAY&reason={reason}")
        assert len(found.context["page"].rows) == many


def test_the_editor_shows_them_beside_the_text_of_the_published_version(client_as):
    rule = a_rule()
    reject(rule, "wrong_tool")
    client = client_as("expert")
    address = f"/synthesis/samples/rejections/{rule.pk}/?beside=text"
    assert address in client.get(f"/rules/{rule.pk}/edit/", follow=True).content.decode()
    page = client.get(address).content.decode()
    assert "<b>1 of 1 rejected</b>" in page and "badge" not in page


def test_a_rule_nobody_read_says_so_and_what_comes(client_as):
    page = client_as("expert").get(f"/synthesis/samples/rejections/{a_rule().pk}/").content.decode()
    assert "Nobody has read a sample of this rule to the end yet" in page


def test_the_fragment_takes_the_same_queries_for_any_number_of_rejections(
    client_as, django_assert_num_queries
):
    rule = a_rule()
    client = client_as("expert")
    reject(rule)
    client.get(f"/synthesis/samples/rejections/{rule.pk}/")
    for note in "abc":
        reject(rule, "wrong_tool", note)
    with django_assert_num_queries(6):
        client.get(f"/synthesis/samples/rejections/{rule.pk}/")


def test_the_yield_page_tells_them_beside_the_rule(client_as):
    reject(a_rule(), "rule_unclear", "about year")
    page = client_as("expert").get("/synthesis/yield/").content.decode()
    assert "1 of 1 rejected: rule text ambiguous (1)</a>" in page


def waiting_sample(writer: str = "offline", reason: str = "unclear", rule=None) -> Sample:
    run = SynthesisRun.objects.create(branch="rule", writer=writer)
    sample = sample_of(rule or a_rule(), run=run, slot="rule:hr:PAY:explicit:0", made_from={"index": 0})
    return review_services.reject(
        sample=sample.pk, reviewer=person("rita"), reason=reason, follow_up="regenerate"
    )


def test_experts_and_admins_have_the_button_with_what_it_asks(client_as):
    waiting_sample("llm:model")
    page = client_as("admin").get("/synthesis/again/").content.decode()
    assert "Write the 1 rejected one again" in page and "About 4 model calls" in page
    assert "/synthesis/again/" in client_as_again(client_as).get("/synthesis/").content.decode()


def client_as_again(client_as):
    return client_as("reviewer")


def test_reviewers_see_what_waits_without_the_button(client_as):
    waiting_sample()
    page = client_as("reviewer").get("/synthesis/again/").content.decode()
    assert "<b>1</b> rejected sample waits" in page and "<button" not in page
    assert "No model call" in page


def test_nothing_waits_nothing_is_shown(client_as, django_assert_num_queries):
    client = client_as("admin")
    client.get("/synthesis/again/")
    with django_assert_num_queries(4):
        assert client.get("/synthesis/again/").content.decode().strip() == ""


def test_the_button_starts_a_run_and_shows_it(client_as):
    waiting_sample()
    client = client_as("admin")
    answer = client.post("/synthesis/again/start/")
    run = SynthesisRun.objects.latest("pk")
    assert answer["Location"] == f"/synthesis/{run.pk}/"
    page = client.get(f"/synthesis/{run.pk}/").content.decode()
    assert "1 rejected sample written again" in page
    assert "is under way" in client.get("/synthesis/again/").content.decode()
    assert client.post("/synthesis/again/start/")["Location"] == "/synthesis/"
    assert SynthesisRun.objects.latest("pk") == run


def test_a_stopped_run_is_named_with_what_to_do(client_as):
    waiting_sample()
    (run,) = regeneration.start(wake=False)
    run.job.state = "failed"
    run.job.save()
    page = client_as("admin").get("/synthesis/again/").content.decode()
    assert "1 of them stands in" in page and f"/synthesis/{run.pk}/" in page and "Resume it" in page


def test_a_sample_page_links_the_rejected_one_and_its_replacement(client_as):
    old = waiting_sample()
    client = client_as("reviewer")
    page = client.get(f"/synthesis/samples/{old.pk}/").content.decode()
    assert "To be written again" in page and "<q>Several tools fit.</q>" in page
    new = sample_of(
        old.rule_version.rule, made_from={"again": {"of": old.pk, "critique": "<i>", "refused": ["q"]}}
    )
    Regeneration.objects.update(state="written", replacement=new)
    page = client.get(f"/synthesis/samples/{old.pk}/").content.decode()
    assert f'Written again</b> as <a href="/synthesis/samples/{new.pk}/"' in page
    page = client.get(f"/synthesis/samples/{new.pk}/").content.decode()
    assert f'href="/synthesis/samples/{old.pk}/"' in page and "<q>&lt;i&gt;</q>" in page


def test_calls_are_counted_by_what_is_written():
    rule = a_rule()
    waiting_sample(rule=rule)
    assert calls_to_write_again().value == 0
    for reason in ("unclear", "bad_trace"):
        waiting_sample("llm:m", reason, rule)
    found = calls_to_write_again()
    assert found.value == round(1.25 * (3 + 2)) and found.basis.endswith("1 keep their query")
