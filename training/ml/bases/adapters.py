"""How base models are talked to: the strings around a turn, and around its thinking part.

In: a tokenizer. Out: `Markers`, read off the model's own chat template, with the model's native thinking markers where
it has some. A new family of thinking models is one more row of ADAPTERS. What is read once is stored with the model
(trace.json), so that a template which writes today's date still gives the prompt that was trained.
"""

from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError
from tokenizers import AddedToken

from trace_site.lib.errors import TraceError

PAD, END, USER, ASSISTANT = "<pad>", "<|end|>", "<|user|>", "<|assistant|>"
OPEN, CLOSE = "<think>\n", "\n</think>\n"
SLOT = "\u241eslot\u241e"  # stands for the content while a chat template is rendered
DAY = "26 Jul 2024"  # the day every template is told it is, whenever training or resuming happens
CLOCK = "{% macro strftime_now(form) %}" + DAY + "{% endmacro %}{{ '' }}"  # put before a template
# what is added to a base without a template of its own: control tokens that no request can imitate
TURNS = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}{{ eos_token }}"
    "{% else %}<|user|>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WORDS = {"<think>": "think", "</think>": "done thinking", USER: "user", ASSISTANT: "assistant"}


@dataclass(frozen=True)
class Adapter:
    """The native thinking markers of a family, known by the control tokens its vocabulary holds."""

    name: str
    tokens: tuple[str, ...]
    open: str
    close: str
    empty: str  # a thinking part with nothing in it, as the family's own template writes it


ADAPTERS = (
    Adapter(
        "gemma4",
        ("<|channel>", "<channel|>"),
        "<|channel>thought\n",
        "\n<channel|>",
        "<|channel>thought\n<channel|>",
    ),
    # Qwen 3, DeepSeek-R1 and what is distilled from it, and bases that were given these tokens by `prepare`
    Adapter("think", ("<think>", "</think>"), "<think>\n", "\n</think>\n\n", "<think>\n\n</think>\n\n"),
)
NO_THINKING = Adapter("text", (), OPEN, CLOSE, OPEN + CLOSE)  # exports made before `prepare`


@dataclass(frozen=True)
class Markers:
    """Everything around the texts of an exchange."""

    before: str  # from the start to the user's text
    after: str  # from the user's text to where the model starts to write
    end: str  # what ends the model's turn
    open: str
    close: str
    empty: str
    family: str = ""  # the adapter's name
    # control tokens that `prepare` gave the base; they come right before the tool tokens
    added: tuple[str, ...] = ()


def adapter_of(tokenizer: Any) -> Adapter:
    """The first row whose control tokens the vocabulary holds as whole tokens."""
    known = tokenizer.get_added_vocab()
    return next((row for row in ADAPTERS if all(text in known for text in row.tokens)), NO_THINKING)


def prepare(tokenizer: Any) -> tuple[str, ...]:
    """Give a base the control tokens it lacks: for thinking, and for turns where it has no chat template.

    Markers of plain text could be written by a user; tokens cannot. Returns what was added, in order.
    """
    missing: list[str] = [] if adapter_of(tokenizer) is not NO_THINKING else ["<think>", "</think>"]
    if not tokenizer.chat_template:
        missing += [USER, ASSISTANT]
        tokenizer.chat_template = _first_token(tokenizer) + TURNS
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in missing])
    return tuple(missing)


def template_markers(tokenizer: Any, added: tuple[str, ...] = ()) -> Markers:
    """Read the turn markers off the model's own chat template."""
    adapter = adapter_of(tokenizer)
    user = {"role": "user", "content": SLOT}
    before, slot, after = _rendered(tokenizer, [user], True).partition(SLOT)
    turn = [user | {"content": "?"}, {"role": "assistant", "content": SLOT}]
    _, answered, behind = _rendered(tokenizer, turn, False).rpartition(SLOT)
    if not (slot and answered):
        raise _bad("does not write what a turn says")
    end = _first_control(tokenizer, behind)
    thinking = (adapter.open, adapter.close, adapter.empty)
    return Markers(before, _unopened(after, adapter), end, *thinking, adapter.name, added)


def _unopened(after: str, adapter: Adapter) -> str:
    """DeepSeek-R1 and later Qwen templates open the thinking part themselves; we do, or leave it empty."""
    for opened in (adapter.open, adapter.open.rstrip("\n")):
        if after.endswith(opened):
            return after.removesuffix(opened)
    return after


def _rendered(tokenizer: Any, messages: list[dict[str, str]], ask: bool) -> str:
    try:
        return str(
            tokenizer.apply_chat_template(
                messages,
                chat_template=CLOCK + tokenizer.get_chat_template(),
                tokenize=False,
                add_generation_prompt=ask,
                enable_thinking=True,
                date_string=DAY,
            )
        )
    except (TemplateError, ValueError, TypeError) as error:
        raise _bad(f"cannot be rendered ({str(error).splitlines()[0]})") from error


def _first_control(tokenizer: Any, text: str) -> str:
    """The control token that ends an assistant turn, without the line break some templates write after it."""
    for number in tokenizer.encode(text, add_special_tokens=False):
        if number in tokenizer.all_special_ids or number in tokenizer.added_tokens_decoder:
            return str(tokenizer.convert_ids_to_tokens(number))
    if tokenizer.eos_token is None:
        raise _bad("ends a turn with no control token, and the tokenizer has no end token")
    return str(tokenizer.eos_token)


def _first_token(tokenizer: Any) -> str:
    """The token a tokenizer itself puts at the start of every text."""
    first = tokenizer("").input_ids[:1]
    return str(tokenizer.bos_token) if first and first[0] == tokenizer.bos_token_id else ""


def _bad(problem: str) -> TraceError:
    hint = "Use another base model, or correct its chat_template.jinja."
    return TraceError(f"the chat template of this base {problem}.", code="bad_template", hint=hint)
