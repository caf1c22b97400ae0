# Everything that a person needs at a laptop. `make` alone lists the targets.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# Arguments for the program behind a target: make run ARGS="--help"
ARGS ?=
# The test, or the beginning of its path, that `make test-one` runs.
NAME ?=

# How many crash tests `make chaos` runs.
SEEDS ?= 10

# How long `make fuzz` runs each target.
SECONDS := 60
FUZZ_TARGETS := notifications signatures

# Processor of the functions that `make package` builds: arm64, as template.yaml has it, or x86_64.
ARCHITECTURE ?= arm64
# Where `make package` puts them, and where `make bootstraps` puts those for this machine's processor.
PACKAGED := target/lambda
BOOTSTRAPS := target/bootstraps
PACKAGE_PYTHON := target/package-python
PACKAGE_PYTHON_PACKAGES := cargo-lambda==1.9.2 ziglang==0.17.1

# How often `make start-times` starts each function.
STARTS ?= 20

SERVERS := infra/local/servers.sh
TEST_FOLDER := .local/test
CHAOS_FOLDER := .local/chaos
TEST_PYTHON := target/test-python
# An independent implementation of AWS: the SQS emulator is compared with it, and the templates make their stacks in it.
TEST_PYTHON_PACKAGES := boto3==1.43.11 'moto[server]==5.2.1' aws-sam-translator==1.110.0
# Linters of template.yaml and infra/.
TEMPLATE_PYTHON := target/template-python
TEMPLATE_PYTHON_PACKAGES := aws-sam-cli==1.170.0 cfn-lint==1.58.0 checkov==3.2.459
TEST_NODE := target/test-node
# HubSpot's own library, which signatures are compared with. The newest that Node 18 runs.
TEST_NODE_PACKAGE := @hubspot/api-client@13.5.0

export HUBFERRY_TEST_PYTHON := $(CURDIR)/$(TEST_PYTHON)/bin/python
export HUBFERRY_TEST_NODE_MODULES := $(CURDIR)/$(TEST_NODE)/node_modules

.PHONY: help run servers servers-stop install install-test test test-one chaos chaos-program fuzz webhook-load package bootstraps bootstraps-built start-times servers-test servers-test-stop lint lint-templates fmt-check clippy fmt clean-local

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

run: install ## Run the whole stack here, until Ctrl-C; arguments of `hubferry up` go into ARGS="…"
	@cargo build --locked --package hubferry-cli --bin hubferry
	@infra/local/with-servers.sh .local -- target/debug/hubferry up $(ARGS)

servers: install ## Start PostgreSQL and Redis in .local and leave them running; .local/stack.env has their URLs
	@$(SERVERS) start .local

servers-stop: ## Stop the servers of .local
	@$(SERVERS) stop .local

test: lint lint-templates $(TEST_PYTHON)/ready $(TEST_NODE)/ready | install-test ## Everything that has to pass: formatting, clippy, linters of the templates, all tests
	@infra/local/test.sh

test-one: servers-test ## One integration test, quickly: NAME="part of its path"; its servers keep running
	@set -a; source $(TEST_FOLDER)/stack.env; set +a; \
	cargo test --locked --package hubferry-tests --test it -- $(NAME) $(ARGS)

chaos: install chaos-program ## Crash tests: kill and stop the stack at random, SEEDS=10 times; see docs/CHAOS.md
	@infra/local/with-servers.sh $(CHAOS_FOLDER) --test -- target/debug/hubferry-chaos --seeds $(SEEDS) $(ARGS)

chaos-program:
	@cargo build --locked --package hubferry-chaos --features failpoints

fuzz: ## Random input for what reads webhooks, each target for SECONDS=60; see docs/FUZZING.md
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing; please install it: cargo install cargo-fuzz"; exit 1; }
	@cp Cargo.lock fuzz/Cargo.lock
	@for target in $(FUZZ_TARGETS); do \
	    mkdir -p fuzz/found/$$target; \
	    cargo fuzz run --sanitizer none --target-dir target/fuzz $$target fuzz/found/$$target fuzz/corpus/$$target -- \
	        -max_total_time=$(SECONDS) -max_len=65536 -timeout=10 -print_final_stats=1; \
	done

