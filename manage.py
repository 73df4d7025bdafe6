#!/usr/bin/env python
"""Entry point of every command; starts the embedded services first when a command needs them."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    try:
        import django
        from django.core.management import execute_from_command_line
    except ImportError as error:
        sys.exit(
            f"Django is not installed ({error}). Run `make demo` or `make test` once, then use .venv/bin/python."
        )
    from trace_site.audit_context import acting
    from trace_site.dev.services import ensure_services
    from trace_site.lib.errors import TraceError
    from trace_site.lib.loading import loading_modules

    try:
        if sys.argv[1:2] and sys.argv[1] not in {"help", "--help", "collectstatic"}:
            ensure_services()
        with loading_modules():
            django.setup()
        with acting(None, f"command {' '.join(sys.argv[1:2])}"):
            execute_from_command_line(sys.argv)
    except TraceError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
