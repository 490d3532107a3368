# The client: libpgbroker (client/*.c, with wire/) and brokerctl (client/ctl/*.c, linked with both as archives).

COMPONENTS += client
SRCDIR_client = client
DEPS_client = wire
CLIENT_LIBS = -lz -llz4 -lzstd -lsnappy

CTL_OBJS = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard client/ctl/*.c))
$(BUILD)/brokerctl: $(CTL_OBJS) $(BUILD)/libclient.a $(BUILD)/libwire.a
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(CLIENT_LIBS)

# The shared library, compiled anew for any address; pgbroker.map says what it shows.  A change that breaks programs
# raises CLIENT_SONAME.
CLIENT_VERSION = $(shell sed -n 's/^\#define PGB_VERSION_TEXT *"\(.*\)"/\1/p' client/pgbroker.h)
CLIENT_SONAME = libpgbroker.so.0
CLIENT_SO = $(BUILD)/libpgbroker.so.$(CLIENT_VERSION)
PIC_OBJS = $(patsubst %.c,$(BUILD)/pic/%.o,$(patsubst $(BUILD)/%,%,$(wildcard client/*.c wire/*.c) $(GEN_SRCS_wire)))

$(BUILD)/pic/%.o: %.c | $(WIRE_GEN_HEADERS)
	@mkdir -p $(@D)
	@echo "  PIC   $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -MMD -MP -c -o $@ $<

$(BUILD)/pic/gen/%.o: $(BUILD)/gen/%.c | $(WIRE_GEN_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -MMD -MP -c -o $@ $<

$(CLIENT_SO): $(PIC_OBJS) client/pgbroker.map
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -shared -Wl,-soname,$(CLIENT_SONAME) -Wl,--version-script,client/pgbroker.map $(if $(SAN),,-Wl,-z,defs) \
		-o $@ $(PIC_OBJS) $(CLIENT_LIBS)
	@ln -sf $(@F) $(BUILD)/$(CLIENT_SONAME) && ln -sf $(CLIENT_SONAME) $(BUILD)/libpgbroker.so

## client: builds libpgbroker and brokerctl
client: $(CLIENT_SO) $(BUILD)/brokerctl
all: client

# With DESTDIR and PREFIX, as brokerd.
install: install-client
install-client: client
	@install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(PREFIX)/lib/pkgconfig' \
		'$(DESTDIR)$(PREFIX)/share/man/man1' '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' \
		'$(DESTDIR)$(PREFIX)/share/zsh/site-functions'
	@install -m 755 '$(BUILD)/brokerctl' '$(DESTDIR)$(PREFIX)/bin/brokerctl'
	@install -m 644 client/pgbroker.h '$(DESTDIR)$(PREFIX)/include/pgbroker.h'
	@install -m 755 '$(CLIENT_SO)' '$(DESTDIR)$(PREFIX)/lib/libpgbroker.so.$(CLIENT_VERSION)'
	@ln -sf 'libpgbroker.so.$(CLIENT_VERSION)' '$(DESTDIR)$(PREFIX)/lib/$(CLIENT_SONAME)'
	@ln -sf '$(CLIENT_SONAME)' '$(DESTDIR)$(PREFIX)/lib/libpgbroker.so'
	@sed 's:@PREFIX@:$(PREFIX):; s:@VERSION@:$(CLIENT_VERSION):' client/pgbroker.pc.in > '$(DESTDIR)$(PREFIX)/lib/pkgconfig/pgbroker.pc'
	@'$(BUILD)/brokerctl' manual > '$(DESTDIR)$(PREFIX)/share/man/man1/brokerctl.1'
	@'$(BUILD)/brokerctl' completion bash > '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/brokerctl'
	@'$(BUILD)/brokerctl' completion zsh > '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_brokerctl'

# What the tests of regress/client run.
client-tests: all $(BUILD)/client_lines client-asan
client-asan:
	@+$(MAKE) --no-print-directory BUILD='$(BUILD)/client-asan' SAN=address,undefined OPT='-O1 -g' client

-include $(shell find $(BUILD)/pic -name '*.d' 2>/dev/null)

.PHONY: client install-client client-tests client-asan

# The client's pure functions as a filter, beside librdkafka's (regress/client/test_java.py).
$(BUILD)/client_lines: $(BUILD)/obj/regress/client/lines.o $(BUILD)/libclient.a $(BUILD)/libwire.a
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(CLIENT_LIBS) -lrdkafka
FUZZ_DEPS_client = client wire
