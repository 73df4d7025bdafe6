"""`python -m evaluation.ml predict|serve`: answer a file of items, or requests over HTTP, without Django."""

import argparse
import os
import sys
from pathlib import Path

from catalog.ml.child import run_command
from trace_site.lib.loading import loading_modules
from trace_site.lib.store import Store


def run_predict(args: argparse.Namespace) -> None:
    with loading_modules():  # torch loads only after the arguments are accepted
        from evaluation.ml.engine import ItemFile, predict_files

    files = [ItemFile(Path(source), Path(out), decode) for source, out, decode in args.file]
    predict_files(args.model, files, args.k, args.threads, args.held)


def run_serve(args: argparse.Namespace) -> None:
    from evaluation.ml.server import serve

    endpoint = os.environ.get("STORE_ENDPOINT_URL")
    store = Store(args.store, args.cache, {"endpoint_url": endpoint} if endpoint else {})
    names = [name.strip() for name in os.environ.get("ENGINE_HOSTS", "").split(",") if name.strip()]
    token = os.environ.get("ENGINE_TOKEN", "")
    serve(args.host, args.port, store, args.threads, token=token, names=names)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="evaluation.ml", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("predict", help="items.jsonl -> predictions.jsonl")
    command.add_argument("--model", type=Path, required=True)
    command.add_argument(
        "--file",
        nargs=3,
        action="append",
        required=True,
        metavar=("IN", "OUT", "DECODE"),
        help="may be repeated",
    )
    command.add_argument("--k", type=int, default=10)
    command.add_argument("--threads", type=int, default=2)
    command.add_argument(
        "--held", type=Path, help='JSON {"tools", "clauses"} that the model is to answer with too, untrained'
    )
    command.set_defaults(run=run_predict)
    command = commands.add_parser("serve", help="POST /retrieve, GET /health")
    command.add_argument(
        "--host",
        default="127.0.0.1",
        help="another than loopback needs ENGINE_TOKEN, and its names in ENGINE_HOSTS",
    )
    command.add_argument("--port", type=int, required=True)
    command.add_argument(
        "--store",
        required=True,
        help="STORE_URL of the site: what models are fetched from, and from nowhere else",
    )
    command.add_argument(
        "--cache",
        type=Path,
        required=True,
        help="folder for the copies of a store that is no folder of this machine",
    )
    command.add_argument("--threads", type=int, default=2)
    command.set_defaults(run=run_serve)
    # before transformers loads: exports are whole, nothing is fetched for them
    os.environ["HF_HUB_OFFLINE"] = "1"
    return run_command(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
