"""What one cell of the table of rules says: fields with several parts hold one part a line.

    confusables   Pay/getOld                clauses   when: before 2024       tests   query: march slip
                  Pay/third                           route_to: Pay/getOld            tool: Pay/get
                                                      exception: yes
                                                      signal: 2023

A part that a line cannot hold (line breaks, an opening quotation mark) is written as a JSON string.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

LABEL = re.compile(r"\s*(\w+)\s*:(.*)", re.DOTALL)
YES, NO = frozenset({"yes", "true"}), frozenset({"no", "false"})


class CellProblem(Exception):
    """A sentence about one cell."""


def cell_of(column: str, value: Any) -> str:
    match column:
        case "confusables":
            return "\n".join(_line(name, also=";") for name in value)
        case "clauses":
            return "\n".join(line for clause in value for line in _clause_lines(clause))
        case "tests":
            return "\n".join(line for test in value for line in _test_lines(test))
    return str(value)


def _clause_lines(clause: Mapping[str, Any]) -> Iterator[str]:
    yield f"when: {_line(clause['when'])}"
    yield f"route_to: {_line(clause['route_to'])}"
    if clause["exception"]:
        yield "exception: yes"
    for signal in clause["signals"]:
        yield f"signal: {_line(signal)}"


def _test_lines(test: Mapping[str, Any]) -> Iterator[str]:
    yield f"query: {_line(test['query'])}"
    for name in test["tools"]:
        yield f"tool: {_line(name)}"


def _line(text: str, also: str = "\n") -> str:
    plain = not text.startswith('"') and not any(letter in text for letter in ("\n", "\r", also))
    return text if plain else json.dumps(text, ensure_ascii=False)


def value_of(column: str, cell: str) -> Any:
    match column:
        case "confusables":
            return list(_names(cell))
        case "clauses":
            return _clauses(cell)
        case "tests":
            return _tests(cell)
    return cell.strip() if column == "code" else cell


def _lines(cell: str) -> list[str]:
    return [line for line in cell.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]


def _names(cell: str) -> Iterator[str]:
    """Names a line, or separated by semicolons."""
    for line in _lines(cell):
        if line.lstrip().startswith('"'):
            yield _unquoted(line)
        else:
            yield from (name.strip() for name in line.split(";") if name.strip())


def _unquoted(text: str) -> str:
    """A part as `_line` wrote it."""
    text = text.strip()
    if not text.startswith('"'):
        return text
    try:
        value: str = json.loads(text)
    except ValueError as error:
        raise CellProblem(f"holds {text[:60]}, which is not one whole JSON string.") from error
    return value


def _labelled(cell: str, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for line in _lines(cell):
        match = LABEL.fullmatch(line)
        label = match[1].lower() if match else ""
        if match is None or label not in labels:
            words = ", ".join(f"{word}:" for word in labels)
            raise CellProblem(f"holds the line '{line[:60]}'; every line begins with one of {words}")
        yield label, _unquoted(match[2])


def _clauses(cell: str) -> list[dict[str, Any]]:
    clauses: list[dict[str, Any]] = []
    labels = {"when": "when", "route_to": "route_to", "exception": "exception", "signal": "signals"}
    for label, text in _labelled(cell, labels):
        if label == "when":
            clauses.append({"when": text})
        elif not clauses:
            raise CellProblem(f"begins with {label}:; a clause begins with when:")
        elif label == "signal":
            clauses[-1].setdefault("signals", []).append(text)
        elif label in clauses[-1]:
            raise CellProblem(f"gives {label}: twice for the clause '{clauses[-1]['when'][:60]}'.")
        else:
            clauses[-1][label] = _flag(text) if label == "exception" else text
    return clauses


def _flag(text: str) -> bool:
    if text.lower() not in YES | NO:
        raise CellProblem(f"says exception: {text[:40]}; write yes or no.")
    return text.lower() in YES


def _tests(cell: str) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = []
    for label, text in _labelled(cell, {"query": "query", "tool": "tools"}):
        if label == "query":
            tests.append({"query": text, "tools": []})
        elif not tests:
            raise CellProblem("begins with tool:; a test begins with query:")
        else:
            tests[-1]["tools"].append(text)
    return tests
