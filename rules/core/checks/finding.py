"""A finding: what is wrong with a rule, where, and what to do about it."""

from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning"]
PLACES = {
    "tool_name": "target",
    "confusables": "look-alikes",
    "rule_text": "text",
    "clauses": "clauses",
    "tests": "tests",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A JSON pointer into the exchange format; `start` and `end` count characters of the text it points to."""

    pointer: str = ""
    start: int | None = None
    end: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "start": self.start, "end": self.end}

    @property
    def words(self) -> str:
        """`/clauses/1/route_to` -> clause 2."""
        name, _, rest = self.pointer.strip("/").partition("/")
        number = rest.partition("/")[0]
        word = PLACES.get(name, name)
        return (
            f"{word.removesuffix('s')} {int(number) + 1}"
            if number.isdecimal() and name != "confusables"
            else word
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """`other` is the code of the other rule, where there is one; `path` those of all rules on a cycle."""

    code: str
    level: Level
    sentence: str
    fix: str
    other: str = ""
    place: Place = Place()
    path: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "level": self.level,
            "sentence": self.sentence,
            "fix": self.fix,
            "other": self.other,
            "place": self.place.as_dict(),
            "path": list(self.path),
        }


def error(code: str, sentence: str, fix: str, place: Place, other: str = "") -> Finding:
    return Finding(code, "error", sentence, fix, other, place)


def warning(code: str, sentence: str, fix: str, place: Place, other: str = "") -> Finding:
    return Finding(code, "warning", sentence, fix, other, place)


def has_errors(findings: "list[Finding]") -> bool:
    return any(finding.level == "error" for finding in findings)
