"""Callers take turns, however much each of them has waiting."""

from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from trace_site.lib.turns import Turns


def all_of(turns):
    return [turns.take() for _ in range(len(turns))]


def test_who_asks_much_holds_up_nobody_else():
    turns = Turns()
    for number in range(384):
        turns.put("much", ("much", number))
    turns.put("once", ("once", 0))
    assert turns.take() == ("much", 0) and turns.take() == ("once", 0) and turns.take() == ("much", 1)


def test_nobody_takes_more_than_three_quarters_of_the_places_to_wait():
    turns = Turns()
    while turns.has_room("much", 100):
        turns.put("much", 0)
    assert len(turns) == 75 and turns.has_room("other", 100) and not turns.has_room("other", 75)


def test_what_does_not_fit_keeps_its_place_and_the_next_caller_goes_first():
    turns = Turns()
    for caller, one in (("a", "long"), ("b", "short"), ("a", "short")):
        turns.put(caller, one)
    assert turns.take(lambda one: one == "short") == "short" and len(turns) == 2
    assert turns.take(lambda one: one == "short") is None  # a's own order stays
    assert all_of(turns) == ["long", "short"] and turns.take() is None


def test_who_comes_while_another_thread_takes_waits_like_others():
    turns = Turns()
    turns.put("a", 0)
    turns.put("b", 0)
    comes = Thread(target=turns.put, args=("c", 1))

    def fits(one):
        if comes.ident is None:
            comes.start()
            comes.join(0.05)  # it may end meanwhile or wait until this one is taken
        return one == 1

    assert turns.take(fits) is None
    comes.join()
    assert turns.take(fits) == 1 and len(turns) == 2


@given(st.lists(st.sampled_from("abc")))
def test_nobody_is_lost_and_each_waits_for_one_of_every_other_caller_at_most(callers):
    turns = Turns()
    for number, caller in enumerate(callers):
        turns.put(caller, (caller, number))
    assert sorted(turns) == sorted((caller, number) for number, caller in enumerate(callers))
    taken = all_of(turns)
    for caller in set(callers):
        own = [number for one, number in taken if one == caller]
        assert own == sorted(own)
        places = [place for place, (one, _) in enumerate(taken) if one == caller]
        assert all(after - before <= 3 for before, after in zip(places, places[1:], strict=False))
