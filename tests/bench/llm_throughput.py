"""Calls per second of trace_site.lib.llm at concurrency 64 against the fault server: beside the ideal and a peer.

    python -m tests.bench.llm_throughput --peer /some/venv/bin/python [--peer-kind distilabel] [--calls 20000]

The peer's environment is made once: `pip install "distilabel[openai]==1.5.3" "openai<2" requests`, or
`pip install bespokelabs-curator` with --peer-kind curator; tests/bench/llm_peer.py says how each is configured.

First pairs of short runs, ours and the peer in turn (--pair-calls each), then one long run of ours, whose memory is
read every 1,000 calls. Each side runs in a process of its own, on the same server with the same seed: lognormal
latency (median 300 ms), 2 % 429 with Retry-After 1, 1 % 500, 0.5 % hang, 2 % truncated, 1 % refusal. Both wait
PATIENCE seconds for an answer before they send again. The rate is calls / (last answer - first request) in the
server's books, so nobody's start counts; ideal is the upper bound of Books.ideal. Goals: >= 0.85 of
the ideal in the long run, memory flat (the last quarter within 3 MB of the second), >= 1.5x the peer (median of
the pairs' ratios).
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.llm_load import ROOT, LoadServer

CONCURRENCY = 64
WORKERS = 96  # calls at a time: those that wait to be sent again hold no slot
PATIENCE = 3.0  # seconds; the server's slowest of 20,000 answers takes about 2
PROMPT = "A rule of the catalog and the tools of its pool, as long as such prompts are. " * 20
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "critique": {"type": "string"},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["id", "critique", "score"],
    "additionalProperties": False,
}


def main() -> int:
    options = parse()
    if options.ours:
        print(json.dumps(asyncio.run(ours(options.ours, options.calls))))
        return 0
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {CONCURRENCY} in flight", flush=True)
    with LoadServer(seed=options.seed) as server:
        ratios = pairs(server, options) if options.peer else []
        mine = run(server, "ours", our_command(server, options.calls), options.calls)
    memory = mine["rss"]
    quarter = max(1, len(memory) // 4)
    growth = max(memory[-quarter:]) - max(memory[quarter : 2 * quarter] or memory)
    print(f"ours: {mine['ends']}, {mine['cpu'] / options.calls * 1000:.2f} ms of processor a call")
    print(f"memory in MB every 1,000 calls: {' '.join(f'{one:.0f}' for one in memory)}; growth {growth:+.1f}")
    reached = [mine["share"] >= 0.85, growth < 3, not ratios or statistics.median(ratios) >= 1.5]
    verdict = "reached" if all(reached) else "MISSED"
    print(f"of ideal {mine['share']:.3f} (goal 0.85), of peer {ratios} (goal 1.5): {verdict}")
    return 0 if all(reached) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default="", help="the Python of the peer's environment")
    parser.add_argument("--peer-kind", choices=("distilabel", "curator"), default="distilabel")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--pair-calls", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ours", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def pairs(server: LoadServer, options: argparse.Namespace) -> list[float]:
    """Our rate over the peer's, each in turn on the same seed."""
    peer = [options.peer, str(ROOT / "tests/bench/llm_peer.py"), options.peer_kind, server.url]
    peer += [str(options.pair_calls), str(CONCURRENCY), str(PATIENCE)]
    ratios = []
    for _ in range(options.pairs):
        mine = run(server, "ours", our_command(server, options.pair_calls), options.pair_calls)
        theirs = run(server, options.peer_kind, peer, options.pair_calls)
        ratios.append(round(mine["rate"] / theirs["rate"], 2))
    return ratios


def our_command(server: LoadServer, calls: int) -> list[str]:
    return [sys.executable, "-m", "tests.bench.llm_throughput", "--ours", server.url, "--calls", str(calls)]


def run(server: LoadServer, name: str, command: list[str], calls: int) -> dict[str, Any]:
    """Run one side; what it printed last, its rate by the server's books and the share of the ideal."""
    server.control(reset=True)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    exchanges = server.exchanges()
    seconds = max(one.ended for one in exchanges) - exchanges[0].at
    books, last = server.books(), done.stdout.strip().splitlines()[-1]
    rate, ideal = calls / seconds, server.ideal(CONCURRENCY)
    print(
        f"{name:<11}{calls:>7,} calls {len(exchanges):>7,} exchanges {rate:7.1f} calls/s, ideal {ideal:.1f}, share "
        f"{rate / ideal:.3f}, peak {books['peak']}, sent too early {books['early']}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    found = json.loads(last) if last.startswith("{") else {}
    return {**found, "rate": rate, "share": rate / ideal}


async def ours(url: str, calls: int) -> dict[str, Any]:
    """Our side: how the calls ended, processor seconds, and resident memory in MB every 1,000 calls."""
    from trace_site.lib.errors import TraceError
    from trace_site.lib.llm.client import Client
    from trace_site.lib.llm.exchange import Endpoint

    client = Client(Endpoint(url, "m", "key", attempt_timeout=PATIENCE, concurrency=CONCURRENCY))
    ends: dict[str, int] = {}
    rss: list[float] = []
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            prompt = [{"role": "user", "content": f"{PROMPT}\nquestion {number}"}]
            try:
                await client.ask(prompt, schema=SCHEMA, purpose="bench", max_tokens=200)
                end = "ok"
            except TraceError as error:
                end = error.code
            ends[end] = ends.get(end, 0) + 1
            if number % 1000 == 999:
                rss.append(resident())

    started = time.process_time()
    await asyncio.gather(*(work() for _ in range(WORKERS)))
    await client.close()
    return {"ends": ends, "cpu": time.process_time() - started, "rss": rss}


def resident() -> float:
    """MB of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    raise SystemExit(main())
