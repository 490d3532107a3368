# The client: libpgbroker and brokerctl.

COMPONENTS += client
SRCDIR_client = client
DEPS_client = wire
