"""The broker under test: the one that BOOTSTRAP names, or a private one for the time of the test."""
import contextlib
import os


@contextlib.contextmanager
def broker(tap, properties=None):
    """Yields the bootstrap address and a function that says whether the broker still runs; its log is printed where a test
    failed."""
    if os.environ.get('BOOTSTRAP'):
        yield os.environ['BOOTSTRAP'], lambda: True
        return
    from pgbroker_cluster import Cluster
    with Cluster(brokers=1, properties=properties) as cluster:
        yield cluster.bootstrap, lambda: cluster.broker(1).pid() is not None
        if tap.failed:
            tap.note(cluster.logs())
