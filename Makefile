# Everything here works from a clean clone: each target first makes the environment it needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Commands, Airflow's tasks and Spark's workers are processes of their own. Where containers set this, each of them would
# compile all that it imports anew, which takes ten seconds and more.
unexport PYTHONDONTWRITEBYTECODE

UV_VERSION := 0.13.8
BIN := .venv/bin
INSTALLED := .venv/.installed

# The names of an interpreter do not say that it runs: each candidate is tried.
PYTHONS := $(or $(PYTHON),python3.12 python3.13 python3.11 python3 \
	/usr/bin/python3.12 /usr/bin/python3.13 /usr/bin/python3.11 /usr/bin/python3)
PROBE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

# Four lanes keep two cores busy: tests that share a server stay in one, and much of what they do is waiting. Each needs
# some 2 GB. Without ARGS only: -x and --pdb want one.
LANES := -n 4 --dist loadscope --no-loadscope-reorder

# `make test-matrix-oldest PYTHON=…` is one half of it, on another Python.
.PHONY: help setup docs demo test test-fast test-matrix test-oldest-python test-long simulate noticed repeats documents mistakes up down screens schemas reference screenshots lint bench bench-flink bench-continuous bench-airflow soak bench-store bench-commit bench-iceberg bench-kafka bench-polling bench-pages lock env clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Install everything into .venv (first use of any other target does it too; PYTHON=… chooses)

$(INSTALLED): requirements.txt pyproject.toml
	@if ! $(BIN)/python -c '$(PROBE)' 2>/dev/null; then \
		for python in $(PYTHONS); do \
			if $$python -c '$(PROBE)' 2>/dev/null; then found=$$python; break; fi; \
		done; \
		if [ -z "$${found:-}" ]; then \
			echo "No usable Python 3.11, 3.12 or 3.13 was found. Tried: $(PYTHONS)." >&2; \
			echo "It needs its venv and ensurepip modules (Debian, Ubuntu: apt install python3-venv)." >&2; \
			echo "Name another one with: make setup PYTHON=/path/to/python" >&2; \
			exit 1; \
		fi; \
		echo "Creating .venv with $$($$found -V)"; \
		$$found -m venv --clear .venv; \
	fi
	@echo "Installing the locked requirements into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python requirements.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

demo: $(INSTALLED) ## Run the demonstration: DAG runs on real data, compared with a batch computation
	@$(BIN)/python -m flights

up: $(INSTALLED) ## Start the demonstration's Airflow, Postgres and Spark and leave them running for the browser
	@$(BIN)/python -m flights up

down: $(INSTALLED) ## Stop what `make up` started
	@$(BIN)/python -m flights down

test: $(INSTALLED) ## Run all tests (ARGS=… for pytest, such as ARGS="tests/protocol -x")
	@$(BIN)/python -m pytest --durations=15 $(or $(ARGS),$(LANES))

# Folders that start neither Spark nor Airflow.
FAST := tests/protocol tests/properties tests/definition tests/dataflow tests/state tests/house tests/benchmarks

test-fast: $(INSTALLED) ## Run the tests that need neither Spark nor Airflow
	@$(BIN)/python -m pytest -m "not long and not spark" $(FAST) $(LANES)

# What could depend on the versions of what stands beside the library. `-o filterwarnings` because what is old warns.
MATRIX := tests/definition tests/state tests/quality tests/reporting tests/reading tests/house/test_installed.py \
	tests/postgres/test_migrations.py tests/postgres/test_plans.py tests/postgres/test_guards.py \
	tests/conformance/test_acknowledge.py tests/conformance/test_finalize.py tests/conformance/test_restores.py \
	tests/dags/test_operators.py tests/dags/test_structure.py tests/dags/test_spark_connection.py \
	tests/dags/test_without_a_scheduler.py tests/dags/test_private_names.py tests/connectors/test_file_reading.py \
	tests/connectors/test_parquet_sink_spark.py tests/spark/test_aggregates.py tests/spark/test_session.py \
	tests/spark/test_lazy_session.py tests/spark/test_updates.py \
	tests/spark/test_connect.py tests/spark/test_emitting.py tests/spark/test_expiring.py tests/spark/test_windows.py \
	tests/ui/test_api.py tests/ui/test_reports.py
