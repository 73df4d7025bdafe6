"""Numbers of persons: national ids by their check digits, ids and employee numbers that the text calls so, births."""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from catalog.core.scrubbing.spans import Found

SSN = re.compile(r"(?<![\w-])\d{3}[- ]\d{2}[- ]\d{4}(?![\w-])")
NINO = re.compile(r"(?<!\w)[A-Z]{2}[ -]?\d\d[ -]?\d\d[ -]?\d\d[ -]?[A-D](?!\w)", re.I)
# python-stdnum's checks, each behind the shape in which it may stand alone
CHECKED: list[tuple[str, str]] = [
    ("it.codicefiscale", r"[A-Z]{6}[ ]?\d{2}[A-Z]\d{2}[ ]?[A-Z]\d{3}[A-Z]"),
    ("es.dni", r"\d{8}[ -]?[A-Z]"),
    ("es.nie", r"[XYZ][ -]?\d{7}[ -]?[A-Z]"),
    ("fr.nir", r"[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}"),
    ("pl.pesel", r"\d{11}"),
    ("de.idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}"),
    ("ch.ssn", r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}"),
    ("br.cpf", r"\d{3}\.\d{3}\.\d{3}-\d{2}"),
    ("in_.aadhaar", r"\d{4}[ -]\d{4}[ -]\d{4}"),
    ("in_.pan", r"[A-Z]{5}\d{4}[A-Z]"),
    ("se.personnummer", r"(?:\d{2})?\d{6}[-+]\d{4}"),
    ("dk.cpr", r"\d{6}-\d{4}"),
    ("fi.hetu", r"\d{6}[-+A]\d{3}[0-9A-Y]"),
    ("no.fodselsnummer", r"\d{6} ?\d{5}"),
    ("be.nn", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"),
    ("cn.ric", r"\d{17}[\dX]"),
    ("ca.sin", r"\d{3}[ -]\d{3}[ -]\d{3}"),
    ("ro.cnp", r"\d{13}"),
    ("kr.rrn", r"\d{6}-\d{7}"),
    ("mx.curp", r"[A-Z]{4}\d{6}[A-Z]{6}[A-Z\d]\d"),
    ("tr.tckimlik", r"\d{11}"),
    ("za.idnr", r"\d{13}"),
    ("ie.pps", r"\d{7}[A-W][A-IW]?"),
]
_JOIN = r"(?:\s+(?:number|num|no|nr|id|is|was|code|card|of|my|his|her|their|the|ends?|starts?|with)\b\.?)*\s*[:#=.]?\s*"
# the first group holds a digit, all of it at least four, and only groups with a digit follow a blank
_TOKEN = (
    r"((?=[A-Z]{0,4}[./-]?\d)(?=(?:[A-Z ./-]*\d){4})[A-Z0-9](?:[./-]?[A-Z0-9]|\s(?=[A-Z0-9]*\d)[A-Z0-9]){4,24})"
    r"(?!\w)"
)
SAID = re.compile(
    r"\b(?:ssn|sozialversicherungsnummer|social\s+security|social\s+insurance|national\s+id(?:entity|entification)?|"
    r"nat(?:ional)?\.?\s+insurance|ni|nino|identity\s+card|id\s+card|government\s+id|passport|residence\s+permit|"
    r"work\s+permit|driv(?:er'?s?|ing)\s+licen[cs]e|tax(?:payer)?\s+id(?:entification)?|personal\s+tax|itin|tin|"
    r"steuer-?id|aadhaar|pesel|bsn|cpf|curp|dni|nie|nif|nir|personnummer|cpr|hetu|ahv|codice\s+fiscale|fiscal\s+code|"
    r"nhs|medicare|medicaid|(?:health\s+)?insurance\s+(?:number|no|id))\b" + _JOIN + _TOKEN,
    re.I,
)
EMPLOYEE = [
    re.compile(
        r"\b(?:employees?|emp|personnel|staff|workers?|worker|badge|payroll|pers|person|associate|clock|user)\b\.?"
        r"(?:[\s/-]*(?:id|no|nr|num|number|code|#)\b\.?|\s*#)(?:\s+is\b)?\s*[:#=]?\s*"
        r"([A-Z]{0,4}[-_]?\d(?:[-_./]?\w){1,15})(?!\w)",
        re.I,
    ),
    re.compile(
        r"\b(?:employees?|emp|personnel|pers|staff|workers?|badge|associate)\b\.?\s+"
        r"(?!(?:19|20)\d{2}\b)([A-Z]{0,3}-?\d{4,12})\b(?![.,]\d|\s?(?:eur|usd|gbp|%|hours|days))",
        re.I,
    ),
    re.compile(r"(?<!\w)((?:EMP|EMPL|EE|PERNR|WD|PN)[-_]?\d{3,12})(?!\w)", re.I),
]
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ]+\d{1,2}[-/. ]+\d{2,4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{2,4}})?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{2,4}})?|\d{{6}}(?:\d{{2}})?)"
)
BORN = re.compile(
    r"\b(?:born|d\.?\s?o\.?\s?b|date\s+of\s+birth|birth\s?date|birth\s?day|b'?day|geb(?:oren|\.)?|geburtsdatum|"
    rf"n[ée]e?|nacid[oa]|nat[oa])\b\.?(?:\s+(?:on|is|was|the|am|le|el|il|in)\b)*\s*[:=]?\s*({_DATE})(?!\d)",
    re.I,
)


@cache
def _module(name: str) -> Any:
    return importlib.import_module(f"stdnum.{name}")


@cache
def _checks() -> list[tuple[re.Pattern[str], Any]]:
    return [
        (re.compile(rf"(?<![\w.,-]){shape}(?![\w-]|[.,]\d)", re.I), _module(name)) for name, shape in CHECKED
    ]


def national_ids(text: str) -> Iterator[Found]:
    if not any(letter.isdigit() for letter in text):
        return
    for pattern in (SSN, NINO):
        for match in pattern.finditer(text):
            yield Found("id number", match.start(), match.end())
    for pattern, module in _checks():
        for match in pattern.finditer(text):
            if module.is_valid(match.group()):
                yield Found("id number", match.start(), match.end())
    for match in SAID.finditer(text):
        yield Found("id number", match.start(1), match.end(1))


def employee_numbers(text: str) -> Iterator[Found]:
    for pattern in EMPLOYEE:
        for match in pattern.finditer(text):
            yield Found("employee number", match.start(1), match.end(1))


def births(text: str) -> Iterator[Found]:
    for match in BORN.finditer(text):
        yield Found("date of birth", match.start(1), match.end(1))
