# The two commands: make demo, make test. Both set everything up first. While you work: make quick.
PYTHON ?= python3
# a worker for each of two cores: threads of numpy's and torch's own would only wait for each other
PYTEST = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 .venv/bin/pytest
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_CONSTRAINT = $(CURDIR)/constraints.txt

.PHONY: setup demo test suite quick heavy mutants mutation lint style types bench peers stress docs dist wheel-check sbom licences audit-deps clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt src/accord/version.py
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	.venv/bin/accord demo

lint: style types

style: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: setup
	.venv/bin/mypy

# types beside the tests: half a minute less than before them
test: style
	$(MAKE) --no-print-directory --jobs 2 types suite

suite: setup
	$(PYTEST) --numprocesses 2 --dist worksteal

# the tests worth running at every save, by the rules of tests/quick.py; ends with those that took more than a second
quick: setup
	$(PYTEST) --quick --numprocesses 2 --dist worksteal --durations 5 --durations-min 1

# tests that take minutes each and are not among the others
heavy: setup
	.venv/bin/pytest -m heavy

# deliberate bugs put into a copy of the source, and whether the tests notice; MUTANTS=tuning runs some
mutants: setup
	.venv/bin/python stress/mutants.py $(MUTANTS)

# every small change that mutmut makes to some modules, and whether their tests notice; MUTATION="guard files" runs some
mutation: setup .mutation-venv/.ready
	.mutation-venv/bin/python stress/mutation.py $(MUTATION)

.mutation-venv/.ready: stress/mutation-requirements.txt
	test -x .mutation-venv/bin/python || $(PYTHON) -m venv .mutation-venv
	PIP_CONSTRAINT= .mutation-venv/bin/pip install --quiet --no-deps --requirement stress/mutation-requirements.txt
	.venv/bin/python -c "import site; print(site.getsitepackages()[0])" \
		> $$(.mutation-venv/bin/python -c "import site; print(site.getsitepackages()[0])")/project.pth
	touch $@

# measures against other libraries, in an environment of their own; BENCH="--only stack size" measures parts again
bench: setup .bench-venv/.ready
	.venv/bin/python benchmarks/run.py $(BENCH)

.bench-venv/.ready: benchmarks/requirements.txt
	test -x .bench-venv/bin/python || $(PYTHON) -m venv .bench-venv
	PIP_CONSTRAINT= .bench-venv/bin/pip install --quiet --no-deps --requirement benchmarks/requirements.txt
	touch $@

# what other libraries reach on a log: make peers FOLDER=runs/peers LOG="built-in demo"; a line each in benchmarks/peers.jsonl
peers: setup .elsewhere-venv/.ready
	PIP_CONSTRAINT= .elsewhere-venv/bin/pip install --quiet --no-deps rectools-lightfm==1.17.3
	.venv/bin/python benchmarks/peers.py prepare $(FOLDER) $(LOG)
	.elsewhere-venv/bin/python benchmarks/peers.py measure $(FOLDER)

# the long campaigns behind docs/reliability.md: hours; STRESS="--only crash inputs" runs parts
stress: setup .supply-venv/.ready
	.venv/bin/python stress/run.py $(STRESS)

# the documentation as a site, in site/: every warning is an error, and so is a link that leads nowhere
docs: .docs-venv/.ready
	NO_MKDOCS_2_WARNING=1 .docs-venv/bin/mkdocs build --strict

.docs-venv/.ready: docs/requirements.txt
	test -x .docs-venv/bin/python || $(PYTHON) -m venv .docs-venv
	PIP_CONSTRAINT= .docs-venv/bin/pip install --quiet --no-deps --requirement docs/requirements.txt
	touch $@

# what we build and build on, by tools in an environment of their own
dist: .supply-venv/.ready
	.supply-venv/bin/python stress/supply.py dist

# the wheel in an empty environment without extras: demo, train, report; WITH="python3.12 python3.13" tries other Pythons
wheel-check: dist
	$(PYTHON) stress/wheel_check.py $(WITH)

sbom licences: setup .supply-venv/.ready
	.supply-venv/bin/python stress/supply.py $@

audit-deps: .supply-venv/.ready
	.supply-venv/bin/python stress/supply.py vulnerabilities

.supply-venv/.ready: stress/supply-requirements.txt
	test -x .supply-venv/bin/python || $(PYTHON) -m venv .supply-venv
	PIP_CONSTRAINT= .supply-venv/bin/pip install --quiet --no-deps --requirement stress/supply-requirements.txt
	touch $@

# libraries that docs/examples use weights in: with them, the tests of the examples run
.elsewhere-venv/.ready: docs/examples/requirements.txt
	test -x .elsewhere-venv/bin/python || $(PYTHON) -m venv .elsewhere-venv
	PIP_CONSTRAINT= .elsewhere-venv/bin/pip install --quiet --no-deps --requirement docs/examples/requirements.txt
	touch $@

clean:
	rm -rf .venv .bench-venv .docs-venv .supply-venv .mutation-venv .elsewhere-venv build dist runs site
