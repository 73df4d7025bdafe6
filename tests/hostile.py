"""Searches for texts that cost much processor time: fragments repeated, changed and joined under a seed."""

import random
import time
from collections.abc import Callable, Sequence

Work = Callable[[str], object]
LETTERS = "0123456789 ()-./+aA'@:,;#\"=?&\n{}[]<>\t_é"
LONGEST_UNIT = 60


def cost(work: Work, text: str, times: int = 3) -> float:
    """Seconds of the processor in this thread, the least of a few tries."""
    found = []
    for _ in range(times):
        began = time.thread_time()
        work(text)
        found.append(time.thread_time() - began)
    return min(found)


def filled(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def dearest(work: Work, fragments: Sequence[str], length: int, seed: int, tries: int) -> list[str]:
    """The units that cost most when they fill a text of that length, the worst first."""
    rng = random.Random(seed)
    costs = {(one,): cost(work, filled(one, length), 1) for one in fragments}
    for _ in range(tries):
        parts = list(rng.choice(sorted(costs, key=costs.__getitem__, reverse=True)[:12]))
        at = rng.randrange(len(parts))
        match rng.randrange(4):
            case 0:
                parts.insert(at, rng.choice(fragments))
            case 1:
                parts[at] = rng.choice(fragments)
            case 2:
                del parts[at]
            case _:
                cut = rng.randrange(len(parts[at]) + 1)
                parts[at] = parts[at][:cut] + rng.choice(LETTERS) + parts[at][cut + rng.randrange(2) :]
        unit = "".join(parts)
        if 0 < len(unit) <= LONGEST_UNIT and tuple(parts) not in costs:
            costs[tuple(parts)] = cost(work, filled(unit, length), 2)
    return ["".join(parts) for parts in sorted(costs, key=costs.__getitem__, reverse=True)[:5]]
