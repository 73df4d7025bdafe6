"""Trace faithfulness, the judge's fourth axis: does the reasoning, read alone, lead to the answer?

In: a judge request. Out: what is wrong, one sentence each. The trace must restate this request and no other, state the
decisive case of the rule where it cites it, say of each tool only what rule and description say, take nothing from the
answer, and end on it. What it says beyond the request, the rule and the tools' texts in more than a turn of phrase
counts as invented.
"""

import math
import re
from collections.abc import Sequence

from synthesis.core.judge_cases import KnownRule, known_rule
from synthesis.core.judge_invented import invented, source
from synthesis.core.judge_sentences import Sentence, sentences
from synthesis.core.judge_stems import plain_stems, stems
from synthesis.core.judge_vocabulary import REASONING
from synthesis.core.limits import same_side
from synthesis.core.queries import JudgeRequest, RuleText, by_name
from synthesis.core.wordings import Wording

AFTERWARDS = Wording(
    r"""\b(?:(?:is|was|are|were|been|being|as|the|already|being)\s(?:the\s)?(?:selected|chosen|expected|given|provided|preset|
    predetermined|predefined|labelled|labeled|marked|intended|designated|prescribed|supplied|stated)\b(?!\s(?:in|by|to|with|that)\b)|
    (?:answer|solution|label|choice|tool|result)\s(?:is|was|has\sbeen|were)\s(?:already\s)?(?:given|provided|fixed|known|set|
    decided|stated|supplied|determined)|(?:correct|right|proper|expected|gold|reference|true|final)\s(?:answer|label|choice|
    solution|tool)\b|ground\struth|gold\b|(?:answer|solution)\skey|labels?\b|justif\w+|rationali[sz]\w+|
    work(?:ing|ed)?\sback\w*|reverse[-\s]engineer\w*|beforehand|in\shindsight|after\sthe\sfact|already\s(?:know|knew|clear|
    decided|settled)|we\sknow\sthat|it\sonly\sremains|to\smake\s(?:sense|it\sfit)|make\sit\sfit|must\sbe\sabout|evidently\s
    supports|has\sto\sbe\s|fits?\sthe\sanswer|whatever\sthe\srequest)"""
)
BACKWARDS = "argues from the answer; reason from the request to it."
NO_REASON = "is no reason; let the rule and what the tools do decide."
ASIDE = Wording(
    r"""\b(?:(?:leaving|leave|put(?:ting)?|setting|set)\b[^.]{0,30}\b(?:aside|away)|regardless\sof\s(?:it|the\srule|that|this)|
    ignor\w+|skip\w*|disregard\w*|overrid\w+|overlook\w*|notwithstanding|(?:without|instead\sof)\s(?:using|applying|consulting)|
    (?:do|does|need)\snot\s(?:need|apply|use|matter|follow)|coin\b|dice|lottery|random\w*|alphabet\w*|popular\w*|
    more\s(?:often|common\w*|familiar|famous)|(?:shorter|longer|nicer|catchier)\sname|sounds?\s(?:closest|best|right|nicer|better)|
    comes\sfirst|favou?rite|prefer\s(?:the\slook|it)|gut\sfeeling|by\shabit|looks?\s(?:newer|nicer|fine)|newer\slooking|seems?\sfine|
    besides\s\S+,)"""
)
NOT_GIVEN = re.compile(
    r"\b(?:not\s(?:given|met|the\scase|true)|do(?:es)?\snot\s(?:hold|apply))\b", re.IGNORECASE
)


def unfaithful(request: JudgeRequest) -> list[str]:
    """What is wrong with the reasoning; empty when it leads to the answer."""
    found = sentences(request)
    if not found:
        return ["There is no reasoning."]
    notes = [*_voice(request, found), *_commit(request, found), *invented(request, found)]
    notes += _on_rule(request, request.rule, found) if request.rule else _on_texts(request, found)
    return notes


