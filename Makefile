# `make help` tells what there is.
#
# A user's value never becomes shell text: it is taken as it stands ($(value ...): make does not
# expand it either), exported under a name of ours, and the recipes say "$SCRIBE_OUT".  The prefix
# also keeps GROUPS clear of bash, which has a variable of that name.

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

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## This list
	@echo 'make TARGET [VARIABLE=value ...]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile
	@echo
	@echo 'Variables of run and sweep (each is the flag of that name; unset means the default):'
	@echo '  NODES=100000    overlay nodes'
	@echo '  GROUPS=1500     groups'
	@echo '  SEED=1          key of every draw'
	@echo '  OUT=out/run     folder or URL to write; report and verify read it; of paper out/paper'
	@echo '  MASTER=local[*] Spark master'
	@echo '  REMOTE=         Spark Connect server instead: sc://HOST:15002, or local[2]; notebooks take it too'
	@echo '  CONFIG=         TOML file with any flag; flags win over it (run without one is the experiment of the paper)'
	@echo '  ARGS=           more flags, for example ARGS="--overwrite --leaf-set 32"'
	@echo
	@echo 'paper takes OUT, MASTER and ARGS too (ARGS="--experiments small_groups"), and:'
	@echo '  SEEDS=10        topologies'
	@echo
	@echo 'bench takes those of run, but OUT; it prints tables and writes bench.json.  Its own flags go into ARGS:'
	@echo '  make bench NODES=10000'
	@echo '  make bench ARGS="--sizes 10000,100000,1000000 --repeat 3"   and the growth exponent'
	@echo
	@echo 'digests takes ARGS too: ARGS="--only NAME" for one, ARGS=--worlds for worlds alone, ARGS=--paper for the paper at seed 1.'
	@echo
	@echo 'PYTHON=python3 is the Python that .venv is made with (3.11 or newer).'

