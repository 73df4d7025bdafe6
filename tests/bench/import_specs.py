"""How long imports take: made-up specs of ten megabytes in each format, and the public catalogs where they are found.

    TRACE_HOME=/some/empty/folder python -m tests.bench.import_specs [--megabytes 10]

Prints one line a file: tools, seconds to read it in its child, seconds of the whole import, memory held here.
"""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=10)
    size = int(parser.parse_args().megabytes * 1e6)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from tests.catalog.spec_files import honest_edmx, honest_json, honest_yaml

    call_command("migrate", verbosity=0)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("big.json", honest_json), ("big.yaml", honest_yaml), ("big.edmx", honest_edmx)):
            path = Path(folder) / name
            path.write_text(make(size))
            measure(path)
    for path in sorted((Path(settings.TRACE_PUBLIC_DATA) / "catalog").glob("*.jsonl")):
        measure(path)


def measure(path: Path) -> None:
    from catalog.core.importers.read import read_catalog
    from catalog.imports.services import catalog_import

    start = time.perf_counter()
    tools = len(read_catalog(path).records)
    read = time.perf_counter() - start
    start = time.perf_counter()
    catalog_import(path=path, domain=path.stem)
    whole = time.perf_counter() - start
    here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    size = path.stat().st_size / 1e6
    print(
        f"{path.name:15} {size:5.1f} MB {tools:6} tools  read {read:5.1f} s  import {whole:5.1f} s  {here:4.0f} MB"
    )


if __name__ == "__main__":
    main()
