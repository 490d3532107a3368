"""The cases, a file an API.  The order is that in which they run."""
from . import api_versions, metadata, produce, idempotence, fetch, offsets