webhook-load: servers-test ## Measure an import of 50,000 contacts whose notifications come in, beside plain INSERTs by pgbench
	@set -a; source $(TEST_FOLDER)/stack.env; set +a; \
	cargo test --release --locked --package hubferry-tests --test it -- --ignored --nocapture webhook::load

package: $(PACKAGE_PYTHON)/ready ## Build every function for Lambda: target/lambda/<function>/bootstrap; ARCHITECTURE=x86_64 for another than arm64
	@PATH="$(CURDIR)/$(PACKAGE_PYTHON)/bin:$$PATH" infra/package.sh $(ARCHITECTURE) $(PACKAGED)

bootstraps: bootstraps-built servers-test ## Build every function as it is deployed, for this machine, and test these as processes
	@set -a; source $(TEST_FOLDER)/stack.env; set +a; \
	HUBFERRY_TEST_BOOTSTRAPS=$(CURDIR)/$(BOOTSTRAPS) \
	cargo test --locked --package hubferry-tests --test it -- bootstraps:: $(ARGS)

start-times: bootstraps-built ## Measure how long each function takes to start, beside one that does nothing: STARTS=20 times
	@cargo run --quiet --locked --package lambda-runtime-emulator --bin start-times -- $(BOOTSTRAPS) --starts $(STARTS)

bootstraps-built: $(PACKAGE_PYTHON)/ready
	@PATH="$(CURDIR)/$(PACKAGE_PYTHON)/bin:$$PATH" infra/package.sh \
	    $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x86_64) $(BOOTSTRAPS) empty-function panicking-function

servers-test: | install-test ## Start the servers that `make test-one` uses
	@$(SERVERS) start $(TEST_FOLDER) --test

servers-test-stop: ## Stop them
	@$(SERVERS) stop $(TEST_FOLDER)

lint: fmt-check clippy ## Formatting and clippy, warnings being errors

lint-templates: $(TEMPLATE_PYTHON)/ready ## cfn-lint, sam validate and checkov over template.yaml and infra/
	@$(TEMPLATE_PYTHON)/bin/cfn-lint template.yaml infra/*.yaml
	@SAM_CLI_TELEMETRY=0 $(TEMPLATE_PYTHON)/bin/sam validate --lint --template template.yaml
	@$(TEMPLATE_PYTHON)/bin/checkov --quiet --compact --skip-download --framework cloudformation --file template.yaml infra/*.yaml

fmt-check:
	@cargo fmt --all --check

clippy: | install
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@cargo clippy --package hubferry-chaos --features failpoints --locked -- -D warnings

fmt: ## Format all sources
	@cargo fmt --all

clean-local: ## Stop the servers of .local and delete their data
	@$(SERVERS) stop $(TEST_FOLDER)
	@$(SERVERS) stop $(CHAOS_FOLDER)
	@$(SERVERS) stop .local
	@rm -rf .local

install:
	@$(SERVERS) install

install-test:
	@$(SERVERS) install --test

$(TEST_PYTHON)/ready: Makefile | install-test
	@echo "making a Python environment in $(TEST_PYTHON)"
	@python3 -m venv --clear $(TEST_PYTHON)
	@$(TEST_PYTHON)/bin/pip install --quiet --disable-pip-version-check $(TEST_PYTHON_PACKAGES)
	@touch $@

$(TEMPLATE_PYTHON)/ready: Makefile | install-test
	@echo "making a Python environment in $(TEMPLATE_PYTHON)"
	@python3 -m venv --clear $(TEMPLATE_PYTHON)
	@$(TEMPLATE_PYTHON)/bin/pip install --quiet --disable-pip-version-check $(TEMPLATE_PYTHON_PACKAGES)
	@touch $@

$(PACKAGE_PYTHON)/ready: Makefile
	@echo "making a Python environment in $(PACKAGE_PYTHON)"
	@python3 -m venv --clear $(PACKAGE_PYTHON)
	@$(PACKAGE_PYTHON)/bin/pip install --quiet --disable-pip-version-check $(PACKAGE_PYTHON_PACKAGES)
	@touch $@

# Remakes itself until it is there: where Node is missing, the tests that need it say that they are left out.
$(TEST_NODE)/ready: Makefile infra/local/node-client.sh
	@infra/local/node-client.sh $(TEST_NODE) $(TEST_NODE_PACKAGE)
