# `make demo` shows the whole main job and keeps serving; `make test` checks everything. Both set themselves up.
PYTHON ?= python3

.PHONY: demo test up lint env

demo: env
	.venv/bin/python manage.py demo

up: env
	.venv/bin/python manage.py up

test: env
	.venv/bin/python -m pytest

lint: env
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

env:
	@$(PYTHON) trace_site/bootstrap.py ml dev
