"""The peers of tests.bench.llm_throughput, run by the Python of their own environment.

    python tests/bench/llm_peer.py <distilabel|curator> <url> <calls> <in flight> <patience in seconds>

distilabel 1.5.3: one step of the pipeline whose batch is as large as what may be in flight (the batch is sent at once
and waited for as a whole; eight replicas of eight were slower); retries and Retry-After are those of the openai
client inside (max_retries=6, its default). curator: max_concurrent_requests, no limits per minute, and a pause of
one second on a rate limit in place of ten, as the server asks for; its token counter, which needs a download, is
replaced by one that takes no time.
"""

import os
import sys
import tempfile
from types import SimpleNamespace


def main() -> None:
    kind, url, calls, flying, patience = sys.argv[1], sys.argv[2], *map(int, map(float, sys.argv[3:]))
    questions = [f"question {number}" for number in range(calls)]
    {"distilabel": distilabel, "curator": curator}[kind](url, questions, flying, patience)


def distilabel(url: str, questions: list[str], flying: int, patience: int) -> None:
    from distilabel.models import OpenAILLM
    from distilabel.pipeline import Pipeline
    from distilabel.steps import LoadDataFromDicts
    from distilabel.steps.tasks import TextGeneration

    llm = OpenAILLM(
        model="m",
        base_url=url,
        api_key="key",
        timeout=patience,
        max_retries=6,
        generation_kwargs={"max_new_tokens": 200, "response_format": {"type": "json_object"}},
    )
    with Pipeline(name="peer") as pipeline:
        rows = LoadDataFromDicts(data=[{"instruction": one} for one in questions], batch_size=flying)
        rows >> TextGeneration(llm=llm, input_batch_size=flying)
    made = pipeline.run(use_cache=False)
    print(f"rows {len(made['default']['train'])}")


def curator(url: str, questions: list[str], flying: int, patience: int) -> None:
    os.environ["TELEMETRY_ENABLED"] = "false"
    import tiktoken
    from bespokelabs import curator as library

    counter = SimpleNamespace(encode=lambda text, **options: [0] * (len(text) // 4))
    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: counter

    class Asked(library.LLM):  # type: ignore[misc]
        def prompt(self, row: dict[str, str]) -> str:
            return row["question"]

        def parse(self, row: dict[str, str], response: str | None) -> dict[str, str]:
            return {"answer": response or ""}

    model = Asked(
        model_name="gpt-4o-mini",
        backend="openai",
        backend_params={
            "base_url": url,
            "api_key": "key",
            "max_concurrent_requests": flying,
            "max_requests_per_minute": 1_000_000,
            "max_tokens_per_minute": 1_000_000_000,
            "seconds_to_pause_on_rate_limit": 1,
            "request_timeout": patience,
            "max_retries": 10,
            "require_all_responses": False,
        },
        generation_params={"max_tokens": 200},
    )
    with tempfile.TemporaryDirectory() as folder:
        made = model([{"question": one} for one in questions], working_dir=folder)
        print(f"rows {len(getattr(made, 'dataset', made))}")


if __name__ == "__main__":
    main()
