.PHONY: audit bench bench-gpu chaos fuzz soak help quickstart system test test-faults test-slow test-any-processor test-proofs test-full-width \
	test-gpu test-trt tune-gpu check docs format up clean
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
# Python compiles each module when it is first imported, and keeps that: all at once takes as long as the installation.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest --durations=50
# Which tests stay in one process, and which begin first: tests/scheduling.py. A third process saves a sixth of the time on two
# cores (1,070 s instead of 1,305); two tests of 11,386 failed then, one by a race of its own, one not explained.
IN_PARALLEL := --numprocesses 2 --dist loadscope --no-loadscope-reorder
# Toy models are up to 20 times slower with more threads than idle cores.
export OMP_NUM_THREADS ?= 1
APT := apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet --no-install-recommends

help:  ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

# A Ctrl-C while Python itself starts waits until the quickstart can end in order.
BLOCK_CTRL_C := $(shell env --block-signal=INT true 2>/dev/null && echo env --block-signal=INT)
quickstart: .venv/.cpu  ## export, prove, serve and ask the shipped models
	@$(BLOCK_CTRL_C) $(BIN)/python -m commands.quickstart

test: .venv/.dev system  ## prove what the README says: some minutes
	$(PYTEST) $(IN_PARALLEL)

test-slow: .venv/.dev system  ## run the long half of the tests: whole guides, soaks, every preset
	$(PYTEST) $(IN_PARALLEL) -m slow

test-faults: .venv/.dev system  ## run what takes minutes beyond CI's: waits for servers to notice faults, every family in every precision
	$(PYTEST) $(IN_PARALLEL) -m patient

# What stands in for TensorRT and a GPU: docs/guides/tensorrt.md says what each proves.
PROOFS := tests/models/kernels tests/export/tensorrt/plugins tests/export/tensorrt tests/export/tensorrt/test_build.py \
	tests/export/tensorrt/test_refit.py tests/export/targets/constraints tests/export/targets/test_check.py tests/serving/runtime/tensorrt \
	tests/serving/runtime/tensorrt/test_runner.py tests/serving/runtime/test_create_runners_with_engines.py \
	tests/serving/runtime/torch/test_runner.py tests/serving/runtime/torch/test_capture.py \
	tests/serving/triton/repository/test_engines.py tests/attendant/test_engine_manifest.py tests/test_deployment.py \
	tests/test_image_contents.py tests/test_tensorrt_guide.py

test-proofs: .venv/.dev .venv/.compilers  ## of both halves, what can be proved of engines and kernels without TensorRT and a GPU
	$(PYTEST) $(IN_PARALLEL) -m "not needs_tensorrt and not needs_gpu" $(PROOFS)

# What compares floats, with other libraries' models or with float64, and what the shipped checkpoints answer. Under each
# limit torch adds the same numbers in another order. An AMD processor gets the same kernels of MKL whatever
# MKL_ENABLE_INSTRUCTIONS says; MKL_CBWR=COMPATIBLE gives it others. ONNX Runtime and OpenVINO know none of these.
NUMERIC := tests/test_instruction_sets.py tests/models/layers tests/oracles tests/models/families tests/models/tasks \
	tests/models/explain tests/models/checkpoints/importers tests/models/test_agreement.py tests/models/train/test_digits.py \
	tests/models/train/test_command.py tests/export/graph/test_translations.py tests/models/kernels/test_*_reference.py \
	tests/export/quality/test_measure.py::test_a_classifier_is_served_as_it_stands_and_reads_every_held_out_digit \
	tests/serving/engine/test_embedder.py \
	tests/serving/engine/test_classifier.py::test_requests_are_answered_as_if_each_had_come_alone
# Of these, what compares no two ways to the same numbers, trains, starts a process of its own, or draws many splits of one
# decode.
NOT_NUMERIC := the_command or refused or every_name or every_tensor or every_architecture or drawing or loss or seed \
	or registry or training or any_split or test_graphs or a_change or finds_no_fault or layer_for_layer
