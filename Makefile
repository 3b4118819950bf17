# Every target sets up what it needs: a virtual environment in .venv, then the work itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test slow lint bench stress clean

demo: $(READY)
	$(BIN)/pureward demo --out demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest

slow: $(READY)
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/stepping.py
	$(BIN)/python benchmarks/rendering.py
	$(BIN)/python benchmarks/augment.py
	$(BIN)/python benchmarks/d4pg.py
	$(BIN)/python benchmarks/replay.py

stress: $(READY)
	$(BIN)/python benchmarks/kill_stress.py

clean:
	rm -rf $(VENV) demo

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "pureward needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
	    || { echo "this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
