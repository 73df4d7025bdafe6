"""One piece of a text that points at a person, and what may stand in for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

# kind -> what is written instead; a kind named first wins where two overlap
STAND_INS = {
    "link": "[link]",
    "e-mail": "[e-mail]",
    "IBAN": "[IBAN]",
    "card": "[card]",
    "secret": "[secret]",
    "IP address": "[IP address]",
    "id number": "[id number]",
    "date of birth": "[date of birth]",
    "employee number": "[employee number]",
    "phone": "[phone]",
    "name": "[name]",
}


@dataclass(frozen=True, slots=True)
class Found:
    """text[start:end] is personal; offsets in characters."""

    kind: str
    start: int
    end: int

    @property
    def stand_in(self) -> str:
        return STAND_INS[self.kind]


Detector = Callable[[str], Iterator[Found]]
