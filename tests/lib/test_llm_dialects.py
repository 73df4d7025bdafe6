"""Servers differ in what they take and in how they wrap a right answer; neither costs an answer, nor many calls."""

import asyncio
import json
from functools import partial

import pytest

from tests.lib.test_llm_faults import KEY, Books
from tests.llm_dialects import DIALECTS, WRAPS, DialectServer, bare
from trace_site.lib.llm import client, limiter
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import FATAL, Endpoint

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["ok"],
    "additionalProperties": False,
}


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setattr(client, "backed_off", partial(limiter.backed_off, base=0.02))
    servers = []

    def made(**options):
        servers.append(DialectServer(**options))
        return servers[-1]

    yield made
    for server in servers:
        server.close()


def ask(server, number=1, *, books=None, probe=False, max_tokens=600, retries=0, **options):
    async def main():
        client = Client(Endpoint(server.url, "m", KEY, retries=retries, **options), ledger=books)
        try:
            if probe:
                await client.probe()
            asked = [
                client.ask(
                    [{"role": "user", "content": f"q{n}"}],
                    schema=SCHEMA,
                    purpose="judge",
                    temperature=0.9,
                    seed=n,
                    max_tokens=max_tokens,
                )
                for n in range(number)
            ]
            return await asyncio.gather(*asked, return_exceptions=True), dict(client.manner)
        finally:
            await client.close()

    return asyncio.run(main())


def answered(ends):
    return [getattr(end, "data", end) for end in ends]


@pytest.mark.parametrize("name", [*DIALECTS, "bare"])
def test_a_field_that_is_refused_by_name_is_refused_once(serve, name):
    refuse, wrap = DIALECTS.get(name, (bare, None))
    server = serve(refuse=refuse, wrap=wrap)
    ends, changes = ask(server, 16, probe=True)
    assert answered(ends) == [{"ok": True}] * 16
    assert changes.keys() <= {"max_tokens", "max_completion_tokens", "temperature", "seed", "response_format"}
    assert server.refused <= (2 if name != "bare" else 7)
    refused = server.refused
    assert answered(ask(server, 4)[0]) == [{"ok": True}] * 4  # another client of the process
    assert server.refused == refused


REFUSALS = [
    (
        400,
        '{"error":{"message":"Unsupported value: temperature does not support 0.9","code":"x"}}',
        "temperature",
    ),
    (400, '{"error":{"message":"Unknown parameter: \'seed\'.","param":"seed"}}', "seed"),
    (
        422,
        '{"detail":[{"loc":["body","response_format"],"msg":"Extra inputs are not permitted"}]}',
        "response_format",
    ),
    (400, '{"message":"Invalid schema for structured output: minItems"}', "response_format"),
    (501, '{"error":"guided decoding is not implemented"}', "response_format"),
    (400, '{"error":{"message":"max_tokens is too large: 600; at most 512 for this model"}}', "max_tokens"),
    (400, '{"error":{"message":"JSON mode is not enabled for this model"}}', "response_format"),
    (422, '{"error":"Unrecognized field: strict"}', "response_format"),
    (400, '{"error":{"message":"The request was rejected: seed is no known field"}}', "seed"),
    (400, "`temperature` must be strictly positive and at most 1, unsupported", "temperature"),
    (500, '{"error":{"error":{"message":"unexpected keyword argument \'max_tokens\'"}}}', "max_tokens"),
    (400, "<html><h1>400</h1><p>Unknown parameter: max_tokens</p></html>", "max_tokens"),
    (400, '{"errors":[{"source":{"pointer":"/max_tokens"},"title":"no such field"}]}', "max_tokens"),
    (400, '{"error":{"message":"Unknown name \\"maxTokens\\": Cannot find field."}}', "max_tokens"),
    (
        400,
        '{"error":{"message":"Provider returned error","metadata":{"raw":"{\\"param\\":\\"seed\\"}"}}}',
        "seed",
    ),
    (400, '{"error":{"details":[{"fieldViolations":[{"field":"seed","description":"no"}]}]}}', "seed"),
    (400, '{"message":"not valid","validation":[{"params":{"additionalProperty":"seed"}}]}', "seed"),
    (422, '{"detail":"bad","body":{"messages":[],"max_tokens":600},"input":{"seed":5}}', "seed"),
    (400, '{"error":"Bad Request","message":"Unrecognized field \\"seed\\""}', "seed"),
    (400, '{"title":"Validation failed.","errors":{"seed":["The field is not known."]}}', "seed"),
    (403, '{"error":{"message":"not allowed in this plan","param":"seed"}}', "seed"),
    (409, '{"error":{"message":"seed cannot be combined","param":"seed"}}', "seed"),
    (400, '{"error":{"message":"Invalid type","param":"text.format.schema"}}', "response_format"),
    (
        400,
        '{"error":{"code":"json_validate_failed","message":"Failed to generate JSON."}}',
        "response_format",
    ),
]


