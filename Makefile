# `make help` lists all targets.
#
# A user's value never becomes shell text.  $(value ...) prevents that make expands it; it is exported
# with the prefix SCRIBE_, and the recipes use "$SCRIBE_OUT".  Without the prefix, GROUPS would be a
# variable of bash.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCRIBE := $(BIN)/scribe-spark

VARIABLES := NODES GROUPS SEED SEEDS OUT MASTER REMOTE CONFIG PAPER EXAMPLE WORLD BENCH ARGS
$(foreach v,$(VARIABLES),$(eval override $(v) := $$(value $(v))))
$(foreach v,$(VARIABLES),$(eval SCRIBE_$(v) := $$($(v))))
export $(VARIABLES:%=SCRIBE_%)
unexport $(VARIABLES)
# mkdocs-material's notice of other generators
export NO_MKDOCS_2_WARNING := 1

# $(call flag,NODES) is --nodes "$SCRIBE_NODES" where NODES is set, and nothing where it is not
lower = $(shell echo $(1) | tr A-Z a-z)
flag = $(if $($(1)),--$(lower) "$$SCRIBE_$(1)")
# words, but neither quotes nor file name patterns
args = $(if $(ARGS),$$SCRIBE_ARGS)

# $(call page,PAGE,OUT,FLAGS) runs the experiments of a page of results, and writes the page
page = @set -f; $(BIN)/python -m tools.results $(1) $(2) $(args) && $(BIN)/python -m tools.results $(1) $(2) $(3)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Print this list
	@echo 'make TARGET [VARIABLE=value ...]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo 'Variables of run and sweep (each sets the option of that name; unset means the default):'
	@echo '  NODES=100000    number of nodes'
	@echo '  GROUPS=1500     number of groups'
	@echo '  SEED=1          seed of all random numbers'
	@echo '  OUT=out/run     folder or URL to write; report and verify read it; the default of paper is out/paper'
	@echo '  MASTER=local[*] Spark master'
	@echo '  REMOTE=         Spark Connect server in place of a master: sc://HOST:15002, or local[2]; also for notebooks'
	@echo '  CONFIG=         TOML file with settings; options override it (without a file, run simulates the experiment of the paper)'
	@echo '  ARGS=           more options, for example ARGS="--overwrite --leaf-set 32"'
	@echo
	@echo 'Variables of paper: OUT, MASTER, ARGS (for example ARGS="--experiments small_groups"), and:'
	@echo '  SEEDS=10        number of topologies'
	@echo
	@echo 'bench has the variables of run except OUT. It prints tables and writes bench.json. ARGS can have options of its own:'
	@echo '  make bench NODES=10000'
	@echo '  make bench ARGS="--sizes 10000,100000,1000000 --repeat 3"   also how time grows with nodes'
	@echo
	@echo 'Variables of digests: ARGS="--only NAME" for one result, ARGS=--worlds for worlds only, ARGS=--paper for the paper with seed 1.'
	@echo
	@echo 'PYTHON=python3 is the Python program for .venv (3.11 or newer).'

