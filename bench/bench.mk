# Benchmarks.  They are never part of `make check`: the machine's noise is no test.

$(BUILD)/log_bench: $(BUILD)/obj/bench/log_bench.o $(call libs_of,storage)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(call libs_of,storage) -Wl,--end-group $(LDLIBS)

## bench-figures: measures start, memory, produce and fetch on this machine (about 5 minutes)
bench-figures: all $(BUILD)/bench/load
	@BUILD=$(BUILD) bench/figures.py $(FIGURES)

## bench-groups: measures commits, rebalances and idle groups (about 2 minutes)
bench-groups: all
	@BUILD=$(BUILD) bench/groups.py

.PHONY: bench-figures bench-groups

# The load tools.  `load` is on librdkafka, `replay` on sockets and wire/ alone.
LOAD_SHARED = dial hist meter options payload result
LOAD_OBJS = $(patsubst bench/load/%.c,$(BUILD)/obj/bench/load/%.o,$(wildcard bench/load/load*.c) \
	$(patsubst %,bench/load/%.c,consumer producer rdk $(LOAD_SHARED)))
REPLAY_OBJS = $(patsubst bench/load/%.c,$(BUILD)/obj/bench/load/%.o,$(wildcard bench/load/replay*.c) \
	$(patsubst %,bench/load/%.c,$(LOAD_SHARED)))

$(LOAD_OBJS): | $(BUILD)/librdkafka.found
$(BUILD)/librdkafka.found:
	@mkdir -p $(@D)
	@printf '#include <librdkafka/rdkafka.h>\n' | $(CC) -E -x c - >/dev/null 2>&1 || \
		{ echo "The load generator needs librdkafka's headers: apt-get install librdkafka-dev" >&2; exit 1; }
	@touch $@

$(BUILD)/bench/load: $(LOAD_OBJS)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ -lrdkafka -lm

$(BUILD)/bench/replay: $(REPLAY_OBJS) $(BUILD)/libwire.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ -lz -llz4 -lzstd -lsnappy -lm

## bench-load: builds the load tools, bench/load and bench/replay of the build folder
bench-load: $(BUILD)/bench/load $(BUILD)/bench/replay

.PHONY: bench-load

# brokerd and Apache Kafka side by side.  What is asked for goes by the environment: SCENARIOS PAIRS SYSTEMS NULL RESULTS
# BENCH_DIR SECONDS_A_RUN; bench/run.py says what each is.
bench-prepare:
	@docker/local/packages.sh install build run bench
	@+$(MAKE) --no-print-directory all bench-load

BENCH_RUN = BUILD='$(BUILD)' SCENARIOS='$(SCENARIOS)' PAIRS='$(PAIRS)' SYSTEMS='$(SYSTEMS)' NULL='$(NULL)' RESULTS='$(RESULTS)' \
	BENCH_DIR='$(BENCH_DIR)' SECONDS_A_RUN='$(SECONDS_A_RUN)' bench/run.py

## bench SCENARIOS=pattern PAIRS=5: brokerd and Apache Kafka, the table of goals (about 15 minutes)
bench: bench-prepare
	@$(BENCH_RUN) --profile bench

## bench-quick: the same, a handful of scenarios (two minutes)
bench-quick: bench-prepare
	@$(BENCH_RUN) --profile quick

## bench-all: everything that there is, and how costs grow (hours)
bench-all: bench-prepare
	@$(BENCH_RUN) --profile all

.PHONY: bench-prepare bench bench-quick bench-all

# What a request costs in instructions, system calls and allocations: counts that hold on a busy machine, too.
$(BUILD)/valgrind.found:
	@docker/local/packages.sh install build run bench
	@mkdir -p $(@D) && touch $@

## bench-counts: instructions, system calls and allocations a request, against the kept figures (five minutes)
bench-counts: all bench-load $(BUILD)/valgrind.found
	@BUILD='$(BUILD)' bench/counts/counts.py

## bench-counts-keep: counts anew, and keeps the figures (bench/counts/figures.json)
bench-counts-keep: all bench-load $(BUILD)/valgrind.found
	@BUILD='$(BUILD)' bench/counts/counts.py --keep

.PHONY: bench-counts bench-counts-keep

# Tests of the load tools: regress/unit/bench in C, regress/bench in Python.
BENCH_TEST_OBJS = $(patsubst %,$(BUILD)/obj/bench/load/%.o,dial hist meter options payload replay_cluster replay_spread)
$(BUILD)/unit/bench/%: $(BUILD)/obj/regress/unit/bench/%.o $(BENCH_TEST_OBJS) $(BUILD)/libwire.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ -lz -llz4 -lzstd -lsnappy -lm
bench-tests: all bench-load

.PHONY: bench-tests
