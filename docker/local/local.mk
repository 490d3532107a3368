# The private cluster on this machine: run, stop, status, logs, psql, destroy.  docker/local/cluster.py does the work.
#
#   make run BROKERS=3 PORT=9192 RUN_DIR='some where'

BROKERS ?=
PORT ?=
RUN_DIR ?= run
CLUSTER = docker/local/cluster.py
CLUSTER_OPTIONS = --run-dir="$$PGB_RUN_DIR" --brokers="$(BROKERS)" --port="$(PORT)" --build="$(BUILD)"

# By the environment, so that no character of a path means anything to make's shell.
run stop status logs psql destroy: export PGB_RUN_DIR = $(RUN_DIR)

packages-run:
	@docker/local/packages.sh install build run

run: packages-run
	@+$(MAKE) --no-print-directory all
	@$(CLUSTER) start $(CLUSTER_OPTIONS)

stop status logs psql:
	@$(CLUSTER) $@ $(CLUSTER_OPTIONS)

# After a `make destroy run` the data are gone before the start, in any order of -j.
destroy:
	@$(CLUSTER) $@ $(CLUSTER_OPTIONS)

ifneq ($(filter destroy,$(MAKECMDGOALS)),)
run: | destroy
endif

.PHONY: packages-run run stop status logs psql destroy