.PHONY: run
run: setup ## Simulate a run, measure it and draw its report; by default the paper's experiment
	@set -f; $(SCRIBE) run $(foreach v,NODES GROUPS SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: paper
paper: setup ## Run all experiments of the paper's Section IV over ten topologies; repeat the command to continue after an interruption
	@set -f; $(SCRIBE) paper $(if $(findstring --overwrite,$(ARGS)),,--resume) \
	  $(foreach v,SEEDS OUT MASTER REMOTE,$(call flag,$(v))) $(args)

.PHONY: sweep
sweep: setup ## Run all combinations of values of some settings: CONFIG=data/sweep_b.toml, or ARGS="--set b=1,2,4"
	@set -f; $(SCRIBE) sweep $(foreach v,NODES GROUPS SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: world
world: setup ## Simulate rounds in which nodes arrive and fail: CONFIG=data/world_mass_failure.toml, or ARGS="--generator churn"
	@set -f; $(SCRIBE) world $(foreach v,NODES SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: living
living: setup ## Measure arrivals, failures and churn, and write docs/living_results.md
	$(call page,living,out/living,--page docs/living_results.md)

.PHONY: groups-results
groups-results: setup ## Measure Scribe under failures, churn and crowds, and write docs/groups_results.md (an hour)
	$(call page,groups,out/groups,--page docs/groups_results.md)

.PHONY: rad-under-churn
rad-under-churn: setup ## Measure RAD, RMD and node stress under churn, with and without the bottleneck remover, and write figure and table of docs/living.md
	$(call page,rad-under-churn,out/rad-under-churn,--page docs/groups_results.md)

.PHONY: peers-living
peers-living: setup ## Measure five systems under the same failures and churn, and write docs/peers_living.md (half an hour; ARGS="--only NAME ..." selects worlds)
	$(call page,peers-living,out/peers-living,--page docs/peers_living.md)

.PHONY: reference-tree
reference-tree: setup ## Measure Costa and Frey's tree over a DHT (their Figures 3 and 4); ARGS="--scaling 1000,1000000" for large trees
	@set -f; $(SCRIBE) reference-tree $(foreach v,SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: reference-tree-results
reference-tree-results: setup ## Measure that tree with up to 1,000,000 hosts, and write the tables of docs/reference_tree.md (half an hour)
	$(call page,reference-tree,out/reference-trees,--page docs/reference_tree.md)

.PHONY: peers
peers: setup ## Measure Scribe, Bayeux, CAN, flooding and GossipSub, and write docs/peers.md (ARGS="--size 10000 150" for a smaller network)
	$(call page,peers,out/peers,--page docs/peers.md --readme README.md)

.PHONY: gossipsub-results
gossipsub-results: setup ## Compare GossipSub with published numbers, and write the table of docs/gossipsub.md (a minute)
	@PYTHONPATH=.:tests $(BIN)/python -m gossipsub.measured --page docs/gossipsub.md

.PHONY: parts
parts: setup ## Send publications whole, in parts and coded, and write docs/parts.md (2,000 and 10,000 nodes: half an hour; NODES="2000 10000 100000" for the page)
	$(call page,parts,out/parts,--page docs/parts.md)

.PHONY: questions
questions: setup ## Answer the questions of data/*.toml in docs/questions.md (ten minutes)
	$(call page,questions,out/questions,--page docs/questions.md)

.PHONY: checks
checks: setup ## Play the set-ups of other simulators, and write the tables of docs/checks.md (an hour or more; ARGS="--only gerbil" for one; ARGS="--only lean --missing" keeps the cells of lean-gossip that are there)
	@set -f; $(BIN)/python -m tools.checks --page docs/checks.md $(args)

.PHONY: report
report: setup ## Draw the report of OUT again from its tables
	@set -f; $(SCRIBE) report $(foreach v,OUT MASTER REMOTE,$(call flag,$(v))) $(args)

.PHONY: verify
verify: setup ## Check that all tables of OUT are as they were written
	@set -f; $(SCRIBE) verify $(foreach v,OUT MASTER REMOTE,$(call flag,$(v))) $(args)

.PHONY: compare
compare: setup ## Compare runs or worlds: ARGS="out/before out/after --fail-above 5%"
	@set -f; $(SCRIBE) compare $(call flag,OUT) $(args)

.PHONY: test
test: setup $(VENV)/.test ## Run the quick tests (ARGS= are arguments of pytest)
	@set -f; $(BIN)/python -m pytest $(args)

.PHONY: test-slow
test-slow: setup $(VENV)/.test ## Run the tests that take minutes
	@set -f; $(BIN)/python -m pytest -m slow --dist load $(args)

.PHONY: faults
faults: setup $(VENV)/.test ## Inject faults into the code, one after the other, and check that tests fail (ARGS= words of the names of some faults)
	@set -f; $(BIN)/python -m tools.try_faults $(args)

.PHONY: test-cluster
test-cluster: java wheel $(VENV)/.cluster .cluster/ready ## Test HDFS, S3 and a Spark cluster without a shared disk (downloads 1.4 GB)
	@set -f; $(BIN)/python -m pytest -n 0 tests/cluster $(args)

# two folders of jars, 1.4 GB, from Maven Central by Spark's own Ivy; again when Spark may be another
.cluster/ready: tests/cluster/fetch.py $(VENV)/.cluster
	$(BIN)/python tests/cluster/fetch.py .cluster
	@touch $@

.PHONY: digests
digests: setup $(VENV)/.test ## Compare results with those that are recorded in tests/golden
	@set -f; $(BIN)/python tests/golden/digests.py $(args)

.PHONY: bench
bench: setup $(VENV)/.test ## Measure seconds, memory, rows and shuffled bytes of each phase
	@set -f; $(BIN)/python -m benchmarks $(foreach v,NODES GROUPS SEED MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: notebooks
notebooks: setup ## Run every notebook at a small size (NODES=2000 GROUPS=50)
	@set -f; $(BIN)/python -m tools.run_notebook $(if $(REMOTE),"--remote=$$SCRIBE_REMOTE") \
	  "nodes=$${SCRIBE_NODES:-2000}" "groups=$${SCRIBE_GROUPS:-50}" \
	  $(wildcard jobs/notebooks/*.py)

.PHONY: lint
lint: $(VENV)/.lint ## Run ruff, mypy and import-linter
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(VENV)/.lint ## Format the code and fix it with ruff
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: docs
docs: setup ## Write the generated pages of docs/; with PAPER=out/paper also the results, with EXAMPLE=out/seed2 README's example, with WORLD=out/world the world of docs/living.md, with BENCH=bench.json the times
	@set -f; $(BIN)/python -m tools.write_docs $(if $(PAPER),--paper "$$SCRIBE_PAPER") $(if $(EXAMPLE),--example "$$SCRIBE_EXAMPLE") $(if $(WORLD),--world "$$SCRIBE_WORLD") $(if $(BENCH),--bench $$SCRIBE_BENCH)
	@$(BIN)/python -m tools.package_size

.PHONY: tutorials
tutorials: setup ## Execute the tutorial and two how-tos, and write their outputs and pictures (ten minutes)
	@$(BIN)/python -m tools.tutorials

.PHONY: site
site: java $(VENV)/.docs out/gallery/made ## Build a website of all pages in site/, and check every link
	$(BIN)/python -m mkdocs build --quiet
	$(BIN)/python -m tools.check_site site

# what the site shows of reports: two runs, a comparison of them, and a world, once
GALLERY := --nodes 1000 --groups 30 --systems scribe,gossipsub --overwrite
out/gallery/made: | setup
	$(SCRIBE) run $(GALLERY) --out out/gallery/run
	$(SCRIBE) run $(GALLERY) --gossipsub-d 12 --out out/gallery/degree
	$(SCRIBE) world $(GALLERY) --generator mass-failure+publications --share 0.25 --rounds 20 --out out/gallery/world
	$(SCRIBE) compare out/gallery/run out/gallery/degree --out out/gallery/compare
	@touch $@

.PHONY: wheel
wheel: $(VENV)/.run ## Build the wheel, and a zip file for spark-submit --py-files, in dist/
	rm -rf build dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	@# Spark puts .zip on executors' path, not .whl
	cp dist/scribe_spark-*.whl dist/scribe_spark.zip
	rm -rf build

.PHONY: dist
dist: $(VENV)/.dist ## Build a release in dist/: the source archive and the wheel
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	rm -rf build

.PHONY: setup
setup: java $(VENV)/.run .jars/asked .jars/recorded ## Install Python packages into .venv, and download GraphFrames' jar into .jars

.PHONY: java
java: # before anything is downloaded
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "scribe-spark: error: Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m scribe_spark.runtime.java

.PHONY: graphframes
graphframes: java $(VENV)/.run ## Try again to download GraphFrames' jar
	@$(BIN)/python -m scribe_spark.runtime.graphframes_jar .jars

.jars/asked: | $(VENV)/.run
	@$(BIN)/python -m scribe_spark.runtime.graphframes_jar .jars

# Sessions start in half the time with the JVM's classes laid out beforehand.  A small run records
# them as its JVM ends.  The pipe ends with the JVM only if the JVM writes to the pipe itself.
.jars/recorded: $(VENV)/.run | .jars/asked
	@echo 'recording JVM classes, once (about half a minute)'
	@SCRIBE_SPARK_TRICKS=-jvm_words SCRIBE_SPARK_RECORD_CLASSES=.jars/classes.new \
	  $(SCRIBE) run --config data/tiny.toml --out .jars/warm --overwrite 2>&1 | cat >.jars/recorded.log
	@rm -rf .jars/warm; test ! -f .jars/classes.new || mv -f .jars/classes.new .jars/classes.jsa
	@touch $@

# One stamp a set of extras; they are installed again when setup.cfg changes.
EXTRAS.run := spark,topohub,connect
EXTRAS.test := spark,test,connect,docs
EXTRAS.cluster := spark,test,cluster
EXTRAS.lint := spark,lint,test
EXTRAS.dist := dist
EXTRAS.docs := spark,docs

$(VENV)/.run $(VENV)/.test $(VENV)/.cluster $(VENV)/.lint $(VENV)/.dist $(VENV)/.docs: $(VENV)/.%: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS.$*)]'
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

.PHONY: clean
clean: ## Remove what was built, but not .venv, .jars and runs
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache spark-warehouse metastore_db derby.log
	find scribe_spark tests jobs tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