def _voice(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    """Turns of phrase that argue from the answer or put the rule aside, where request and tools do not speak so."""
    text = " ".join(sentence.text for sentence in found)
    for pattern, note in ((AFTERWARDS, BACKWARDS), (ASIDE, NO_REASON)):
        for match in pattern.finditer(text):
            if match.group().strip().casefold() not in source(request).casefold():
                return [f"'{match.group().strip()}' {note}"]
    return []


def _commit(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    last = found[-1].tools
    notes = []
    if missing := [name for name in request.answer if name not in last]:
        notes.append(f"The last sentence does not name {missing[0]}.")
    if more := sorted(last - set(request.answer)):
        notes.append(f"The last sentence names {more[0]} too.")
    return notes


def _on_rule(request: JudgeRequest, rule: RuleText, found: Sequence[Sentence]) -> list[str]:
    weighed = _Weighed(known_rule(rule, request.pool), least=2 if rule.clauses else 1)
    cited = [number for number, sentence in enumerate(found) if sentence.cites]
    if not cited:
        return [f"The trace does not cite {rule.code}."]
    notes = []
    decisive = [found[n] for at in cited for n in (at, at + 1) if n < len(found) - 1 or n == at]
    sides = [weighed.sides(sentence, request.answer) for sentence in decisive]
    own = [mine for mine, other in sides if mine >= other]
    denied = any(
        NOT_GIVEN.search(sentence.text) and sentence.tools & set(request.answer) for sentence in decisive
    )
    if not any(weighed.states(sentence, request.answer) for sentence in decisive):
        notes.append(f"The trace cites {rule.code} but not the clause of it that decides.")
    elif not denied and (not own or max(own) <= 0 < max(other for _, other in sides)):
        notes.append("The trace argues for another case of the rule.")
    notes += [note for sentence in found[:-1] if (note := _misplaced(sentence, weighed, request.answer))][:1]
    intent = frozenset().union(*(sentence.said for sentence in found[:2]))
    said = frozenset().union(*(sentence.said for sentence in found))
    mine = frozenset().union(*(one.stated for one in weighed.known.cases if one.tool in request.answer))
    if not stems(request.query) & said and not mine & intent:
        notes.append("The trace does not restate what is asked.")
    return notes


def _misplaced(sentence: Sentence, weighed: "_Weighed", answer: Sequence[str]) -> str:
    if barred := sorted(sentence.against & set(answer)):
        return f"It sets the rule against {barred[0]} and then takes it."
    if not sentence.tools:
        return ""
    scores = weighed.scores(sentence)
    score, tool = max(((score, tool) for tool, score in scores.items()), default=(0.0, ""))
    held = max((scores.get(name, 0.0) for name in sentence.tools), default=0.0)
    if score >= 2.0 and tool not in sentence.tools and score > 1.5 * held:
        return f"It says of {sorted(sentence.tools)[0]} what the rule says of {tool}."
    return ""


class _Weighed:
    """The cases of a rule set against the sentences of one trace, each sentence once."""

    def __init__(self, known: KnownRule, least: int) -> None:
        self.known, self.least = known, least
        self._scores: dict[str, dict[str, float]] = {}

    def scores(self, sentence: Sentence) -> dict[str, float]:
        """How much a sentence says of the cases that lead to each tool."""
        if sentence.text not in self._scores:
            self._scores[sentence.text] = self._score(sentence)
        return self._scores[sentence.text]

    def _score(self, sentence: Sentence) -> dict[str, float]:
        said = sentence.said - REASONING
        scores: dict[str, float] = {}
        for one in self.known.cases:
            score = math.fsum(self.known.weights.get(word, 0.0) for word in said & one.stated)
            score += 2 * same_side(one.when, sentence.text)
            scores[one.tool] = max(scores.get(one.tool, score), score)
        return scores

    def states(self, sentence: Sentence, answer: Sequence[str]) -> bool:
        """Does the sentence say what the answer's case is about, in `least` words of it?"""
        return any(
            len(sentence.said & one.stated) >= self.least and same_side(one.when, sentence.text) >= 0
            for one in self.known.cases
            if one.tool in answer
        )

    def sides(self, sentence: Sentence, answer: Sequence[str]) -> tuple[float, float]:
        """(the answer's best case, the best other case) in a sentence."""
        scores = self.scores(sentence)
        mine = max((score for tool, score in scores.items() if tool in answer), default=0.0)
        return mine, max((score for tool, score in scores.items() if tool not in answer), default=0.0)


def _on_texts(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    known = by_name(request.pool)
    said = frozenset().union(*(sentence.said for sentence in found))
    answers = [known[name] for name in request.answer if name in known]
    for tool in answers:
        if said.isdisjoint(plain_stems(tool.description)) and said.isdisjoint(plain_stems(tool.endpoint)):
            return [f"The trace does not say what {tool.name} does."]
    texts = [plain_stems(text) for tool in answers for text in (tool.description, tool.endpoint)]
    asked = stems(request.query).union(*texts)
    intent = found[0].said - REASONING
    if not stems(request.query) & said or (len(intent) >= 2 and not intent & asked):
        return ["The trace does not restate what is asked."]
    return []
