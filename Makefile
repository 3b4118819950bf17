# Every target sets up what it needs: a virtual environment in .venv, then the work itself.
# pip reads its own settings (PIP_FIND_LINKS, PIP_NO_INDEX, HTTPS_PROXY) from the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
READY := $(VENV)/.ready-demo
READY_TEST := $(VENV)/.ready-test
IDENTITY := -c 'import sys; print(sys.version, sys.base_prefix)'

.PHONY: demo test slow lint docs bench stress short-stress clean FORCE

demo: $(READY)
	$(BIN)/pureward demo --out demo

test: $(READY_TEST)
	$(MAKE) -j3 --output-sync=target lint short-stress docs & checks=$$!; \
	$(PYTEST); tests=$$?; wait $$checks && exit $$tests

slow: $(READY_TEST)
	$(INSTALL) -e '.[ray]'
	$(PYTEST) -m slow

lint: $(READY_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# Warnings are errors: a dead link, an unknown name, a docstring that does not fit its function.
docs: $(READY_TEST)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY_TEST)
	$(INSTALL) -e '.[bench]'
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/discriminator.py
	$(BIN)/python benchmarks/d4pg.py
	$(BIN)/python benchmarks/d4pg.py --filled 0.01 0.1 1
	$(BIN)/python benchmarks/own_env.py

stress: $(READY_TEST)
	$(BIN)/python benchmarks/stress/kill_stress.py
	$(BIN)/python benchmarks/stress/fuzz.py

short-stress: $(READY_TEST)
	$(BIN)/python benchmarks/stress/kill_stress.py --kills 10

clean:
	rm -rf $(VENV) demo site

# Made anew if PYTHON=... names another Python, or if its own Python is gone.
$(VENV)/.python: FORCE
	@has=$$($(BIN)/python $(IDENTITY) 2>/dev/null); wants=$$has; \
	if [ -z "$$has" ] || [ "$(origin PYTHON)" != file ]; then \
	    $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	        || { echo "pureward needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }; \
	    wants=$$($(PYTHON) $(IDENTITY)); \
	fi; \
	if [ "$$has" != "$$wants" ]; then \
	    $(PYTHON) -m venv --clear $(VENV) \
	        || { echo "this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 2; }; \
	fi; \
	[ -e $@ ] || touch $@

$(READY): $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) -e '.[all]'
	$(INSTALL) --no-deps dm-control  # on Python 3.13 its dependency labmaze cannot be installed
	@touch $@

$(READY_TEST): $(READY)
	$(INSTALL) -e '.[dev,kernels,docs]'
	@touch $@