@pytest.mark.parametrize(("status", "body", "field"), REFUSALS)
def test_each_way_of_naming_a_field_is_understood(serve, status, body, field):
    server = serve()
    told = {"max_tokens": ("max_tokens", "max_completion_tokens")}.get(field, (field,))
    server.refuse = lambda asked: (status, body) if set(told) & set(asked) else None
    ends, changes = ask(server)
    assert answered(ends) == [{"ok": True}]
    assert field in changes


@pytest.mark.parametrize("body", ["", "Bad Request", '{"status": 400}'])
def test_a_server_that_refuses_and_names_no_field_is_asked_plainly(serve, body):
    server = serve(refuse=lambda asked: (400, body) if "seed" in asked else None)
    ends, changes = ask(server, 8, retries=4)
    assert answered(ends) == [{"ok": True}] * 8
    assert changes.keys() == {"max_tokens", "temperature", "seed", "response_format"}
    assert len(server.requests) == 8 + 3


def test_refusals_come_once_however_many_calls_begin_at_a_time(serve):
    server = serve(refuse=bare)
    assert answered(ask(server, 16)[0]) == [{"ok": True}] * 16
    assert server.refused == 2  # response_format has a simpler form, which is refused too


def test_an_unclear_refusal_of_the_very_first_prompt_is_that_prompts(serve):
    server = serve()
    server.refuse = lambda body: (400, "No.") if body["messages"][0]["content"] == "q0" else None
    ends, changes = ask(server, 3, retries=4)
    assert ends[0].code == "llm_prompt_refused" and "No." in str(ends[0])
    assert answered(ends[1:]) == [{"ok": True}] * 2 and not changes


def test_an_unclear_refusal_that_passes_costs_no_answer(serve):
    server = serve()
    server.faults = ["ok", "400", "ok", "400", "400"]
    assert answered(ask(server, 6, concurrency=1, retries=4)[0]) == [{"ok": True}] * 6


@pytest.mark.parametrize("fault", ["500", "502", "html", "nothing", "reset"])
def test_an_endpoint_that_fails_whatever_is_asked_ends_the_run_in_few_calls(serve, fault):
    server = serve()
    server.faults = [fault] * 1000
    (error,), _ = ask(server, retries=2)
    assert error.code == "llm_unavailable" and error.code in FATAL
    assert len(server.requests) == 3 + 3


def test_a_schema_that_the_server_takes_not_is_told_in_the_prompt(serve):
    server = serve(refuse=DIALECTS["deepseek"][0])
    ask(server)
    last = server.requests[-1]
    assert last["response_format"] == {"type": "json_object"}
    assert last["messages"][0]["content"].startswith("q0\n") and '"score"' in last["messages"][0]["content"]


def test_options_of_the_settings_override(serve):
    server = serve()
    options = '{"seed": null, "temperature": 1, "reasoning_effort": "low"}'
    ends, _ = ask(server, options=options)
    assert answered(ends) == [{"ok": True}]
    sent = server.requests[0]
    assert "seed" not in sent and (sent["temperature"], sent["reasoning_effort"]) == (1, "low")


