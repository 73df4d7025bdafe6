# `make demo` shows the whole main job and keeps serving; `make test` checks everything. Both set themselves up.
PYTHON ?= python3
PROCESSES = -n auto --maxprocesses 8 --dist worksteal

.PHONY: demo test test-long test-vllm up lint env

demo: env
	.venv/bin/python manage.py demo

up: env
	.venv/bin/python manage.py up

test: env
	.venv/bin/python -m pytest $(PROCESSES)

# more examples, kills and seeds of what `make test` asks a few of
test-long: env
	.venv/bin/python -m pytest $(PROCESSES) -m long

# exports served by vLLM, in an environment of its own: 3.5 GB, two minutes the first time
test-vllm: env
	$(PYTHON) tests/vllm/environment.py .venv-vllm
	TRACE_VLLM=.venv-vllm/bin/vllm .venv/bin/python -m pytest tests/vllm -m vllm

lint: env
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

env:
	@$(PYTHON) trace_site/dev/bootstrap.py ml dev