ATEN := //env:ATEN_CPU_CAPABILITY=avx2
ONEDNN := //env:ONEDNN_MAX_CPU_ISA=AVX2
MKL := //env:MKL_ENABLE_INSTRUCTIONS=AVX2
FEWEST := $(ATEN)$(ONEDNN)$(MKL)
LIMITS := $(ATEN) $(ONEDNN) $(MKL)//env:MKL_CBWR=COMPATIBLE $(FEWEST)

test-any-processor: .venv/.dev  ## the numeric half of the tests, as on processors with fewer instructions
	$(PYTEST) --dist each $(LIMITS:%=--tx popen%) \
		-k "not ($(NOT_NUMERIC))" $(NUMERIC)

test-full-width: .venv/.dev  ## import and serve models as wide as published: some minutes, 8 GB of memory
	$(BIN)/python -m pytest -m full_width

test-gpu: .venv/.dev  ## run the tests that need a GPU; without one, each says so
	$(BIN)/python -m pytest -m needs_gpu -rs

test-trt: .venv/.dev  ## build engines and run them, where TensorRT and a GPU are
	$(BIN)/python -m pytest -m needs_tensorrt

bench-gpu: .venv/.cpu  ## run every benchmark of a GPU; the results go to benchmarks/results
	$(BIN)/python -m benchmarks.gpu

tune-gpu: .venv/.dev  ## time the kernels' tiles on this GPU, and keep them where the kernels read them
	$(BIN)/python -m benchmarks.gpu.tiles
	$(BIN)/python -m models.kernels.figures
	$(BIN)/python -m models.kernels.hopper_figures

bench: .venv/.cpu  ## run the latency tests against Triton, and compare them with their baselines
	$(BIN)/python -m benchmarks.latency

chaos: .venv/.dev  ## try every fault with every traffic on the real server: a quarter of an hour
	$(BIN)/python -m benchmarks.chaos --out benchmarks/results

HOURS ?= 0.167
soak: .venv/.dev  ## mix faults and traffic at random for ten minutes, or for HOURS=
	$(BIN)/python -m benchmarks.chaos.soak --hours $(HOURS) --out benchmarks/results

N ?= 100000
SECONDS ?= 1200
fuzz: .venv/.dev  ## send N= inputs that are nearly right to every parser and port, in SECONDS= at most
	$(BIN)/python -m benchmarks.fuzz --inputs $(N) --seconds $(SECONDS) --out benchmarks/results

PACKAGES_OF_OURS := attendant models export serving clients commands benchmarks
check: .venv/.dev docs  ## format, lint, types, imports, insecure calls, layout, the site of docs/
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml $(PACKAGES_OF_OURS)
	$(BIN)/python -m pytest tests/test_layout.py tests/test_command_lines.py

# Not part of check: it asks an index on the network. Status 1 where a version is known to be vulnerable, 2 where nothing
# could be looked up, so that an audit that did not take place is never green.
audit: .venv/.dev  ## look the versions of constraints.txt up among known vulnerabilities; says when it has no data
	$(BIN)/python -m tests.audit

# With --quiet, MkDocs 1.6.1 counts no warnings, and --strict lets them pass.
docs: .venv/.dev  ## build the site of docs/ with its search into build/site; a warning is an error
	$(BIN)/mkdocs build --strict

format: .venv/.dev  ## let ruff rewrite the files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

up: .venv/.cpu  ## serve model_repository/ until Ctrl-C, with a page to try it on at http://127.0.0.1:8080
	$(BIN)/attendant serve --gateway-port 8080

