# The client: libpgbroker and brokerctl.

COMPONENTS += client
SRCDIR_client = client
DEPS_client = wire

# The client's pure functions as a filter, beside librdkafka's (regress/client/test_java.py).
$(BUILD)/client_lines: $(BUILD)/obj/regress/client/lines.o $(BUILD)/libclient.a $(BUILD)/libwire.a
	@echo "  LINK  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(CLIENT_LIBS) -lrdkafka
CLIENT_LIBS = -lz -llz4 -lzstd -lsnappy
