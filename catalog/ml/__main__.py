"""`python -m catalog.ml encode --in texts.jsonl --out DIR`: embeddings without Django."""

import argparse
import sys
from pathlib import Path

from catalog.ml.child import Progress, emit, run_command
from catalog.ml.encoder import DEFAULT_ENCODER, Encoder, read_texts, write_rows
from trace_site.lib.loading import loading_modules


def encode(args: argparse.Namespace) -> None:
    ids, texts = read_texts(args.input)
    with Progress(len(ids), f"loading {args.encoder}") as progress:
        with loading_modules():
            encoder = Encoder(args.encoder, threads=args.threads)
        rows = encoder.encode(texts, lambda done: progress(done, "texts encoded"))
    write_rows(args.out, ids, rows, encoder.name)
    emit("done", rows=len(ids), dimension=int(rows.shape[1]), encoder=encoder.name)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="catalog.ml", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("encode", help="texts.jsonl -> embeddings.npy, ids.json")
    command.add_argument("--in", dest="input", type=Path, required=True)
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--encoder", default=DEFAULT_ENCODER)
    command.add_argument("--threads", type=int, default=2)
    command.set_defaults(run=encode)
    return run_command(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