# Tests look at pages in Debian's Chromium, make stand-ins for NVIDIA's libraries with gcc, and ask by curl as the README
# does. Where one is missing and cannot be installed, its tests are skipped or fail, and say so.
PACKAGES := chromium gcc curl
# Of Prometheus the two programs alone, unpacked: its package would start a server of its own.
PROMETHEUS := test -x .venv/prometheus/usr/bin/promtool || { mkdir -p .venv/prometheus && cd .venv/prometheus \
	&& { apt-get download --quiet --quiet prometheus 2>/dev/null || { apt-get update --quiet --quiet \
		&& apt-get download --quiet --quiet prometheus; }; } \
	&& dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb; }
system:
	@missing=; for one in $(PACKAGES); do command -v $$one >/dev/null || missing="$$missing $$one"; done; \
	test -z "$$missing" || { echo "installing Debian's$$missing"; $(APT) $$missing libc6-dev; } \
		|| echo "could not install$$missing: tests that need them are skipped or fail"
	@$(PROMETHEUS) || echo "could not unpack Debian's prometheus: tests that need it are skipped"

clean:  ## remove the environment and everything built
	rm -rf .venv build model_repository/*/1/*.onnx .mypy_cache .ruff_cache .pytest_cache .hypothesis

# timm, which models are compared with, comes without torchvision: that needs CUDA's libraries, and breaks transformers.
# Triton compiles and interprets the kernels (273 MiB to fetch, 1 GB installed). It is no requirement and not in
# constraints.txt: a CUDA build of torch demands the very Triton that it brings along, which then stays.
# TensorRT's bindings, 1 MB each, lie apart: both versions are one package, and need libraries that tests make with gcc.
# torch is installed first and alone: a later requirement on it then finds the CPU build.
# Triton's Python stub needs the interpreter's shared library, and venv its own package, where Python is Debian's.
.venv/.torch: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11) and "expected Python 3.11 to 3.13; found " + sys.version + "; run make with PYTHON=python3.11")'
	@echo "making .venv and installing into it: torch, then what runs and serves models; a minute or two, once"
	@$(PYTHON) -m venv .venv || { $(APT) python3-venv && $(PYTHON) -m venv .venv; }
	$(PIP) torch==2.13.0
	@touch $@

.venv/.cpu: .venv/.torch pyproject.toml
	$(PIP) --editable '.[cpu]'
	@$(BIN)/python -c 'from serving.triton.server.installation import find_installation; find_installation()' \
		|| { $(APT) "$$($(BIN)/python -c 'import sys; print("libpython%d.%d" % sys.version_info[:2])')"; } || true
	@touch $@

.venv/.dev: .venv/.cpu
	@echo "installing what the tests need as well: half a minute, once"
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps timm==1.0.31
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(PIP) --no-deps triton==3.9.0
	$(PIP) --no-deps --upgrade --target .venv/tensorrt-11.4 tensorrt-cu13-bindings
	$(PIP) --no-deps --upgrade --target .venv/tensorrt-10.16 tensorrt-cu12-bindings
	@touch $@

# The proofs of kernels under another Triton (a CUDA build of torch 2.13 demands 3.7.1), and what drivers and newer tools make
# of their PTX: 1.2 GB installed, each in a folder of its own. None is imported but by tests/models/kernels.
TOOLS := nvjitlink-12.8/nvidia-nvjitlink-cu12==12.8.93 nvjitlink-13.0/nvidia-nvjitlink==13.0.88 \
	nvjitlink-13.5/nvidia-nvjitlink==13.5.37 ptxas-13.5/nvidia-cuda-nvcc==13.5.37
.venv/.compilers: .venv/.dev
	@echo "installing another Triton, and NVIDIA's assembler and linkers: a minute, once"
	@for triton in 3.7.1 3.9.0; do \
		$(BIN)/python -c "import sys, triton; sys.exit(triton.__version__ != '$$triton')" \
			|| $(PIP) --no-deps --upgrade --target .venv/triton-$$triton triton==$$triton || exit 1; \
	done
	@for tool in $(TOOLS); do $(PIP) --no-deps --upgrade --target .venv/$${tool%%/*} $${tool#*/} || exit 1; done
	@touch $@
