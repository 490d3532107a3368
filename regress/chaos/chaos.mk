# Faults by the minute against a cluster of real processes; docs/contributing.md says how to read what it prints.

CHAOS_SEED = $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))

# Notes what a broker has synced, so that a test can take the rest away (its head says how).
$(BUILD)/lost_tail.so: regress/chaos/lost_tail.c
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) -D_GNU_SOURCE $(CFLAGS) -fPIC -shared -o $@ $< -ldl

# In which generation a member of libpgbroker is.
$(BUILD)/client_generation.so: regress/chaos/client_generation.c $(GEN_HEADERS) $(wildcard client/*.h)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -shared -o $@ $<

chaos-prepare: all $(BUILD)/faultfs.so $(BUILD)/lost_tail.so $(BUILD)/client_generation.so

## chaos MINUTES=10 SEED=random: a cluster under a seeded schedule of faults, and what it lost: nothing
chaos: chaos-prepare
	@BUILD='$(BUILD)' regress/chaos/run --minutes '$(or $(MINUTES),10)' --seed '$(CHAOS_SEED)' $(CHAOS_OPTIONS)

.PHONY: chaos chaos-prepare
