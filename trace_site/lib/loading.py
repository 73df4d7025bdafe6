"""Start-up of a process that loads many modules."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading_modules() -> Iterator[None]:
    """Looks for no garbage while modules load, which make none, nor among them later, once in a process's life.

    torch and its family, from start to exit on one core of an Intel Xeon: 3.6 s instead of 5.5.
    """
    if gc.get_freeze_count():  # what has become garbage since then would stay
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
