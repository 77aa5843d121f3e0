.PHONY: bench bench-gpu browser help quickstart test test-any-processor test-proofs test-full-width test-gpu test-trt tune-gpu check format up clean
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Toy models are up to 20 times slower with more threads than idle cores.
export OMP_NUM_THREADS ?= 1

help:  ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

quickstart: .venv/.cpu  ## export, prove, serve and ask the shipped models
	$(BIN)/python -m quickstart

test: .venv/.dev browser  ## run every test, in two processes
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# What stands in for TensorRT and a GPU: docs/tensorrt.md says what each proves.
PROOFS := tests/export/kernels tests/export/plugins tests/export/engines tests/export/test_engine.py \
	tests/export/test_refit.py tests/export/restrictions tests/export/test_target_check.py tests/serving/runtime/trt \
	tests/serving/runtime/test_trt_runner.py tests/serving/runtime/test_create_runners_with_engines.py \
	tests/serving/runtime/test_torch_runner.py tests/serving/runtime/test_torch_capture.py \
	tests/serving/repository/test_engines.py tests/models/test_engine_manifest.py tests/test_deployment.py \
	tests/test_image_contents.py tests/test_tensorrt_guide.py

test-proofs: .venv/.dev  ## of `make test`, what can be proved of engines and kernels without TensorRT and a GPU
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(PROOFS)

# What compares floats, with other libraries' models or with float64, and what the shipped checkpoints answer. Under each
# limit torch adds the same numbers in another order. An AMD processor gets the same kernels of MKL whatever
# MKL_ENABLE_INSTRUCTIONS says; MKL_CBWR=COMPATIBLE gives it others. ONNX Runtime and OpenVINO know none of these.
MEASURED := tests/export/quality/test_measure.py
NUMERIC := tests/test_instruction_sets.py tests/models/layers tests/models/families tests/models/tasks \
	tests/models/explain tests/models/checkpoints/foreign tests/models/test_agreement.py tests/models/train/test_digits.py \
	tests/models/train/test_command.py tests/export/test_translations.py tests/export/kernels/test_*_reference.py \
	$(MEASURED)::test_both_graphs_of_a_shipped_translator_are_measured_on_held_out_dates \
	$(MEASURED)::test_a_classifier_is_served_as_it_stands_and_reads_every_held_out_digit \
	tests/serving/generation/test_embedder.py \
	tests/serving/generation/test_classifier.py::test_requests_are_answered_as_if_each_had_come_alone
# Of these, what computes nothing, trains, starts a process of its own, or draws many splits of one decode.
NOT_NUMERIC := the_command or refused or every_name or every_tensor or every_architecture or drawing or loss or seed \
	or registry or training or any_split
LIMITS := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2

test-any-processor: .venv/.dev  ## the numeric half of the tests, as on processors with fewer instructions
	for limits in $(wordlist 1,2,$(LIMITS)) "$(word 3,$(LIMITS)) MKL_CBWR=COMPATIBLE" "$(LIMITS)"; do \
		echo "$$limits"; \
		env $$limits $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --ignore tests/models/explain/test_command.py \
			-k "not ($(NOT_NUMERIC))" $(NUMERIC) || exit 1; \
	done

test-full-width: .venv/.dev  ## import and serve models as wide as published: some minutes, 8 GB of memory
	$(BIN)/python -m pytest -m full_width

test-gpu: .venv/.dev  ## run the tests that need a GPU; without one, each says so
	$(BIN)/python -m pytest -m needs_gpu -rs

test-trt: .venv/.dev  ## build engines and run them, where TensorRT and a GPU are
	$(BIN)/python -m pytest -m needs_tensorrt

bench-gpu: .venv/.cpu  ## run every benchmark of a GPU; the results go to benchmarks/results
	$(BIN)/python benchmarks/gpu/all.py

tune-gpu: .venv/.dev  ## time the kernels' tiles on this GPU, and keep them where the kernels read them
	$(BIN)/python benchmarks/gpu/tiles.py
	$(BIN)/python -m export.kernels.figures

bench: .venv/.cpu  ## run the latency tests against Triton, and compare them with their baselines
	$(BIN)/python benchmarks/latency/bench.py

check: .venv/.dev  ## format, lint, types, imports, layout
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_layout.py tests/test_command_lines.py

format: .venv/.dev  ## let ruff rewrite the files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

up: .venv/.cpu  ## serve model_repository/ until Ctrl-C, with a page to try it on at http://127.0.0.1:8080
	$(BIN)/python -m serving up --gateway-port 8080

# Pages are looked at in Debian's Chromium; where it cannot be installed, their tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 \
		|| echo "no chromium, and it could not be installed: tests that look at pages will be skipped"

clean:  ## remove the environment and everything built
	rm -rf .venv build model_repository/*/1/*.onnx .mypy_cache .ruff_cache .pytest_cache .hypothesis

# timm, which models are compared with, comes without torchvision: that needs CUDA's libraries, and breaks transformers.
# Triton compiles and interprets the kernels (273 MiB to fetch, 1 GB installed). It is no requirement and not in
# constraints.txt: a CUDA build of torch demands the very Triton that it brings along, which then stays.
# TensorRT's bindings, 1 MB each, lie apart: both versions are one package, and need libraries that tests make with gcc.
# torch is installed first and alone: a later requirement on it then finds the CPU build.
.venv/.torch: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11) and "expected Python 3.11 to 3.13; found " + sys.version + "; run make with PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	@touch $@

.venv/.cpu: .venv/.torch pyproject.toml
	$(PIP) --editable '.[cpu]'
	@touch $@

.venv/.dev: .venv/.cpu
	$(PIP) --editable '.[cpu,dev]'
	$(PIP) --no-deps timm==1.0.31
	$(BIN)/python -c 'import triton' 2>/dev/null || $(PIP) --no-deps triton==3.9.0
	$(PIP) --no-deps --upgrade --target .venv/tensorrt-11.4 tensorrt-cu13-bindings
	$(PIP) --no-deps --upgrade --target .venv/tensorrt-10.16 tensorrt-cu12-bindings
	@touch $@
