"""Who shares a forward: a caller who asks much fills it alone, and has few places in it while others ask."""

from evaluation.ml.asked import AT_ONCE, LATEST, OF_ONE, Asked, Batch


class Taking(Batch):
    def step(self) -> None:
        for one in self.take(AT_ONCE):
            one.answer({})


def asked(caller: str) -> Asked:
    return Asked({}, "fast", 1, [], caller=caller)


def callers(batch: Taking) -> list[str]:
    batch.step()
    return [one.caller for one in batch.taken]


def full(batch: Taking, caller: str, count: int = 2 * AT_ONCE) -> None:
    for _ in range(count):
        batch.waiting.put(caller, asked(caller))


def test_a_caller_who_asks_alone_fills_a_forward():
    batch = Taking()
    full(batch, "much")
    assert callers(batch) == ["much"] * AT_ONCE


def test_while_others_ask_a_caller_has_few_places_and_the_others_wait_for_a_short_forward():
    batch = Taking()
    full(batch, "much", 4 * LATEST)
    batch.waiting.put("little", asked("little"))
    assert sorted(callers(batch)) == ["little", *["much"] * OF_ONE]
    for _ in range(LATEST // OF_ONE - 1):  # who asked a moment ago will ask again
        assert callers(batch) == ["much"] * OF_ONE
    while callers(batch) != ["much"] * AT_ONCE:
        assert batch.busy


def test_many_callers_fill_a_forward_together():
    batch = Taking()
    for number in range(2 * AT_ONCE):
        full(batch, str(number), 2)
    assert len(set(callers(batch))) == AT_ONCE
