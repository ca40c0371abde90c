# Everything runs in .venv, made from requirements/dev.lock. `make` alone lists the targets.

PYTHON ?= python3
BIN := .venv/bin
# Without compiled modules every process would compile TensorFlow and KFP anew: seconds each.
unexport PYTHONDONTWRITEBYTECODE
STAMP := .venv/.installed
IMAGE ?= clozeflow
SEED ?= 20261202
RUNS ?= 220
MINUTES ?= 60
BASE_IMAGE ?= python:3.11-slim-bookworm
IMAGE_BUILDER ?= docker
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate --quiet

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-faults torch-env preflight-env lint format compile images images-test lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

install: $(STAMP) ## Make .venv from the lock file (the other targets do it themselves)

$(STAMP): requirements/dev.lock requirements/uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else \
		f"clozeflow needs Python 3.11, 3.12 or 3.13; {sys.executable} is {v[0]}.{v[1]}. Run: make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock
	@# uv takes seconds; pip, which takes minutes, knows the mirrors and certificates of this machine.
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements/dev.lock \
		|| $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/dev.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## From raw text to an evaluated model, on this machine (a few minutes)
	$(BIN)/python -m pipelines run pretrain --preset demo --output runs/demo

test: $(STAMP) ## Run the tests
	$(BIN)/python -m pytest -n auto --dist loadfile

test-all: $(STAMP) ## Run the tests, the slow ones too
	-@$(MAKE) --no-print-directory torch-env || echo "no .venv-torch: the tests that need torch are skipped"
	$(BIN)/python -m pytest -n auto --dist loadfile -m ''

test-faults: $(STAMP) ## Kill, damage and fuzz everything: an hour and more (SEED, RUNS, MINUTES)
	$(BIN)/python -m pytest -m '' tests/faults
	$(BIN)/python -m tests.faults.campaign --seed $(SEED) --runs $(RUNS) --output build/faults
	$(BIN)/python -m tests.faults.fuzz --seed $(SEED) --minutes $(MINUTES) --output build/fuzz

torch-env: .venv-torch/.installed ## Make .venv-torch: transformers 5 and torch, which open our models too

.venv-torch/.installed: requirements/torch.txt
	$(PYTHON) -m venv --clear .venv-torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/torch.txt
	@touch $@

preflight-env: .venv-preflight/.installed ## Make .venv-preflight: the TPU's compiler, for `clozeflow preflight` (1.3 GB)

.venv-preflight/.installed: requirements/preflight.lock
	$(PYTHON) -m venv --clear .venv-preflight
	.venv-preflight/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		-r requirements/preflight.lock
	@touch $@

lint: $(STAMP) ## Check format, style and types, and that compiled files are current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python compile.py --check
	$(BIN)/python docs/picture.py --check

format: $(STAMP) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

compile: $(STAMP) ## Compile every component and pipeline
	$(BIN)/python compile.py
	$(BIN)/python docs/picture.py

images: ## Build the container images (IMAGE, BASE_IMAGE, IMAGE_BUILDER=docker|podman|buildah)
	$(IMAGE_BUILDER) build --build-arg BASE_IMAGE=$(BASE_IMAGE) --target cpu --tag $(IMAGE):cpu .
	$(IMAGE_BUILDER) build --build-arg BASE_IMAGE=$(BASE_IMAGE) --target tpu --tag $(IMAGE):tpu .
	$(IMAGE_BUILDER) build --build-arg BASE_IMAGE=$(BASE_IMAGE) --target dataflow --tag $(IMAGE):dataflow .
	$(IMAGE_BUILDER) build --build-arg BASE_IMAGE=$(BASE_IMAGE) --target preflight --tag $(IMAGE):preflight .

images-test: $(STAMP) ## Build the images on Debian's Python and run every stage in them (root, buildah, debootstrap)
	$(BIN)/python images/test.py $(IMAGES_TEST_FLAGS)

lock: $(STAMP) ## Resolve the lock files again from pyproject.toml
	$(LOCK) --extra cpu --extra sample --extra hub --extra language --extra pipelines --extra dev --output-file requirements/dev.lock
	$(LOCK) --extra cpu --extra sample --extra hub --extra language --output-file requirements/cpu.lock
	$(LOCK) --extra cpu --extra sample --extra hub --extra language --extra beam --output-file requirements/dataflow.lock
	@# tf-keras asks for plain tensorflow; two TensorFlows in one environment abort at import.
	$(LOCK) --extra tpu --extra sample --extra hub --extra language --no-emit-package tensorflow --output-file requirements/tpu.lock
	$(BIN)/uv pip compile requirements/preflight.in --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/preflight.lock
	echo uv | $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --quiet --output-file requirements/uv.lock

clean: ## Remove .venv, build and caches (not runs/)
	rm -rf .venv .venv-torch .venv-preflight build .pytest_cache .mypy_cache .ruff_cache
