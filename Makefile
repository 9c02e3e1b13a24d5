# The two commands a newcomer needs: `make demo` and `make test`. Each makes .venv and installs what it needs.
#   make demo TORCH_INDEX=<address>   take torch from another package index (the CPU builds are far smaller on Linux)
#   make demo PYTHON=python3.12       choose the interpreter
#   make bench ONLY=store             the measurements whose names begin so, here those of the token store
#   make test WORKERS=4               run the tests in so many processes; usually one for each core
#   make -j2 lint test                both side by side
PYTHON ?= python3
TORCH_INDEX ?=
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= runs/demo
ONLY ?=
WORKERS ?= logical
# Without compiling: of the 15,000 modules few are ever imported, and Python compiles those then.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
PIP := $(PIP_INSTALL) --constraint requirements/constraints.txt

.PHONY: help demo test soak lint format bench install clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   train a tiny model on the embedded chats, about a minute after installing"
	@echo "make test   run the tests          make lint   style and types"
	@echo "make bench  measure against torchtune and the limits; prints one table of ratios"
	@echo "make soak   the tests at full size (minutes to hours)"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "torchpipe needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# torch goes first and pinned: a plain `torch` may bring a newer release with several gigabytes of CUDA libraries.
$(VENV)/.installed: $(BIN)/python pyproject.toml requirements/constraints.txt
	@echo "Installing torch and torchpipe's dependencies into $(VENV); the first time this takes minutes ..."
	@$(PIP) $(if $(TORCH_INDEX),-i $(TORCH_INDEX)) "$$(grep '^torch==' requirements/constraints.txt)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements/oracles.txt
	@echo "Installing the test tools and the packages that tests compare with ..."
	@$(PIP) --editable '.[dev]'
	@$(PIP_INSTALL) --no-deps --requirement requirements/oracles.txt
	@touch $@

install: $(VENV)/.installed

demo: $(VENV)/.installed
	@$(BIN)/torchpipe cp sample_chats.json $(OUT)/sample_chats.json --force
	@$(BIN)/torchpipe run sft --config configs/tiny/sft.yaml data_file=$(OUT)/sample_chats.json output_dir=$(OUT) overwrite=true
	@echo "the chats it was trained on: $(OUT)/sample_chats.json"
	@echo "On a file of your own, in the same form, with the same YAML:"
	@echo "  $(BIN)/torchpipe run sft --config configs/tiny/sft.yaml data_file=$(OUT)/sample_chats.json"

test: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --durations 10

soak: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -m soak -o faulthandler_timeout=0

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

format: $(VENV)/.installed-dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	@TORCH_INDEX=$(TORCH_INDEX) $(BIN)/python benchmarks/run.py $(ONLY)

clean:
	rm -rf $(VENV) .venvs runs build dist
