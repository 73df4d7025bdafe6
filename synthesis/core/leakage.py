"""The query gives no name away: filter V's check of what a person could not have typed unknowingly.

Refused are the full name of any tool, the endpoint title of two or more words of an answer or a tool of the rule, the
rule's code, and token strings, in any spelling: camelCase, snake_case, apart or joined, full-width or imitated letters.
"""

import re
from collections.abc import Iterator

from synthesis.core.candidate import Candidate, Failure, FilterContext, failure_at
from synthesis.core.names import whole_words
from synthesis.core.spellings import Plain, is_title, letters_of

TOKEN_STRING = re.compile(r"<<[^<>\s][^<>]*>>|</?(?:tid|think)>", re.IGNORECASE)

Leak = tuple[int, int, str]  # start, end, message


def leakage(candidate: Candidate, context: FilterContext) -> list[Failure]:
    plain = Plain(candidate.query)
    leaks = [
        *_names(candidate, context, plain),
        *_titles(candidate, plain),
        *_marks(candidate, context, plain),
    ]
    # a longer leak tells more than those inside it
    leaks.sort(key=lambda leak: (leak[0], -leak[1]))
    found: list[Failure] = []
    floor = 0
    for start, end, message in leaks:
        if end > floor:
            found.append(failure_at("leakage", message, candidate.query, start, end))
            floor = end
    return found


def _names(candidate: Candidate, context: FilterContext, plain: Plain) -> Iterator[Leak]:
    for start, end, name in context.names.spellings(plain):
        yield start, end, f"The query names the tool {name}."
    for name in dict.fromkeys(candidate.answer):
        # as the paper has it: anywhere in the query, even inside a longer word
        at = candidate.query.find(name) if name else -1
        if at >= 0:
            yield at, at + len(name), f"The query names the tool {name}."


def _titles(candidate: Candidate, plain: Plain) -> Iterator[Leak]:
    for name in dict.fromkeys((*candidate.answer, *candidate.rule_tools)):
        title = name.partition("/")[2]
        if is_title(title):
            for start, end in plain.places(letters_of(title)):
                yield start, end, f"The query holds the endpoint title of {name}."
        elif letters := letters_of(name):
            for start, end in plain.places(letters):
                yield start, end, f"The query names the tool {name}."


def _marks(candidate: Candidate, context: FilterContext, plain: Plain) -> Iterator[Leak]:
    for match in TOKEN_STRING.finditer(plain.text):
        yield *plain.span(*match.span()), "The query holds a token string."
    for start, end, code in context.codes.find(plain.text):
        yield *plain.span(start, end), f"The query holds the code of the rule {code}."
    code = candidate.rule_code
    # a code of one word is a common word unless it stands there just as the code does
    for start, end in plain.places(letters_of(code)) if is_title(code) else ():
        yield start, end, f"The query holds the rule's code {code}."
    for span in whole_words(plain.text, code):
        yield *plain.span(*span), f"The query holds the rule's code {code}."