ELSEWHERE = {
    "tool call": lambda text: {"tool_calls": [{"function": {"name": "judge", "arguments": text}}]},
    "function call": lambda text: {"function_call": {"name": "judge", "arguments": text}},
    "taken for thinking": lambda text: {"reasoning_content": text},
    "one part": lambda text: {"content": {"type": "text", "text": text}},
    "nested parts": lambda text: {"content": [[{"type": "text", "text": {"value": text}}]]},
    "an object": lambda text: {"content": {"ok": True}},
    "a thought beside": lambda text: {
        "content": [{"text": '{"ok": false}', "thought": True}, {"text": text}]
    },
    "a text of a text": lambda text: {"content": json.dumps(json.dumps(text))},
    "a list of one": lambda text: {"content": f"[{text}]"},
    "said twice": lambda text: {"content": f"{text}\n{text}"},
    "braces around": lambda text: {"content": f"I fill {{id}} in:\n{text}\nNote: {{ok}} was clear."},
    "another mark": lambda text: {"content": f"<analysis>{{x}}</analysis>{text}<|im_end|>"},
    "a mark of its own": lambda text: {"content": f"◁think▷{{x}}◁/think▷{text}"},
    "long fence": lambda text: {"content": f"Sure.\n````JSON\n{text}\n````\n"},
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_answer_counts_wherever_it_stands(serve, name):
    def wrap(choice):
        text = choice["message"]["content"]
        choice["message"] |= {"content": None, **ELSEWHERE[name](text)}

    assert answered(ask(serve(wrap=wrap), 2)[0]) == [{"ok": True}] * 2


@pytest.mark.parametrize("name", WRAPS)
def test_wrapping_is_taken_off(serve, name):
    books = Books()
    ends, _ = ask(serve(wrap=WRAPS[name]), 3, books=books)
    assert answered(ends) == [{"ok": True}] * 3


def test_whole_numbers_in_quotes_count(serve):
    server = serve(answers=lambda body: {"ok": True, "score": "5"})
    assert answered(ask(server)[0]) == [{"ok": True, "score": 5}]
    for score in (" 4 ", "4.0", 4.0, "+4"):
        server.answers = lambda body, score=score: {"ok": True, "score": score}
        assert answered(ask(server)[0]) == [{"ok": True, "score": 4}]
    for wrong in ("9", "five", "4.5", "", "4/5"):
        server.answers = lambda body, wrong=wrong: {"ok": True, "score": wrong}
        assert ask(server)[0][0].code == "llm_bad_schema"


@pytest.mark.parametrize(
    "text",
    [
        '{"ok": true} or {"ok": false}',
        '```\n{"ok": true}\n```\n```\n{"ok": false}\n```',
        "ok: true",
        "{'ok': 1}",
    ],
)
def test_nothing_else_is_repaired(serve, text):
    def wrap(choice):
        choice["message"]["content"] = text

    assert ask(serve(wrap=wrap))[0][0].code == "llm_bad_json"


def starving(server, least):
    def wrap(choice):
        sent = server.requests[-1]
        if sent.get("max_tokens", 0) < least:
            choice["finish_reason"] = "length"
            choice["message"] |= {"content": "", "reasoning_content": "hm hm hm"}

    server.wrap = wrap


@pytest.mark.parametrize(
    "wrong",
    [
        {"finish_reason": "length"},
        {"finish_reason": "MAX_TOKENS", "content": None},
        {"finish_reason": "model_length", "content": "<think>hm hm"},
        {"finish_reason": "stop", "content": '{"ok": true, "sco'},
        {"finish_reason": "length", "content": '```json\n{"ok": tr'},
        {"finish_reason": "stop", "content": "", "reasoning_content": "hm hm hm"},
    ],
)
def test_each_way_of_being_cut_off_gets_a_higher_limit(serve, wrong):
    server = serve()

    def wrap(choice):
        if server.requests[-1]["max_tokens"] < 4000:
            choice["finish_reason"] = wrong["finish_reason"]
            choice["message"] |= {"content": "", **wrong}

    server.wrap = wrap
    assert answered(ask(server)[0]) == [{"ok": True}]
    assert len(server.requests) == 2


@pytest.mark.parametrize(("least", "calls"), [(4000, 2), (10_000, 3), (32_000, 4)])
def test_thinking_that_eats_the_limit_gets_a_higher_one(serve, least, calls):
    server = serve()
    starving(server, least)
    assert answered(ask(server)[0]) == [{"ok": True}]
    assert len(server.requests) == calls
    assert answered(ask(server)[0]) == [{"ok": True}]
    assert len(server.requests) == calls + 1


def test_thinking_without_an_end_names_what_to_raise(serve):
    server = serve()
    starving(server, 10**9)
    (error,), _ = ask(server)
    assert error.code == "llm_truncated" and "max_tokens" in str(error)


ONE_PROMPT = [
    (400, {"error": {"message": "A filter refused this prompt; change it.", "code": "content_filter"}}),
    (400, {"error": {"message": "Content Exists Risk", "code": "invalid_request_error"}}),
    (400, {"error": {"code": "DataInspectionFailed", "message": "Input may hold inappropriate content."}}),
    (403, {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["x"]}}}),
    (451, {"error": "not here"}),
    (400, {"error": {"message": "Prompt blocked due to security configurations"}}),
    (
        400,
        {
            "error": {
                "message": "Invalid prompt: potentially violating our usage policy",
                "code": "invalid_prompt",
            }
        },
    ),
    (422, {"detail": "This language is not supported by the model's safety check: language not supported"}),
]
LONG = [
    (400, {"error": {"message": "This model's maximum context length is 8192 tokens."}}),
    (400, {"error": {"type": "exceed_context_size_error", "message": "exceeds the available context size"}}),
    (500, {"error": {"message": "the request exceeds the context window"}}),
    (400, {"error": {"message": "prompt is too long: 9000 tokens > 8000 maximum"}}),
    (413, {"error": "Request too large"}),
    (
        429,
        {"error": {"message": "Request too large for m: limit 30000, requested 40000", "code": "rate_limit"}},
    ),
    (400, {"error": {"message": "Range of input length should be [1, 30720]"}}),
]


