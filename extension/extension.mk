# The extension: `make extension` builds it in $(BUILD)/extension, `make install-extension` installs it into
# the PostgreSQL of PG_CONFIG (DESTDIR is respected).  The sources are copied, so that nothing is written
# into the tree and PGXS finds everything in one folder.

# What knows no PostgreSQL is a component too, for the unit tests.
COMPONENTS += extension
GEN_SRCS_extension = $(patsubst %,extension/%.c,config_keys config_value config_units topic_name election placement reassign)
DEPS_extension =

EXT_BUILD = $(BUILD)/extension
EXT_VERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" extension/pg_broker.control)
EXT_SRCS = $(wildcard extension/*.c extension/*.h extension/*.def) extension/Makefile extension/pg_broker.control
EXT_COPIES = $(patsubst extension/%,$(EXT_BUILD)/%,$(EXT_SRCS))
SQL_PARTS = $(addprefix sql/,$(shell grep -v '^\#' sql/parts.list))
EXT_SQL = $(EXT_BUILD)/pg_broker--$(EXT_VERSION).sql
EXT_UPGRADES = $(patsubst sql/upgrade/%,$(EXT_BUILD)/%,$(wildcard sql/upgrade/pg_broker--*--*.sql))

$(EXT_BUILD)/%: extension/%
	@mkdir -p $(@D)
	@cp $< $@

$(EXT_BUILD)/pg_broker--%.sql: sql/upgrade/pg_broker--%.sql
	@mkdir -p $(@D)
	@cp $< $@

$(EXT_SQL): $(SQL_PARTS) sql/parts.list
	@mkdir -p $(@D)
	@for p in $(SQL_PARTS); do echo "-- $$p"; cat "$$p" || exit 1; echo; done > $@.new && mv $@.new $@

## extension: builds the PostgreSQL extension
extension: $(EXT_COPIES) $(EXT_SQL) $(EXT_UPGRADES)
	@$(MAKE) -s -C $(EXT_BUILD) PG_CONFIG=$(PG_CONFIG) all

## install-extension PG_CONFIG=pg_config DESTDIR=: installs it into PostgreSQL
install-extension: extension
	@$(MAKE) -s -C $(EXT_BUILD) PG_CONFIG=$(PG_CONFIG) DESTDIR='$(DESTDIR)' install

## docs-sql: writes the tables of docs/sql.md from the catalog
docs-sql: extension
	@UPDATE_DOCS=1 BUILD='$(BUILD)' regress/sql/run regress/sql/t/docs.py

.PHONY: extension install-extension docs-sql
