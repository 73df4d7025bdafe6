"""Every state word of the product and its tone: a tone is a colour and a shape, the word is always written out."""

WORDS = {
    "good": "done, ready, approved, approve, published, resolved, taught, in champion, champion, pass, ok, covered, "
    "applied, delivered, reliable",
    "run": "running, being written, scheduled, challenger, edit, edit and approve",
    "wait": "queued, pending, to review, draft, in review, new, previous, cannot tell",
    "warn": "warning, deprecated, stale, changed, judged out, touched, paused, tentative",
    "bad": "failed, fail, blocked, quarantined, rejected, reject, error, no rule, uncovered, filtered, unreliable",
    "idle": "cancelled, retired, dropped, dismissed, removed, unchanged, undo, not measured",
    "info": "active, added, info, offline, recorded",
}
TONES = {word: tone for tone, words in WORDS.items() for word in words.split(", ")}


def tone_of(word: str) -> str:
    """`no_rule` and `No rule` are the same state; an unknown word is idle."""
    return TONES.get(word.lower().replace("_", " "), "idle")
