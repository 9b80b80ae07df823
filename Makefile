# The two commands: make demo, make test. Both set everything up first.
PYTHON ?= python3
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_CONSTRAINT = $(CURDIR)/constraints.txt

.PHONY: setup demo test lint clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	.venv/bin/accord demo

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

test: lint
	.venv/bin/pytest --numprocesses 2 --dist worksteal

clean:
	rm -rf .venv build dist runs