RESOLUTION_oldest := lowest-direct
RESOLUTION_newest := highest

test-matrix: test-matrix-oldest test-matrix-newest ## Run a core of the tests with the oldest and the newest versions that pyproject.toml allows

test-matrix-oldest test-matrix-newest: test-matrix-%: $(INSTALLED)
	@$(BIN)/uv venv --quiet --allow-existing --python $(or $(PYTHON),$(BIN)/python) .tidegate/matrix/$*
	@$(BIN)/uv pip install --quiet --upgrade --python .tidegate/matrix/$* --resolution $(RESOLUTION_$*) \
		--editable '.[demo]' --group test
	@$(BIN)/uv pip list --python .tidegate/matrix/$* --format freeze | \
		grep -E '^(apache-airflow|great-expectations|numpy|pandas|pyarrow|pydantic|pyspark|sqlalchemy)=='
	@.tidegate/matrix/$*/bin/python -m pytest -m "not long and not browser" -o filterwarnings=default $(or $(ARGS),$(MATRIX))

# Where a Python's own library decides most. `.ci/run` runs them before `make test`.
CORE := tests/protocol tests/definition tests/dataflow tests/state tests/house/test_patterns.py \
	tests/connectors/test_text_records.py tests/connectors/test_stray_quotes.py tests/connectors/test_json_records.py \
	tests/connectors/test_csv_writers.py tests/connectors/test_odd_files.py
VERSION := import sys; print(sys.version.split()[0], sys.executable)

test-oldest-python: $(INSTALLED) ## Run a core of the tests on the oldest Python that this machine has, if that is another one than .venv's
	@read -r version python < <(for python in $(BIN)/python $(PYTHONS); do \
		if $$python -c '$(PROBE)' 2>/dev/null; then $$python -c '$(VERSION)'; fi; \
	done | sort --version-sort | head -n 1); \
	if [ "$$version" = "$$($(BIN)/python -c '$(VERSION)' | cut -d ' ' -f 1)" ]; then \
		echo "No Python on this machine is older than .venv's $$version: skipped."; \
		exit 0; \
	fi; \
	env=.tidegate/python-$$version; \
	if [ requirements.txt -nt $$env/.installed ] || [ pyproject.toml -nt $$env/.installed ]; then \
		echo "Installing the locked requirements for Python $$version ($$python) into $$env"; \
		$(BIN)/uv venv --quiet --allow-existing --python $$python $$env; \
		$(BIN)/uv pip sync --quiet --compile-bytecode --python $$env/bin/python requirements.txt; \
		$(BIN)/uv pip install --quiet --python $$env/bin/python --no-deps --editable .; \
		touch $$env/.installed; \
	fi; \
	$$env/bin/python -m pytest -m "not long and not browser" $(or $(ARGS),$(CORE) $(LANES))

test-long: $(INSTALLED) ## Run the tests that take minutes of their own: every part of the local stack killed in turn
	@$(BIN)/python -m pytest -m "long or sampled" --hypothesis-profile=long --durations=15 $(ARGS)

simulate: $(INSTALLED) ## Simulate checkpoints in all kinds of trouble: SEEDS=10000 runs, or SEED=123 once more with its trace
	@PYTHONPATH=include:tests/simulation:tests/support $(BIN)/python -m simulator \
		$(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000)) $(ARGS)

noticed: $(INSTALLED) ## Find anew which simulated seed notices each planted mistake (tests try that one first)
	@PYTHONPATH=include:tests/simulation:tests/support $(BIN)/python -m mutations

repeats: $(INSTALLED) ## Find anew which cases of the conformance tests send Postgres what others do (left to test-long)
	@$(BIN)/python -m pytest -p transaction_shapes tests/conformance

documents: $(INSTALLED) ## Run every document in full, and write down which were run as they are (left to test-long then)
	@DOCUMENTS=write $(BIN)/python -m pytest tests/documents/test_documents.py -m "" -k one_after_the_other

docs: $(INSTALLED) ## Build the site of docs/ with a search, and check its links (.tidegate/site/index.html)
	@$(BIN)/python -m sphinx -q -E -b html -W --keep-going -n docs .tidegate/site

