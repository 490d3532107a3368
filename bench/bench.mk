# Benchmarks.  They are never part of `make check`: the machine's noise is no test.

$(BUILD)/rdload: bench/rdload.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(CFLAGS) -D_GNU_SOURCE -o $@ $< -lrdkafka

$(BUILD)/log_bench: $(BUILD)/obj/bench/log_bench.o $(call libs_of,storage)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(call libs_of,storage) -Wl,--end-group $(LDLIBS)

## bench-figures: measures start, memory, produce and fetch on this machine (about 5 minutes)
bench-figures: all $(BUILD)/rdload
	@BUILD=$(BUILD) bench/figures.py $(FIGURES)

## bench-groups: measures commits, rebalances and idle groups (about 2 minutes)
bench-groups: all
	@BUILD=$(BUILD) bench/groups.py

.PHONY: bench-figures bench-groups