.PHONY: run
run: setup ## Simulate, measure and draw; the paper's experiment by default
	@set -f; $(SCRIBE) run $(foreach v,NODES GROUPS SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: paper
paper: setup ## All of Section IV over ten topologies; repeated, it goes on where it was
	@set -f; $(SCRIBE) paper $(if $(findstring --overwrite,$(ARGS)),,--resume) \
	  $(foreach v,SEEDS OUT MASTER REMOTE,$(call flag,$(v))) $(args)

.PHONY: sweep
sweep: setup ## A grid of runs: CONFIG=data/sweep_b.toml, or ARGS="--set b=1,2,4"
	@set -f; $(SCRIBE) sweep $(foreach v,NODES GROUPS SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: world
world: setup ## Nodes come and go: CONFIG=data/world_mass_failure.toml, or ARGS="--generator churn"
	@set -f; $(SCRIBE) world $(foreach v,NODES SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: living
living: setup ## Measure arrivals, failures and churn, and write docs/living_results.md
	@$(BIN)/python -m tools.living_results out/living
	@$(BIN)/python -m tools.living_results out/living --page docs/living_results.md

.PHONY: groups-results
groups-results: setup ## Measure Scribe under failures, churn and crowds, and write docs/groups_results.md (an hour)
	@$(BIN)/python -m tools.groups_results out/groups
	@$(BIN)/python -m tools.groups_results out/groups --page docs/groups_results.md

.PHONY: rad-under-churn
rad-under-churn: setup ## RAD, RMD and node stress by rounds of churn, with and without the bottleneck remover: figure and table of docs/living.md
	@$(BIN)/python -m tools.rad_under_churn out/rad-under-churn
	@$(BIN)/python -m tools.rad_under_churn out/rad-under-churn --page

.PHONY: peers-living
peers-living: setup ## Scribe, GossipSub and Bayeux under the same failures and churn, and write docs/peers_living.md (some hours; ARGS="--only NAME ..." plays some worlds)
	@set -f; $(BIN)/python -m tools.peers_living out/peers-living $(args)
	@$(BIN)/python -m tools.peers_living out/peers-living --page docs/peers_living.md

.PHONY: reference-tree
reference-tree: setup ## Costa and Frey's tree over a DHT: Figures 3 and 4; ARGS="--scaling 1000,1000000" for large ones
	@set -f; $(SCRIBE) reference-tree $(foreach v,SEED OUT MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: reference-tree-results
reference-tree-results: setup ## Measure that tree, larger degrees, up to 1,000,000 hosts, and write docs/reference_tree.md (half an hour)
	@$(BIN)/python -m tools.reference_tree_results out/reference-trees
	@$(BIN)/python -m tools.reference_tree_results out/reference-trees --page docs/reference_tree.md

.PHONY: peers
peers: setup ## Measure Scribe beside Bayeux, CAN, flooding and GossipSub, and write docs/peers.md (ARGS="--size 10000 150" for a smaller one)
	@set -f; $(BIN)/python -m tools.peers_results out/peers $(args)
	@$(BIN)/python -m tools.peers_results out/peers --page docs/peers.md --readme README.md

.PHONY: gossipsub-results
gossipsub-results: setup ## GossipSub beside published numbers: the table of docs/gossipsub.md (a minute)
	@$(BIN)/python -m tools.gossipsub_results docs/gossipsub.md

.PHONY: report
report: setup ## Draw the report of OUT again from its tables
	@set -f; $(SCRIBE) report $(foreach v,OUT MASTER REMOTE,$(call flag,$(v))) $(args)

.PHONY: verify
verify: setup ## Whether all tables of OUT are as they were written, whatever OUT holds
	@set -f; $(SCRIBE) verify $(foreach v,OUT MASTER REMOTE,$(call flag,$(v))) $(args)

.PHONY: compare
compare: setup ## Runs or worlds side by side: ARGS="out/before out/after --fail-above 5%"
	@set -f; $(SCRIBE) compare $(call flag,OUT) $(args)

.PHONY: test
test: setup $(VENV)/.test ## Run the tests (ARGS= goes to pytest)
	@set -f; $(BIN)/python -m pytest $(args)

.PHONY: test-slow
test-slow: setup $(VENV)/.test ## Run the tests that take minutes each: kills, 1,000 rounds, no tricks
	@set -f; $(BIN)/python -m pytest -m slow --dist load $(args)

.PHONY: faults
faults: setup $(VENV)/.test ## Put faults into kernels, one after the other, and see tests fail (ARGS= words of some faults' names)
	@set -f; $(BIN)/python -m tools.try_faults $(args)

.PHONY: test-cluster
test-cluster: java wheel $(VENV)/.cluster .cluster/ready ## Test HDFS, S3 and a cluster without a shared disk: fetches 1.4 GB
	@set -f; $(BIN)/python -m pytest -n 0 tests/cluster $(args)

# two folders of jars, 1.4 GB, from Maven Central by Spark's own Ivy; again when Spark may be another
.cluster/ready: tests/cluster/fetch.py $(VENV)/.cluster
	$(BIN)/python tests/cluster/fetch.py .cluster
	@touch $@

.PHONY: digests
digests: setup $(VENV)/.test ## Check that results are those recorded in tests/golden
	@set -f; $(BIN)/python tests/golden/digests.py $(args)

.PHONY: bench
bench: setup $(VENV)/.test ## Seconds, memory, rows and shuffled bytes, phase by phase
	@set -f; $(BIN)/python -m benchmarks $(foreach v,NODES GROUPS SEED MASTER REMOTE CONFIG,$(call flag,$(v))) $(args)

.PHONY: notebooks
notebooks: setup ## Run every notebook at a small size (NODES=2000 GROUPS=50)
	@set -f; $(BIN)/python -m tools.run_notebook $(if $(REMOTE),"--remote=$$SCRIBE_REMOTE") \
	  "nodes=$${SCRIBE_NODES:-2000}" "groups=$${SCRIBE_GROUPS:-50}" \
	  $(wildcard jobs/notebooks/*.py)

.PHONY: lint
lint: $(VENV)/.lint ## ruff, mypy, import-linter
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(VENV)/.lint ## Let ruff format and fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: docs
docs: setup ## Write the generated pages of docs/; PAPER=out/paper also the results, EXAMPLE=out/seed2 README's example, WORLD=out/world its world, BENCH=bench.json the timings
	@set -f; $(BIN)/python -m tools.write_docs $(if $(PAPER),--paper "$$SCRIBE_PAPER") $(if $(EXAMPLE),--example "$$SCRIBE_EXAMPLE") $(if $(WORLD),--world "$$SCRIBE_WORLD") $(if $(BENCH),--bench $$SCRIBE_BENCH)
	@$(BIN)/python -m tools.package_size

.PHONY: tutorials
tutorials: setup ## Play both tutorials, and write their outputs and pictures (four minutes)
	@$(BIN)/python -m tools.tutorials

.PHONY: site
site: java $(VENV)/.docs out/gallery/made ## The pages of docs/ as a site that works from files, in site/, every link checked
	$(BIN)/python -m mkdocs build --quiet
	$(BIN)/python -m tools.check_site site

# what the site shows of reports: three small experiments, half a minute, once
out/gallery/made: | setup
	$(BIN)/python -m tools.gallery out/gallery
	@touch $@

.PHONY: wheel
wheel: $(VENV)/.run ## The wheel, and the same as a zip for spark-submit --py-files, in dist/
	rm -rf build dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	@# Spark puts .zip on executors' path, not .whl
	cp dist/scribe_spark-*.whl dist/scribe_spark.zip
	rm -rf build

.PHONY: dist
dist: $(VENV)/.dist ## A release: the sdist and the wheel that an index takes, in dist/
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	rm -rf build

.PHONY: setup
setup: java $(VENV)/.run .jars/asked .jars/recorded ## Python packages into .venv, GraphFrames' jar into .jars

.PHONY: java
java: # before anything is downloaded
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "scribe-spark: error: Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@$(PYTHON) -m scribe_spark.runtime.java

.PHONY: graphframes
graphframes: java $(VENV)/.run ## Look for GraphFrames' jar again
	@$(BIN)/python -m scribe_spark.runtime.graphframes_jar .jars

.jars/asked: | $(VENV)/.run
	@$(BIN)/python -m scribe_spark.runtime.graphframes_jar .jars

# Sessions start in half the time with the JVM's classes laid out beforehand.  A small run records
# them as its JVM ends, which is when nothing holds the pipe any more.
.jars/recorded: $(VENV)/.run | .jars/asked
	@echo 'recording JVM classes, once (about half a minute)'
	@SCRIBE_SPARK_RECORD_CLASSES=.jars/classes.new $(SCRIBE) run --config data/tiny.toml \
	  --out .jars/warm --overwrite 2>&1 | cat >.jars/recorded.log
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
clean: ## Remove what was built; .venv, .jars and runs stay
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache spark-warehouse metastore_db derby.log
	find scribe_spark tests jobs tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
