"""A server in this process that answers /completions as vLLM does, from a tiny model through transformers. Needs torch.

`faults` is consumed one per completion asked for: "ok", a status ("500"), "429:SECONDS", or a name that `do_POST` and
`damaged` know. `requests` holds every body it was sent.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

NOWHERE = -9999.0
MOST_ALLOWED = 1024
PENALTY = 1.7  # its default, as a generation_config.json may bring one


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that have given up are no news."""


class CompletionsServer:
    def __init__(self, model: Any, name: str, *, key: str = "", longest: int = 4096, **options: Any) -> None:
        """options: processed=True counts log-probabilities after the mask; ignores=[fields] does not know them."""
        self.model, self.name, self.key, self.longest = model, name, key, longest
        self.processed = options.get("processed", False)
        self.ignores = frozenset(options.get("ignores", ()))
        self.likeliest = options.get("likeliest", 20)
        self.faults: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"house": self})
        self.http = Listener(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=lambda: self.http.serve_forever(poll_interval=0.01), daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def chosen(self, ids: list[int], logits: torch.Tensor, body: dict[str, Any]) -> int:
        """The greedy token under the request's mask and penalty."""
        penalty = body.get("repetition_penalty", PENALTY)
        seen = torch.tensor(sorted(set(ids)))
        logits[seen] = torch.where(logits[seen] > 0, logits[seen] / penalty, logits[seen] * penalty)
        if body.get("allowed_token_ids"):
            mask = torch.full_like(logits, -torch.inf)
            mask[body["allowed_token_ids"]] = 0
            logits += mask
        return int(logits.argmax())

    @torch.inference_mode()
    def written(self, body: dict[str, Any]) -> Any:
        """(token, its score, {token: score} of the likeliest, why it ends or None), one after the other."""
        ids, stop = list(body["prompt"]), set(body.get("stop_token_ids", ()))
        if not body.get("ignore_eos"):
            stop.add(self.model.config.eos_token_id)
        fed, cache = ids, None
        for number in range(body["max_tokens"]):
            with self.lock:
                found = self.model(input_ids=torch.tensor([fed]), past_key_values=cache, logits_to_keep=1)
            logits, cache = found.logits[0, -1].float(), found.past_key_values
            changed = logits.clone()
            token = self.chosen(ids, changed, body)
            scores = (changed if self.processed else logits).log_softmax(dim=-1)
            ids, fed = [*ids, token], [token]
            top = scores.topk(min(body.get("logprobs") or 0, self.likeliest))
            likely = {token: float(scores[token])}
            likely |= dict(zip(top.indices.tolist(), top.values.tolist(), strict=True))
            told = {number: max(NOWHERE, score) for number, score in likely.items()}
            last = number + 1 == body["max_tokens"]
            reason = "stop" if token in stop else "length" if last else None
            yield token, told[token], told, reason
            if reason:
                return


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    house: CompletionsServer

    def do_GET(self) -> None:
        if self.path == "/version":
            return self.answer(200, {"version": "0.32.0"})
        row = {"id": self.house.name, "owned_by": "vllm", "max_model_len": self.house.longest}
        self.answer(200, {"object": "list", "data": [row]})

    def do_POST(self) -> None:
        house = self.house
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        house.requests.append(body)
        waits = house.faults and house.faults[0].startswith("stream") and not body.get("stream")
        fault = house.faults.pop(0) if house.faults and not waits else "ok"
        if house.key and self.headers.get("Authorization") != f"Bearer {house.key}":
            return self.mistake(401, "Unauthorized")
        if fault == "hang":
            time.sleep(5)
            self.close_connection = True
            return None
        if fault == "drop":
            self.close_connection = True
            return None
        if fault[:3].isdecimal():
            status, _, after = fault.partition(":")
            return self.mistake(int(status), "no", {"Retry-After": after} if after else {})
        if body["model"] != house.name:
            return self.mistake(404, f"The model `{body['model']}` does not exist.")
        if len(body.get("allowed_token_ids", ())) > MOST_ALLOWED:
            return self.mistake(500, "EngineDeadError")
        if len(body["prompt"]) + body["max_tokens"] > house.longest:
            return self.mistake(400, "This model's maximum context length is exceeded.")
        body = {name: value for name, value in body.items() if name not in house.ignores}
        if body.get("stream"):
            return self.stream(body, fault)
        steps = list(house.written(body))
        choice = self.choice(body, steps)
        answer = {"object": "text_completion", "model": house.name, "choices": [choice]}
        self.answer(200, damaged(answer, fault), cut=fault == "cut")

    def choice(self, body: dict[str, Any], steps: list[Any]) -> dict[str, Any]:
        named = [{f"token_id:{number}": score for number, score in told.items()} for _, _, told, _ in steps]
        logprobs = {
            "tokens": [f"token_id:{token}" for token, *_ in steps],
            "token_logprobs": [score for _, score, *_ in steps],
            "top_logprobs": named,
        }
        return {
            "index": 0,
            "text": "",
            "logprobs": logprobs if body.get("logprobs") is not None else None,
            "finish_reason": steps[-1][3],
            "token_ids": [token for token, *_ in steps] if body.get("return_token_ids") else None,
        }

    def stream(self, body: dict[str, Any], fault: str) -> None:
        """One event a token. "stream:N", which waits for a stream, ends without a word after N of them."""
        most = int(fault.partition(":")[2]) if fault.startswith("stream:") else None
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for number, step in enumerate(self.house.written(body)):
            if number == most:
                return
            event = {"model": self.house.name, "choices": [self.choice(body, [step])]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def mistake(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        self.answer(status, {"error": {"message": message, "code": status}}, headers)

    def answer(
        self, status: int, data: Any, headers: dict[str, str] | None = None, cut: bool = False
    ) -> None:
        payload = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload[: len(payload) // 2] if cut else payload)
        self.close_connection = self.close_connection or cut

    def log_message(self, format: str, *args: Any) -> None:
        pass


def damaged(answer: dict[str, Any], fault: str) -> Any:
    choice = answer["choices"][0]
    if fault == "html":
        return b"<html>502 Bad Gateway</html>"
    if fault == "error_200":
        return {"error": {"message": "upstream is down", "code": 500}}
    if fault == "other_model":
        answer["model"] = "trace-of-another-day"
    if fault == "no_ids":
        choice["token_ids"] = None
    if fault == "no_logprobs":
        choice["logprobs"] = None
    if fault == "short_logprobs":
        choice["logprobs"]["token_logprobs"].pop()
    if fault == "few_likely":  # as where the sampler has mixed two kinds of requests
        first = choice["logprobs"]["tokens"][0]
        choice["logprobs"]["top_logprobs"] = [
            {first: choice["logprobs"]["token_logprobs"][0], "token_id:0": NOWHERE}
        ]
    if fault == "aborted":
        choice["finish_reason"] = "abort"
    if fault == "nothing":
        choice.update(token_ids=[], logprobs={"token_logprobs": [], "top_logprobs": []})
    return answer