mistakes: $(INSTALLED) ## Make the mistakes of users anew, and write what they see into docs/reference/error-messages.md
	@MISTAKES=write $(BIN)/python -m pytest tests/documents/test_mistakes.py

screens: $(INSTALLED) ## Write anew what the commands show, on a terminal and to other programs (tests/cli/screens)
	@SCREENS=write $(BIN)/python -m pytest tests/cli/test_screens.py

schemas: $(INSTALLED) ## Write anew what describes the JSON of the commands (docs/schemas)
	@SCHEMAS=write $(BIN)/python -m pytest tests/cli/test_schemas.py

reference: $(INSTALLED) ## Write the reference of the public names anew, from their docstrings (docs/reference/api)
	@REFERENCE=write $(BIN)/python -m pytest tests/documents/test_reference.py

screenshots: $(INSTALLED) ## Take the screenshots of the pages anew, with the Chromium of this machine (docs/images)
	@SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/ui/test_screenshots.py

lint: $(INSTALLED) ## Check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(INSTALLED) ## Measure checkpoints beside Spark Structured Streaming (takes a while; best on an idle machine)
	@$(BIN)/python benchmarks/run.py $(ARGS)

bench-flink: $(INSTALLED) ## Measure checkpoints beside Flink's, on its heap and on RocksDB (needs a JDK, and fetches 330 MB of jars once)
	@$(BIN)/python benchmarks/beside_flink.py $(ARGS)

bench-continuous: $(INSTALLED) ## Measure continuous runs: landed to visible, micro-batches, checkpoints and rows a second
	@$(BIN)/python benchmarks/continuous.py $(ARGS)

bench-airflow: $(INSTALLED) ## Measure DAG runs of a day's files, on a Spark per task and on a Spark Connect server
	@$(BIN)/python benchmarks/dag_runs.py $(ARGS)

soak: $(INSTALLED) ## Run a continuous pipeline for half an hour, killed again and again: is anything lost, does anything grow?
	@$(BIN)/python benchmarks/soak.py $(ARGS)

bench-store: $(INSTALLED) ## Measure 100,000 subtasks against Postgres, 1,000 acknowledgements at once, and a long history
	@$(BIN)/python benchmarks/acknowledgements.py $(ARGS)
	@$(BIN)/python benchmarks/long_history.py

bench-commit: $(INSTALLED) ## Measure an upsert of a million rows in the commit beside one by hand, and ten such sinks beside one
	@$(BIN)/python benchmarks/in_commit.py $(ARGS)

bench-iceberg: $(INSTALLED) ## Measure IcebergSink beside pyiceberg's own append and upsert, and three tables in one commit
	@$(BIN)/python benchmarks/beside_pyiceberg.py $(ARGS)

bench-kafka: $(INSTALLED) ## Measure a topic as KafkaSource reads it beside confluent-kafka's consume alone, and pyarrow's JSON
	@$(BIN)/python benchmarks/beside_consume.py $(ARGS)

bench-polling: $(INSTALLED) ## Measure polls of a directory of which a million files were read before
	@$(BIN)/python benchmarks/polling.py $(ARGS)

bench-pages: $(INSTALLED) ## Measure what pages ask of 100,000 checkpoints with 64 subtasks each
	@$(BIN)/python benchmarks/pages.py $(ARGS)

lock: $(INSTALLED) ## Resolve pyproject.toml into requirements.txt again
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra demo --group dev --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements.txt pyproject.toml

# 32 random bytes in URL-safe base64 are what a Fernet key must be, and fit the rest too.
env: ## Write .env for docker compose, with random secrets (one that exists keeps what it says and gets what it lacks)
	@umask 077; [ -s .env ] || grep '^#' .env.example > .env; \
	[ -z "$$(tail -c 1 .env)" ] || echo >> .env; \
	grep '^[A-Z_]*=' .env.example | while IFS='=' read -r name value; do \
		if grep -q "^$$name=" .env; then continue; fi; \
		if [ "$$value" = RANDOM ]; then value=$$(head -c 32 /dev/urandom | base64 | tr '+/' '-_'); fi; \
		echo "$$name=$$value" >> .env; \
		echo "Wrote $$name into .env"; \
	done

clean: ## Remove the environment, caches and the demonstration's data
	@if [ -e $(INSTALLED) ]; then $(BIN)/python -m flights remove; fi
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
