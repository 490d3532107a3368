# Tests.  regress/unit/COMPONENT/test_*.c each become a program that prints TAP and links only its
# component and what that may depend on.

UNIT_SRCS = $(wildcard regress/unit/*/test_*.c)
UNIT_BINS = $(patsubst regress/unit/%.c,$(BUILD)/unit/%,$(UNIT_SRCS))

# $(BUILD)/unit/COMPONENT/test_x; `make unit-COMPONENT` builds and runs one component's.
define unit_rules
$(BUILD)/unit/$(1)/%: $(BUILD)/obj/regress/unit/$(1)/%.o $$$$(call libs_of,$(1))
	@mkdir -p $$(@D)
	@echo "  LINK  $$@"
	@$$(CC) $$(LDFLAGS) -o $$@ $$< -Wl,--start-group $$(call libs_of,$(1)) -Wl,--end-group $$(LDLIBS)
unit-$(1): $(patsubst regress/unit/%.c,$(BUILD)/unit/%,$(wildcard regress/unit/$(1)/test_*.c))
	@prove --merge -e '' $(patsubst regress/unit/%.c,$(BUILD)/unit/%,$(wildcard regress/unit/$(1)/test_*.c))
.PHONY: unit-$(1)
endef

# What a unit test is linked from stays, so that the next build is quick.
.PRECIOUS: $(BUILD)/obj/%.o

.SECONDEXPANSION:
$(foreach c,$(COMPONENTS),$(eval $(call unit_rules,$(c))))

# A file system that fails on demand, to preload into a running brokerd (its head says how).
$(BUILD)/faultfs.so: regress/unit/storage/faultfs.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) -D_GNU_SOURCE $(CFLAGS) -fPIC -shared -o $@ $< -ldl

unit-programs: $(UNIT_BINS)
unit-programs-asan:
	@+$(MAKE) --no-print-directory BUILD='$(BUILD)/asan' SAN=address,undefined OPT='-O1 -g' unit-programs
unit-programs-tsan:
	@+$(MAKE) --no-print-directory BUILD='$(BUILD)/tsan' SAN=thread OPT='-O1 -g' unit-programs

# The suites are the lines of regress/suites.list; regress/run builds what the chosen ones need.
SUITES ?=
SKIPS_FAIL ?=
JOBS ?= 2

packages-check:
	@docker/local/packages.sh install build run check

## check SUITES=all SKIPS_FAIL=0: every test, or those suites of regress/suites.list
check: packages-check
	@regress/run --build '$(BUILD)' --jobs '$(JOBS)' --suites '$(filter-out all,$(SUITES))' \
		$(if $(filter-out 0,$(SKIPS_FAIL)),--skips-fail)

lint-prepare: $(GEN_HEADERS)

## lint: format, compiler and clang-tidy warnings, order of the components, sizes of files, scripts
lint: packages-check
	@+$(MAKE) --no-print-directory lint-prepare
	@regress/lint/run

## format: lays the C code out with clang-format
format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r "$$(docker/local/packages.sh tool clang-format)" -i

.PHONY: unit-programs unit-programs-asan unit-programs-tsan packages-check check lint-prepare lint format
