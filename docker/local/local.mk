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

## run BROKERS=1 PORT=9092 RUN_DIR=run: starts a cluster with a PostgreSQL of its own, or does nothing when it runs
run: packages-run
	@+$(MAKE) --no-print-directory all
	@$(CLUSTER) start $(CLUSTER_OPTIONS)

## stop: stops it, the data are kept
## status: a line for each process
## logs: the end of its logs, and what comes
## psql: opens psql in its database, or reads SQL from standard input
stop status logs psql:
	@$(CLUSTER) $@ $(CLUSTER_OPTIONS)

## destroy: stops it and deletes its data
# After a `make destroy run` the data are gone before the start, in any order of -j.
destroy:
	@$(CLUSTER) $@ $(CLUSTER_OPTIONS)

ifneq ($(filter destroy,$(MAKECMDGOALS)),)
run: | destroy
endif

.PHONY: packages-run run stop status logs psql destroy
