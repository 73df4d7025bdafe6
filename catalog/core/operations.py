"""What an operation does, and to what: `V1/invoice.create` and `V2/invoices.create` are one operation.

In: an endpoint's name, a path or a title. Out: an action, and the words of what it is done to, free of versions,
endings and words that every API uses.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from catalog.core.words import name_words, stem

METHODS = {"get": "read", "post": "create", "put": "update", "patch": "update", "delete": "delete"}
VERBS = {
    "read": "get list retrieve fetch read find search query show view lookup describe check",
    "create": "create post add new insert register issue submit request make start",
    "update": "update put patch edit modify change set upsert replace adjust",
    "delete": "delete remove destroy",
}
ACTIONS = {stem(word): action for action, words in VERBS.items() for word in words.split()}
_EMPTY = """a an the of for to in on by with and or from this that your our its is be as at under given please use
    it all id uuid note api apis endpoint method operation specific specified old legacy deprecated compat"""
EMPTY = frozenset(map(stem, _EMPTY.split()))
VERSION = re.compile(r"v?[0-9]+")


class Operation(NamedTuple):
    action: str  # read, create, update, delete; "" where none of their verbs stands
    objects: frozenset[str]  # stems


def telling_stems(text: str) -> Iterator[str]:
    """The stems of a name's words that say something, in order."""
    for word in name_words(text):
        if not VERSION.fullmatch(word) and (found := stem(word)) not in EMPTY:
            yield found


@lru_cache(maxsize=100_000)
def operation(text: str) -> Operation:
    """`POSTDeleteTerminal` deletes: a verb right behind the HTTP method says more than the method."""
    stems = list(telling_stems(text))
    verbs = [place for place, word in enumerate(stems) if word in ACTIONS]
    leading = verbs[1] if verbs[:2] == [0, 1] and stems[0] in METHODS else verbs[0] if verbs else None
    action = "" if leading is None else ACTIONS[stems[leading]]
    objects = frozenset(word for word in stems if word not in ACTIONS)
    return Operation(action, objects or frozenset(stems))


def without_method(endpoint: str) -> str:
    """`post-payments-cancels` -> `payments-cancels`: as the path is written in running text."""
    first, mark, rest = re.sub("[_.]", "-", endpoint).partition("-")
    return rest if mark and first.casefold() in METHODS else endpoint
