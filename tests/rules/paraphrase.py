"""Says a rule's text again as another person would, at five strengths.

Nothing here knows the word lists of the checks: the synonyms are everyday ones, some of them unknown to the checks.
"""

import re
from random import Random

VERBATIM, SPELLING, ORDER, SYNONYM, FREE = range(5)
STRENGTHS = {
    VERBATIM: "verbatim",
    SPELLING: "case, commas, fillers",
    ORDER: "order too",
    SYNONYM: "one or two synonyms",
}
STRENGTHS |= {FREE: "every known synonym"}

SYNONYMS = {
    "read": ["fetch", "pull", "look up", "retrieve"],
    "get": ["obtain", "fetch"],
    "retrieve": ["get", "fetch"],
    "show": ["display", "see"],
    "see": ["view", "look at"],
    "list": ["enumerate", "get all"],
    "create": ["make", "add", "open"],
    "add": ["create", "register"],
    "remove": ["delete", "take out"],
    "delete": ["remove", "erase"],
    "change": ["modify", "edit", "alter"],
    "changed": ["modified", "edited"],
    "edit": ["change", "update"],
    "update": ["change", "modify"],
    "send": ["submit", "dispatch"],
    "cancel": ["call off", "void"],
    "void": ["cancel", "annul"],
    "voided": ["cancelled", "annulled"],
    "capture": ["collect", "settle"],
    "start": ["begin", "launch"],
    "stop": ["halt", "end"],
    "record": ["log", "enter"],
    "refund": ["reimburse", "pay back"],
    "payment": ["transaction", "charge"],
    "invoice": ["bill"],
    "customer": ["client", "buyer"],
    "customers": ["clients", "buyers"],
    "employee": ["worker", "staff member"],
    "employees": ["workers", "staff"],
    "user": ["person", "login"],
    "users": ["people", "logins"],
    "company": ["firm", "business"],
    "details": ["particulars", "data"],
    "information": ["data", "details"],
    "history": ["log", "past"],
    "transactions": ["bookings", "movements"],
    "missing": ["unavailable", "absent", "not there"],
    "known": ["available", "given", "at hand"],
    "existing": ["present", "available"],
    "amount": ["sum", "total"],
    "reference": ["number", "identifier"],
    "card": ["payment card"],
    "report": ["statement", "overview"],
    "batch": ["bulk", "bunch"],
    "current": ["present", "latest"],
    "newer": ["more recent", "new"],
    "assign": ["attach", "allocate"],
    "assess": ["judge", "estimate"],
    "determine": ["find out", "check"],
    "establish": ["set up", "open"],
    "whenever": ["each time"],
    "certified": ["attested", "official"],
    "supplier": ["vendor"],
    "adjustment": ["correction"],
    "earlier": ["older", "previous"],
    "account": ["ledger account"],
    "holder": ["owner"],
    "available": ["open", "on offer"],
    "grant": ["subsidy"],
    "prepayment": ["advance payment"],
    "deposit": ["down payment"],
}
FILLERS = ("please", "always", "simply", "then", "the", "just")
# "To do this, use NAME" and "If this holds, do it with NAME" with the case first
CASE_FIRST = re.compile(r"^(To|When|If|For|Whenever) ([^;.⟦]+), ([^;.,⟦]*[a-z][^;.,⟦]*⟦\d+⟧)")
CALL_LAST = re.compile(r"^([A-Z][^;.⟦]+?) with (⟦\d+⟧)")


def paraphrase(text: str, names: list[str], rng: Random, strength: int) -> str:
    """The text said again; tool names stay as they are."""
    held = dict(enumerate(sorted(names, key=len, reverse=True)))
    for number, name in held.items():
        text = text.replace(name, f"⟦{number}⟧")
    if strength >= SYNONYM:
        text = synonyms(text, rng, 2 if strength == SYNONYM else 1000)
    if strength >= ORDER:
        text = reorder(text)
    if strength >= SPELLING:
        text = respell(text, rng)
    for number, name in held.items():
        text = text.replace(f"⟦{number}⟧", name)
    return text


def synonyms(text: str, rng: Random, most: int) -> str:
    """At most so many of the words that have a synonym, each replaced wherever it stands."""
    known = sorted({word for word in re.findall(r"[a-z]+", text.lower()) if word in SYNONYMS})
    for word in rng.sample(known, min(most, len(known))):
        text = re.sub(rf"\b{word}\b", rng.choice(SYNONYMS[word]), text, flags=re.IGNORECASE)
    return text


def reorder(text: str) -> str:
    """The call before the case: `To do this, use X` -> `Use X to do this`."""
    if first := CASE_FIRST.match(text):
        word, case, call = first.groups()
        return f"{call[0].upper()}{call[1:]} {word.lower()} {case}{text[first.end() :]}"
    if last := CALL_LAST.match(text):
        case, call = last.groups()
        return f"Use {call} to {case[0].lower()}{case[1:]}{text[last.end() :]}"
    return text


def respell(text: str, rng: Random) -> str:
    """Other capitals, fewer commas, a filler or two."""
    words = re.sub(
        r"(instead|rather|as|no|such) (?=of|than|soon|longer|as)", "\\1\N{NO-BREAK SPACE}", text
    ).split(" ")
    for _ in range(rng.randint(1, 2)):
        words.insert(rng.randrange(len(words)), rng.choice(FILLERS))
    words = [word.capitalize() if word.isalpha() and rng.random() < 0.1 else word for word in words]
    text = " ".join(words).replace("\N{NO-BREAK SPACE}", " ")
    return text.replace(", ", " " if rng.random() < 0.3 else ", ").replace("authoris", "authoriz")