@pytest.mark.parametrize("refusal", [*ONE_PROMPT, *LONG])
def test_a_refusal_of_a_prompt_is_no_fault_of_the_endpoint(serve, refusal):
    books = Books()
    (error,), _ = ask(serve(refuse=lambda body: refusal), books=books, retries=4)
    assert error.code == ("llm_too_long" if refusal in LONG else "llm_prompt_refused")
    assert error.permanent and error.code not in FATAL
    assert len(books.ends) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"finish_reason": "error", "error": {"code": 502, "message": "lost the server behind"}},
        {"finish_reason": "error"},
        {"finish_reason": "insufficient_system_resource"},
        {"error": {"code": "503", "message": "overloaded"}},
        {"error": "upstream timeout"},
        {"error": {"code": 400, "message": "Provider returned error"}},
    ],
)
def test_an_error_in_a_choice_is_of_the_moment(serve, wrong):
    server = serve()
    left = [1]

    def wrap(choice):
        if left:
            left.pop()
            choice["message"]["content"] = ""
            choice |= wrong

    server.wrap = wrap
    assert answered(ask(server, retries=2)[0]) == [{"ok": True}]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "said"),
    [(402, "Insufficient Balance"), (400, "Your credit balance is too low"), (403, "billing is not set up")],
)
def test_an_empty_account_ends_the_run_with_the_servers_words(serve, status, said):
    (error,), _ = ask(serve(refuse=lambda body: (status, {"error": {"message": said}})), retries=4)
    assert error.code == "llm_quota" and said in str(error)


def test_the_servers_sentence_is_told_without_keys_and_cut(serve):
    said = f"no model by this name for {KEY} or sk-proj-ab12cd34ef56\n" + "because " * 100
    (error,), _ = ask(serve(refuse=lambda body: (404, {"error": {"message": said}})))
    assert error.code == "llm_bad_request" and "no model by this name for … or … because" in str(error)
    assert KEY not in str(error) and "sk-" not in str(error) and len(error.server_text) <= 201


def test_an_unclear_refusal_is_a_prompts_while_others_are_answered(serve):
    server = serve()
    server.faults = ["ok", "400", "ok", *["400"] * 7]
    ends, _ = ask(server, 10, concurrency=1)
    codes = [getattr(end, "code", "") for end in ends]
    assert codes == ["", "llm_prompt_refused", "", *["llm_prompt_refused"] * 5, *["llm_bad_request"] * 2]
