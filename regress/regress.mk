# Tests.  regress/unit/COMPONENT/test_*.c each become a program that prints TAP and links only its
# component and what that may depend on.

UNIT_SRCS = $(wildcard regress/unit/*/test_*.c)
UNIT_BINS = $(patsubst regress/unit/%.c,$(BUILD)/unit/%,$(UNIT_SRCS))

# $(BUILD)/unit/COMPONENT/test_x; `make unit-COMPONENT` builds and runs one component's.
define unit_rules
$(BUILD)/unit/$(1)/%: $(BUILD)/obj/regress/unit/$(1)/%.o $$(call libs_of,$(1))
	@mkdir -p $$(@D)
	@echo "  LINK  $$@"
	@$$(CC) $$(LDFLAGS) -o $$@ $$< -Wl,--start-group $$(call libs_of,$(1)) -Wl,--end-group $$(LDLIBS)
unit-$(1): $(patsubst regress/unit/%.c,$(BUILD)/unit/%,$(wildcard regress/unit/$(1)/test_*.c))
	@prove --merge -e '' $(patsubst regress/unit/%.c,$(BUILD)/unit/%,$(wildcard regress/unit/$(1)/test_*.c))
.PHONY: unit-$(1)
endef

.SECONDEXPANSION:
$(foreach c,$(COMPONENTS),$(eval $(call unit_rules,$(c))))
