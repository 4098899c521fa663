# Every target sets up what it needs in .venv, on a machine that has only Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.installed

.PHONY: demo test test-long test-listed test-all test-times test-lowest lint format bench docs clean
.DELETE_ON_ERROR:

demo: $(SETUP)  ## A slider-crank through its singular positions, to an HTML report.
	$(BIN)/bricard run slider-crank --output slider_crank.html

test: $(SETUP)  ## The test suite without its long tests.
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

test-long: $(SETUP)  ## The long tests alone; some of them by TESTS="tests/control tests/io".
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m slow $(TESTS)

test-listed: $(SETUP)  ## The tests of tests/long_tests.txt alone.
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not smoke" --listed

test-all: test test-long  ## Every test.

test-times: $(SETUP)  ## Find out anew which tests are long (tests/long_tests.txt); needs an idle machine.
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not smoke" --measure

test-lowest: .venv-lowest/.installed  ## The smoke test with the oldest versions of all dependencies.
	.venv-lowest/bin/python -m pytest -q -W default -p no:cacheprovider -m smoke tests/test_smoke.py

.venv-lowest/.installed: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv --clear .venv-lowest
	$(PYTHON) .ci/lowest.py > .venv-lowest/requirements.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -r .venv-lowest/requirements.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

lint: $(SETUP)  ## Style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(SETUP)  ## Speed and accuracy against other tools, on this machine; parts by PARTS="evaluation cold".
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m benchmarks $(PARTS)

docs: $(SETUP)  ## The documentation as a web site, in site/.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/mkdocs build --strict

$(SETUP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "bricard needs Python >= 3.11: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(SETUP)

clean:
	rm -rf site $(VENV) .venv-lowest .pytest_cache .ruff_cache .hypothesis slider_crank.html
