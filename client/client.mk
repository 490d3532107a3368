# The client: libpgbroker (client/*.c, with wire/) and brokerctl (client/ctl/*.c, linked with both as archives).

COMPONENTS += client
SRCDIR_client = client
DEPS_client = wire
CLIENT_LIBS = -lz -llz4 -lzstd -lsnappy

CTL_OBJS = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard client/ctl/*.c))
$(BUILD)/brokerctl: $(CTL_OBJS) $(BUILD)/libclient.a $(BUILD)/libwire.a
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(CLIENT_LIBS)

# The client's pure functions as a filter, beside librdkafka's (regress/client/test_java.py).
$(BUILD)/client_lines: $(BUILD)/obj/regress/client/lines.o $(BUILD)/libclient.a $(BUILD)/libwire.a
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(CLIENT_LIBS) -lrdkafka
