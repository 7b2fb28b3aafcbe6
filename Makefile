# Everything on a machine with Python, make and g++:
#   make demo   compile one chain, show its plan, run its kernels, compare with PyTorch
#   make test   lint, type-check and run every test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEST_PROCESSES ?= 2
SOURCES := fusegen tests examples benchmarks setup.py

.PHONY: demo test lint format clean

demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find fusegen grammar templates tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is newer than what it was installed from, so a change there refreshes the environment.
$(INSTALLED): pyproject.toml setup.py constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test,examples]'
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
