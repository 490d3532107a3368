"""The cases, a file an API.  The order is that in which they run."""
from . import (api_versions, metadata, connection, produce, idempotence, fetch, offsets, topics, configs, cluster,
               reassignments, groups, group_offsets, group_admin, random_log, idle)
