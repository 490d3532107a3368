# Benchmarks.  They are never part of `make check`: the machine's noise is no test.

$(BUILD)/rdload: bench/rdload.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(CFLAGS) -D_GNU_SOURCE -o $@ $< -lrdkafka

## bench-figures: measures start, memory, produce and fetch on this machine (about 5 minutes)
bench-figures: all $(BUILD)/rdload
	@BUILD=$(BUILD) bench/figures.py $(FIGURES)

.PHONY: bench-figures
