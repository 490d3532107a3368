# pg_broker: one entry for building, running and checking.  `make help` lists the targets.
#
# The C code is a set of components (folders); each becomes a static library in $(BUILD), and the DEPS_*
# lines are the only ones that a component may include from: dependencies point one way.
#
#   make BUILD=dir            build somewhere else
#   make SAN=address,undefined BUILD=build-asan    with sanitizers

BUILD ?= build
SAN ?=
CC = gcc
PG_CONFIG ?= pg_config
OPT ?= -O2 -g
WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla -Wformat=2 -Wundef -Werror
CPPFLAGS += -D_GNU_SOURCE -I. -I$(BUILD)/gen -I$(shell $(PG_CONFIG) --includedir)
# Instrumented code confuses the compiler's flow analysis: its warnings are errors in the plain build only.
SAN_FLAGS = -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-error
CFLAGS += -std=c11 $(OPT) $(WARN) -fno-strict-aliasing -pthread $(if $(SAN),$(SAN_FLAGS))
LDFLAGS += -pthread $(if $(SAN),-fsanitize=$(SAN))
LDLIBS += -lev -lpq -lz -llz4 -lzstd -lsnappy -lcrypto -lm

COMPONENTS = wire base storage cluster group txn meta net api

SRCDIR_wire = wire
SRCDIR_base = brokerd/base
SRCDIR_storage = brokerd/storage
SRCDIR_cluster = brokerd/cluster
SRCDIR_group = brokerd/group
SRCDIR_txn = brokerd/txn
SRCDIR_meta = brokerd/meta
SRCDIR_net = brokerd/net
SRCDIR_api = brokerd/api

DEPS_wire =
DEPS_base = wire
DEPS_storage = base wire
DEPS_net = base wire
DEPS_meta = base wire
DEPS_cluster = storage meta net base wire
DEPS_group = base wire
DEPS_txn = base wire
DEPS_api = cluster group txn meta net storage base wire

## all: builds brokerd and the extension
all: brokerd extension

include wire/wire.mk
include client/client.mk
-include extension/extension.mk
include docker/local/local.mk
include regress/regress.mk

# Everything that needs the generated headers waits for them.
GEN_HEADERS += $(WIRE_GEN_HEADERS)

define component
SRCS_$(1) = $$(if $$(SRCDIR_$(1)),$$(wildcard $$(SRCDIR_$(1))/*.c)) $$(GEN_SRCS_$(1))
OBJS_$(1) = $$(patsubst %.c,$$(BUILD)/obj/%.o,$$(patsubst $$(BUILD)/%,%,$$(SRCS_$(1))))
LIB_$(1) = $$(BUILD)/lib$(1).a
$$(LIB_$(1)): $$(OBJS_$(1))
	@mkdir -p $$(@D) && rm -f $$@ && ar rcsD $$@ $$^
endef
$(foreach c,$(COMPONENTS),$(eval $(call component,$(c))))

libs_of = $(foreach d,$(1) $(DEPS_$(1)),$(LIB_$(d)))

$(BUILD)/obj/%.o: %.c | $(GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c | $(GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC    gen/$*.c"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

brokerd: $(BUILD)/brokerd
MAIN_OBJS = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard brokerd/*.c))
$(BUILD)/brokerd: $(MAIN_OBJS) $(call libs_of,api)
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $(MAIN_OBJS) -Wl,--start-group $(call libs_of,api) -Wl,--end-group $(LDLIBS)

include regress/fuzz/fuzz.mk
include bench/bench.mk
include regress/chaos/chaos.mk

## clean: removes what was built
clean:
	rm -rf build build-*

# ---------------------------------------------------------------------------------------------------- install
# DESTDIR for packagers, PREFIX for where brokerd goes; the extension goes where $(PG_CONFIG) says.
DESTDIR ?=
PREFIX ?= /usr/local

## install DESTDIR=dir PREFIX=/usr/local: installs brokerd, and the extension into the PostgreSQL of PG_CONFIG
install: all
	@install -d '$(DESTDIR)$(PREFIX)/bin'
	@install -m 755 '$(BUILD)/brokerd' '$(DESTDIR)$(PREFIX)/bin/brokerd'
	@+$(MAKE) --no-print-directory install-extension

# Lines of this file and of the included ones that read "## target: what it does".
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | awk -F': ' '{ printf "  make %-34s %s\n", $$1, $$2 }'

print-%:
	@echo '$($*)'

.PHONY: all brokerd clean install help
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
