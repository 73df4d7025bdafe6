"""Stands in for `evaluation.ml` and `catalog.ml` where the process boundary is under test.

predict: every query is answered with the tool whose endpoint stands in its text; every question with B. Only what
speaks of pay lies near a tool. What is left out is in no list. With TRACE_BACKEND_URL it says that a server answered.
encode: one-hot rows by the first letter of the text.
"""

import argparse
import json
import os
import sys
from pathlib import Path


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def predict(args: argparse.Namespace) -> None:
    for source, out, decode in args.file:
        args.input, args.out, args.decode = Path(source), Path(out), decode
        predict_one(args)


def predict_one(args: argparse.Namespace) -> None:
    newer = json.loads(args.held.read_text())["tools"] if args.held else []
    tools = [tool["name"] for tool in [*json.loads((args.model / "trace.json").read_text())["tools"], *newer]]
    done = len(args.out.read_text().splitlines()) if args.out.is_file() else 0
    with args.out.open("a") as handle:
        for number, item in enumerate(rows_of(args.input)[done:], start=done + 1):
            answer = {"id": item["id"], "letter": "B", "scores": [0.1, 0.9]}
            if "query" in item:
                may = [name for name in tools if name not in item.get("without", ())]
                found = [name for name in may if name.partition("/")[2] in item["query"]]
                ranked = found + [name for name in may if name not in found]
                trace = "PAYSLIP_PERIOD decides." if args.decode != "fast" else ""
                listed = ranked[: args.k] if args.decode == "fast" else found
                answer = {"id": item["id"], "tools": listed, "scores": [1.0] * len(listed), "trace": trace}
                answer |= {"off_vocabulary": 0, "tokens": 7, "seconds": 0.01}
                near = {
                    "first": -1.0,
                    "lead": 3.0 * bool(found),
                    "nearest": 0.6 if "pay" in item["query"] else 0.1,
                }
                answer["features"] = near
                if trace:  # every trace ends with the same tool
                    answer |= {"follows_trace": found == tools[:1], "trace_tools": tools[:1]}
            if os.environ.get("TRACE_BACKEND_URL"):
                answer["backend"] = {"engine": "vllm", "version": "0.32.0", "host": "gpu.example.com:8000"}
            handle.write(json.dumps(answer) + "\n")
            handle.flush()
            print(json.dumps({"event": "progress", "done": number, "total": 9}), flush=True)
            if os.environ.get("FAKE_ENGINE") == "die" and not done:
                print("the model is broken.", file=sys.stderr)
                raise SystemExit(1)
    print(json.dumps({"event": "answered", "out": str(args.out)}), flush=True)


def encode(args: argparse.Namespace) -> None:
    import numpy as np

    rows = rows_of(args.input)
    args.out.mkdir(parents=True, exist_ok=True)
    matrix = np.zeros((len(rows), 3), dtype=np.float32)
    for number, row in enumerate(rows):
        matrix[number, ord(row["text"][0].lower()) % 3] = 1
    np.save(args.out / "embeddings.npy", matrix)
    (args.out / "ids.json").write_text(json.dumps([row["id"] for row in rows]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent-pipe", action="store_true")
    parser.add_argument("what")
    for name in ("--model", "--out", "--held"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--in", dest="input", type=Path)
    parser.add_argument("--encoder")
    parser.add_argument("--file", nargs=3, action="append", default=[])
    parser.add_argument("--k", type=int)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    {"predict": predict, "encode": encode}[args.what](args)


if __name__ == "__main__":
    main()
