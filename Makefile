# The targets of this project; `make` alone lists them.
# Every target works on a new machine: the first call creates the environment in .venv, later calls reuse it.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.made
QUICK := tests/unit tests/architecture tests/simulation
REST  := $(filter-out $(QUICK) tests/browser %/__pycache__,$(patsubst %/,%,$(wildcard tests/*/)))

# The number of processes that share the tests (tests/sharing.py). Long files come first, short ones fill the gaps.
JOBS  ?= 2
SHARE  = $(if $(filter-out 0 1,$(JOBS)),-n $(JOBS))

# The first Python of at least 3.11 on the PATH; `make PYTHON=…` overrides it.
ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(name) -c '$(ENOUGH)' 2>/dev/null && echo $(name))))

.PHONY: help env demo unsafe rush check test night static security lint format lock bench docs clean

help:  ## List these targets
	@sed -n 's/^\([a-z]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read word says; do printf '  make %-8s %s\n' "$$word" "$$says"; done

env: $(STAMP)  ## Create the environment (.venv) from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed (on Debian and Ubuntu: apt-get install python3 python3-venv)."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot create virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version); this happens only if requirements.lock has changed."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)  ## Run a whole sale with a crowd and a fault, then check its books (3 minutes)
	@$(BIN)/seckill demo

unsafe: $(STAMP)  ## The same sale without safeguards: it ends in FAIL and names the requests that broke it
	@$(BIN)/seckill demo --unsafe || test $$? -eq 1

rush: $(STAMP)  ## Open Locust for a running stack: http://127.0.0.1:8089
	@$(BIN)/locust -f loadtest/locustfile.py

check: static security  ## Run the quick checks: format, lint, types, security, architecture, unit tests (under 5 minutes)
	$(BIN)/pytest -q $(SHARE) $(QUICK) -m "not slow"

test: static  ## Run all tests, with contracts, simulations and other projects' Kafka clients (under 30 minutes)
	$(BIN)/pytest -q $(SHARE) $(REST) tests/browser $(QUICK)

night: RESULTS := var/night
night: ON_THREE_BROKERS := 7a 7b 8a 8b 8c 8d 8e 8f 8g 8h 8i 8j 8k
night: $(STAMP)  ## Run all labs, faults, chaos, Spark on a cluster, an upgrade, then 11,000 simulated histories; continues an interrupted run (three hours)
	$(BIN)/seckill lab run all
	$(BIN)/seckill faults run all chaos --resume --data $(RESULTS)
	$(BIN)/seckill faults run $(ON_THREE_BROKERS) --brokers 3 --resume --data $(RESULTS)/three
	$(BIN)/python -m tests.cluster.chaos --minutes 10
	$(BIN)/python -m loadtest.kafka_cluster --secure --data $(RESULTS)/kafka -- \
		$(BIN)/seckill faults run all --resume --kafka-nodes $(RESULTS)/kafka --data $(RESULTS)/on-kafka
	TEST_NIGHT=1 $(BIN)/pytest -q tests/journeys/test_stats_cluster.py tests/journeys/test_upgrade.py
	$(BIN)/python -m tests.simulation night

static: $(STAMP)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

security: $(STAMP)  ## Find risky calls, secrets, unsafe settings and vulnerable packages
	sh .ci/security $(BIN)

format: $(STAMP)  ## Format the code and apply the linter's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## Write docs/generated again
	$(BIN)/python -m docs.generate

bench: BENCH := docs/generated/benchmark-broker
bench: $(STAMP)  ## Compare the broker with Apache Kafka and Redis Streams (12 minutes; Kafka needs Java and Maven)
	$(BIN)/python -m loadtest.benchmarks.broker --json $(BENCH).json --svg $(BENCH).svg --markdown $(BENCH).md

lock: $(STAMP)  ## Resolve requirements.lock from pyproject.toml (needs uv on the PATH)
	uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 --extra dev pyproject.toml --output-file requirements.lock

clean:  ## Remove caches and built files (the environment stays)
	rm -rf build var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
