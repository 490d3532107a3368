# Fuzzing with clang's libFuzzer.  Each regress/fuzz/fuzz_NAME.c is a program, linked with the libraries on
# its FUZZ_DEPS_NAME line (wire when it has none), all compiled anew with sanitizers.
#
#   make fuzz FUZZ_SECONDS=60             build and run every target, so long each
#   make fuzz FUZZ_TARGETS=batch          or those named
#
#   make fuzz FUZZ_SEED=7                 the same mutations again; without it every run tries others
#
# Seeds come from the golden vectors; what a run finds stays in $(BUILD)/fuzz/corpus/NAME, so that the next
# one goes on from there.  An input that fails is left in $(BUILD)/fuzz as crash-NAME-*; once mended it is
# kept in regress/fuzz/found/NAME, all of which are run first.

FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
FUZZ_CC ?= $(shell docker/local/packages.sh tool clang)
FUZZ_ALL = $(patsubst regress/fuzz/fuzz_%.c,%,$(wildcard regress/fuzz/fuzz_*.c))
FUZZ_TARGETS ?= $(FUZZ_ALL)
FUZZ_BUILD = $(BUILD)/fuzz
FUZZ_FLAGS = -std=c11 -O1 -g -fno-omit-frame-pointer -fno-strict-aliasing -pthread \
	-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all

fuzz_components = wire $(filter-out wire,$(FUZZ_DEPS_$(1)))
fuzz_sources = $(foreach c,$(call fuzz_components,$(1)),$(wildcard $(SRCDIR_$(c))/*.c) $(GEN_SRCS_$(c)))
fuzz_objects = $(patsubst %.c,$(FUZZ_BUILD)/obj/%.o,$(patsubst $(BUILD)/%,%,regress/fuzz/fuzz_$(1).c $(call fuzz_sources,$(1))))

$(FUZZ_BUILD)/obj/%.o: %.c | $(GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  FUZZ  $<"
	@$(FUZZ_CC) $(CPPFLAGS) $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<

$(FUZZ_BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c | $(GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  FUZZ  gen/$*.c"
	@$(FUZZ_CC) $(CPPFLAGS) $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<

$(FUZZ_ALL:%=$(FUZZ_BUILD)/fuzz_%): $(FUZZ_BUILD)/fuzz_%: $$(call fuzz_objects,$$*)
	@$(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

$(FUZZ_BUILD)/seeds: regress/fuzz/seeds.py wire/schema/codec.py $(wildcard regress/wire/vectors/*.gz)
	@mkdir -p $(FUZZ_BUILD)
	@python3 regress/fuzz/seeds.py $@ && touch $@

fuzz-programs: $(FUZZ_TARGETS:%=$(FUZZ_BUILD)/fuzz_%) $(FUZZ_BUILD)/seeds

fuzz-%: $(FUZZ_BUILD)/fuzz_% $(FUZZ_BUILD)/seeds
	@mkdir -p $(FUZZ_BUILD)/corpus/$* $(FUZZ_BUILD)/seeds/$*
	@echo "  RUN   fuzz_$* for $(FUZZ_SECONDS) s"
	@$< -runs=0 -timeout=5 $(wildcard regress/fuzz/found/$*/*) > $(FUZZ_BUILD)/$*.log 2>&1 || { tail -40 $(FUZZ_BUILD)/$*.log; exit 1; }
	@$< -seed=$(FUZZ_SEED) -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=5 -rss_limit_mb=1024 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix=$(FUZZ_BUILD)/crash-$*- \
		$(FUZZ_BUILD)/corpus/$* $(FUZZ_BUILD)/seeds/$* > $(FUZZ_BUILD)/$*.log 2>&1 || { tail -40 $(FUZZ_BUILD)/$*.log; exit 1; }
	@grep 'stat::\(number_of_executed_units\|average_exec\)' $(FUZZ_BUILD)/$*.log

## fuzz FUZZ_SECONDS=60 FUZZ_TARGETS=...: fuzz what reads bytes from outside
fuzz: $(FUZZ_TARGETS:%=fuzz-%)

-include $(shell find $(FUZZ_BUILD)/obj -name '*.d' 2>/dev/null)

.PHONY: fuzz fuzz-programs
