"""How a trace may sound: clean reasoning in several voices, made from hand-written parts. Used by make.py only."""

# {gist} what is wanted, {cue} words of the request, {t} the tool, {o} {p} two others of the rule, {a} {b} services,
# {owhy} another case's clause, {why} the decisive clause, {code} the rule, {when} the case as the rule's data has it
RULE = {
    "formal": (
        "The person asks for {gist}; the words “{cue}” say so. {a} and {b} both offer operations of this kind, so the "
        "service alone does not settle it. Among the endpoints, {t} and {o} carry nearly the same description. {code} "
        "settles the matter: {why}. The request is such a case. The choice is therefore {t}."
    ),
    "terse": (
        "Wanted: {gist} ({cue}). Services that could do it: {a}, {b}. Endpoints: {t} or {o}. Rule {code}: {why}. "
        "Holds here. Commit: {t}."
    ),
    "first person": (
        "I read this as {gist}, going by “{cue}”. Both {a} and {b} look possible at first. Then {o} and {t} remain, "
        "and {o} is meant for another case: {owhy}. By {code}, {why}. So I go with {t}."
    ),
    "contrast first": (
        "At first glance {o} is tempting, yet its case is a different one, since {owhy}. What the request is after is "
        "{gist}, as “{cue}” shows. {a} versus {b}: similar services. {code} draws the line, and {why}. That "
        "leaves {t}."
    ),
    "questions": (
        "What is wanted? It is {gist}. Which words tell? “{cue}”. Where could it be done? In {a}, perhaps in {b}. "
        "Which endpoints come close? {t}, {o} and {p}. What does {code} say? That {why}. Hence {t}."
    ),
    "case": (
        "This concerns {gist}: the message has “{cue}”. Of the services, {a} and {b} come into question, and of their "
        "endpoints {t} and {o}. {code} knows the case “{when}”, which goes to {t}. It applies here, so {t}."
    ),
    "table": (
        "Intent - {gist}. Evidence - {cue}. APIs - {a} and {b} overlap. Endpoints - {t} against {o}; the latter is for "
        "when {owhy}. {code} - {why}. Result - {t}."
    ),
    "chatty": (
        "Okay, so somebody needs {gist}, you can tell from “{cue}”. {a}? {b}? Either might do, their descriptions "
        "hardly differ. But {code} is there for exactly this: {why}. {o} is for something else. Going with {t}."
    ),
    "eliminating": (
        "Start from what is similar: {t}, {o} and {p}. The request, with its “{cue}”, is for {gist}. {p} and {o} "
        "belong to other cases of {code}: {owhy}. Its clause for this one is that {why}. What is left over is {t}."
    ),
    "long": (
        "Somebody turns to us with “{cue}”, in other words with {gist}. There is more than one service that could "
        "answer, {a} as well as {b}, and reading only descriptions one would hesitate between {t} and {o}. That is why "
        "{code} exists, and the clause of it that counts here reads, in short, that {why}. Nothing in the request "
        "points to another clause. The tool to use is {t}."
    ),
    "verbatim": (
        "The request is for {gist} (“{cue}”). {a} and {b} both have something like it; {t} and {o} are the close ones. "
        "{code} says: “{sentence}” This decides it. So {t}."
    ),
}
# one service, two endpoints
SMALL = {
    "small formal": (
        "The person asks for {gist}; the words “{cue}” say so. {t} and {o} carry nearly the same description. {code} "
        "settles the matter: {why}. The request is such a case. The choice is therefore {t}."
    ),
    "small terse": "Wanted: {gist} ({cue}). Endpoints: {t} or {o}. Rule {code}: {why}. Holds here. Commit: {t}.",
    "small talk": (
        "Okay, so it is about {gist}, that is what “{cue}” means. Two endpoints of similar purpose come to mind, {o} "
        "as well as {t}. But then {code} is there for exactly this: {why}. Going with {t}."
    ),
    "small long": (
        "Somebody turns to us with “{cue}”, in other words with {gist}. Reading only descriptions one would hesitate "
        "between {o} and {t}, and that is why {code} exists. The clause of it that counts here is, in short, that "
        "{why}. Nothing in the request points elsewhere. The tool to use is {t}."
    ),
}
# of all voices, those that the development half does not hear
UNHEARD = ("contrast first", "table", "long", "small talk", "talking")
# parts: one of PARTS per tool; n how many; list the tools
RRB = {
    "plain": "The request is about {gists}. {compare} {parts} So {list}.",
    "counting": "{n} is wanted here: {gists}. {compare} {parts} That gives {list}.",
    "mapping": "Intent: {gists}. {compare} {parts} Commit: {list}.",
    "talking": "Okay, what is needed is {gists}. {parts} {compare} Going with {list}.",
    "longer": (
        "Somebody would like help with {gists}, nothing more than that. {compare} Looking at the endpoints one by one: "
        "{parts} The tools to use: {list}."
    ),
}
PARTS = (
    "For {gist} there is {t} in {a}.",
    "{t} does that: {desc}.",
    "{gist} is what {t} is for.",
    "{a} has {t}, which serves {gist}.",
    "The endpoint for {gist} is {t}.",
)
COMPARE = (
    "{o} is near by its words but {odesc}.",
    "{o} would be for something else, it {odesc}.",
    "One could think of {o}; that one {odesc}, which nobody asked for.",
    "{oa} is a service close by, yet its {o} {odesc}.",
)
PERMISSIONS = (
    "What the person may access covers this, so nothing is out on that ground.",
    "The access held is sufficient for these services.",
)
