"""Comments: plain, kept for ever, and kept from who must still judge for themselves."""

import pytest
from django.db import DatabaseError, connection, transaction

from synthesis.models import SampleComment, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review.selectors import is_blind
from synthesis.team.selectors import names_in, visible_to, with_mentions
from synthesis.team.services import LONGEST, assign, comment_add
from tests.factories import make_sample
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(user_with):
    roles = {"ada": "reviewer", "bob": "reviewer", "cyd": "reviewer", "erin": "expert", "alma": "admin"}
    return {name: user_with(role, username=name) for name, role in roles.items()}


def seen(person, sample) -> set[str]:
    return set(visible_to(person).filter(sample=sample).values_list("text", flat=True))


def test_while_a_sample_is_to_be_read_one_sees_only_ones_own_comments(people):
    SecondShare.objects.create(share=1.0)
    sample = make_sample()
    comment_add(sample=sample, author=people["erin"], text="the rule is unclear")
    comment_add(sample=sample, author=people["ada"], text="I would refuse it")
    assert seen(people["ada"], sample) == {"I would refuse it"} and is_blind(people["ada"], sample)
    assert seen(people["bob"], sample) == set() == seen(people["alma"], sample)
    assert seen(people["erin"], sample) == {"the rule is unclear"}  # who reads no queue might pass it on
    assert is_blind(people["erin"], sample)

    review_services.reject(sample=sample, reviewer=people["ada"], reason="wrong_tool")
    assert len(seen(people["ada"], sample)) == 2  # decided
    assert seen(people["bob"], sample) == set()  # the second reading is still open to them
    review_queue.claim_next(people["bob"])
    assert seen(people["bob"], sample) == set() == seen(people["cyd"], sample)  # cyd: should bob give it back

    review_services.approve(sample=sample, reviewer=people["bob"])
    assert all(len(seen(people[name], sample)) == 2 for name in people)  # to adjudicate is to see all
    assert not is_blind(people["cyd"], sample)


def test_an_undone_reading_is_blind_again(people):
    sample = make_sample()
    comment_add(sample=sample, author=people["bob"], text="mine")
    review_services.approve(sample=sample, reviewer=people["ada"])
    assert seen(people["ada"], sample) == {"mine"}
    review_services.undo(reviewer=people["ada"])
    assert seen(people["ada"], sample) == set()


def test_what_is_given_to_somebody_else_may_come_to_anybody(people):
    sample = make_sample()
    assign(assignee=people["bob"], actor=people["alma"], filters={})
    comment_add(sample=sample, author=people["erin"], text="x")
    assert is_blind(people["ada"], sample) and seen(people["ada"], sample) == set()


def test_who_decided_and_who_is_named_is_told_that_somebody_wrote_and_never_what(people):
    sample = make_sample()
    review_services.approve(sample=sample, reviewer=people["ada"])
    comment_add(sample=sample, author=people["erin"], text="@bob, I would have refused: @nobody @erin @bob.")
    notices = {notice.recipient.username: notice for notice in Notice.objects.all()}
    assert set(notices) == {"ada", "bob"}
    assert notices["bob"].text == f"erin mentioned you in a comment on sample {sample.pk}."
    assert notices["ada"].text == f"erin wrote a comment on sample {sample.pk}, which you decided."
    assert notices["ada"].link == f"/synthesis/samples/{sample.pk}/#comments"
    comment_add(sample=sample, author=people["erin"], text="and more")
    assert Notice.objects.filter(recipient=people["ada"]).count() == 1


def test_one_is_not_told_of_ones_own_comment(people):
    sample = make_sample()
    review_services.approve(sample=sample, reviewer=people["ada"])
    comment_add(sample=sample, author=people["ada"], text="note to myself @ada")
    assert not Notice.objects.exists()


@pytest.mark.parametrize("text", ["", "  \n ", "x" * (LONGEST + 1)])
def test_empty_and_endless_comments_are_refused(people, text):
    with pytest.raises(TraceError) as error:
        comment_add(sample=make_sample(), author=people["ada"], text=text)
    assert error.value.code == "bad_input" and not SampleComment.objects.exists()


def test_a_comment_needs_a_role(user_with):
    with pytest.raises(TraceError) as error:
        comment_add(sample=make_sample(), author=user_with(username="guest"), text="x")
    assert error.value.code == "not_allowed"


def test_a_comment_stays_as_it_is(people):
    row = comment_add(sample=make_sample(), author=people["ada"], text="x")
    for statement in ("UPDATE synthesis_samplecomment SET text = 'y'", "DELETE FROM synthesis_samplecomment"):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    assert AuditEntry.objects.filter(action="sample.commented", object_id=str(row.pk)).count() == 1
    assert AuditChange.objects.filter(table_name="synthesis_samplecomment").count() == 1


def test_mentions_are_marked_where_the_account_exists(people, user_with, django_assert_num_queries):
    user_with(username="a.b")
    text = "@ada and (@bob), mail me@cyd @a.b. @ghost @ada!"
    rows = [comment_add(sample=make_sample(), author=people["erin"], text=text) for _ in range(3)]
    assert {"ada", "bob", "a.b"} <= names_in(text)
    with django_assert_num_queries(1):
        found = with_mentions(rows)
    parts = found[0]["parts"]
    assert [part["text"] for part in parts if part["mention"]] == ["@ada", "@bob", "@a.b", "@ada"]
    assert "".join(part["text"] for part in parts) == text
