"""connections.max.idle.ms: a connection that the fixture opened, and nobody used since, is closed.  The last case."""
from case import case

PATIENCE = 45       # half more than the limit


@case("ApiVersions", "latest", name="connection: idle for longer than connections.max.idle.ms")
def idle(side, version):
    side.note("answer", side.common["idle"].receive("ApiVersions", version, PATIENCE)[1])
