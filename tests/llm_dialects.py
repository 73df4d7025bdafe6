"""Servers of seven dialects, and others that wrap what is right: each refuses and answers as its kind does.

A dialect is `refuse(body)`, which gives (status, body of the error) or None, and `wrap(choice)`, which changes the
choice of a right answer.
"""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.llm_server import LlmServer, _send

Refusal = tuple[int, Any]
Refuse = Callable[[dict[str, Any]], Refusal | None]
Wrap = Callable[[dict[str, Any]], None]


def _error(message: str, code: str | None = None, param: str | None = None, status: int = 400) -> Refusal:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return status, {"error": error}


def reasoning(body: dict[str, Any]) -> Refusal | None:
    """OpenAI with reasoning models."""
    if "max_tokens" in body:
        said = "max_tokens cannot be used with this model; send max_completion_tokens."
        return _error(said, "unsupported_parameter", "max_tokens")
    if body.get("temperature", 1) != 1:
        return _error("this model takes no temperature but 1.", "unsupported_value", "temperature")
    return None


def azure(body: dict[str, Any]) -> Refusal | None:
    return _error("Unrecognized request argument supplied: seed") if "seed" in body else None


def vllm(body: dict[str, Any]) -> Refusal | None:
    """An old version: its grammar does not know the schema."""
    if "json_schema" in body.get("response_format", {}):
        said = {"object": "error", "message": "Grammar error: unsupported schema", "type": "BadRequestError"}
        return 400, {**said, "param": None, "code": 400}
    return None


def ollama(body: dict[str, Any]) -> Refusal | None:
    if "json_schema" in body.get("response_format", {}):
        field = "Go struct field ChatCompletionRequest.response_format.json_schema of type string"
        return 400, {"error": f"json: cannot unmarshal object into {field}"}
    return None


def llama_cpp(body: dict[str, Any]) -> Refusal | None:
    if "json_schema" in body.get("response_format", {}):
        error = {"code": 500, "message": "failed to parse grammar", "type": "server_error"}
        return 500, {"error": error}
    return None


def mistral(body: dict[str, Any]) -> Refusal | None:
    if "seed" in body:
        wrong = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "field not known", "input": 5}
        return 422, {"object": "error", "message": {"detail": [wrong]}, "param": None, "code": None}
    return None


def deepseek(body: dict[str, Any]) -> Refusal | None:
    form = body.get("response_format", {}).get("type")
    if form == "json_schema":
        return _error("This response_format type is unavailable now", "invalid_request_error")
    if form and "json" not in str(body["messages"]).lower():
        return _error("Prompt must contain the word 'json' in some form to use json_object.")
    return None


def bare(body: dict[str, Any]) -> Refusal | None:
    """One that takes nothing but a model and messages."""
    extra = sorted(set(body) - {"model", "messages"})
    wrong = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs"} for name in extra]
    return (422, {"detail": wrong}) if extra else None


def _content(change: Callable[[str], Any]) -> Wrap:
    def wrap(choice: dict[str, Any]) -> None:
        choice["message"]["content"] = change(choice["message"]["content"])

    return wrap


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see."}]}
THOUGHT = 'Let me see: {"ok": false}? No.'
WRAPS: dict[str, Wrap] = {
    "fence": _content(lambda text: f"```json\n{text}\n```"),
    "plain_fence": _content(lambda text: f"```\n{text}```\n"),
    "think": _content(lambda text: f"<think>\n{THOUGHT}\n</think>\n\n{text}"),
    "think_unopened": _content(lambda text: f"{THOUGHT}\n</think>\n{text}"),
    "think_fence": _content(
        lambda text: f"<thinking>{THOUGHT}</thinking>\nHere:\n```json\n{text}\n```\nDone."
    ),
    "channels": _content(
        lambda text: (
            f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|channel|>final<|message|>{text}<|return|>"
        )
    ),
    "sentence": _content(lambda text: f"Here is the answer:\n{text}\nI hope it helps."),
    "part": _content(lambda text: [{"type": "text", "text": text}]),
    "thinking_part": _content(lambda text: [THINKING, {"type": "text", "text": text}]),
    "split_parts": _content(lambda text: [{"type": "text", "text": one} for one in (text[:5], text[5:])]),
}
DIALECTS: dict[str, tuple[Refuse, Wrap | None]] = {
    "openai-reasoning": (reasoning, None),
    "azure": (azure, None),
    "vllm": (vllm, None),
    "ollama": (ollama, WRAPS["think"]),
    "llama.cpp": (llama_cpp, WRAPS["fence"]),
    "mistral": (mistral, WRAPS["thinking_part"]),
    "deepseek": (deepseek, None),
}


class DialectServer(LlmServer):
    """refuse, wrap: as above; refused: how many requests were."""

    def __init__(
        self,
        answers: Callable[[dict[str, Any]], Any] = lambda body: {"ok": True},
        refuse: Refuse = lambda body: None,
        wrap: Wrap | None = None,
    ) -> None:
        super().__init__(answers)
        self.refuse, self.wrap, self.refused = refuse, wrap, 0

    def reply(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], fault: str) -> None:
        if (refusal := self.refuse(body)) is not None:
            self.refused += 1
            said = refusal[1] if isinstance(refusal[1], str) else json.dumps(refusal[1])
            return _send(handler, refusal[0], said.encode())
        return super().reply(handler, body, fault)

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        completion = json.loads(super().completion(body, fault))
        if self.wrap is not None:
            self.wrap(completion["choices"][0])
        return json.dumps(completion).encode()
