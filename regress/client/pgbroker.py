"""libpgbroker from Python, by ctypes: only what tests need.  The structs are those of client/pgbroker.h."""
import ctypes as ct
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
BROKERCTL = os.path.join(BUILD, "brokerctl")
EARLIEST, LATEST, COMMITTED, UNKNOWN = -2, -1, -1000, -1001
QUEUE_FULL = -101
NO_PARTITION = -108


class Bytes(ct.Structure):
    _fields_ = [("data", ct.c_void_p), ("len", ct.c_size_t)]

    def value(self):
        return None if self.data is None else ct.string_at(self.data, self.len)


class Header(ct.Structure):
    _fields_ = [("name", Bytes), ("value", Bytes)]


class Error(ct.Structure):
    _fields_ = [("code", ct.c_int), ("retriable", ct.c_bool), ("text", ct.c_char * 256)]


class Message(ct.Structure):
    _fields_ = [("topic", ct.c_char_p), ("partition", ct.c_int32), ("timestamp", ct.c_int64), ("key", Bytes), ("value", Bytes),
                ("headers", ct.POINTER(Header)), ("n_headers", ct.c_size_t), ("opaque", ct.c_void_p)]


class Report(ct.Structure):
    _fields_ = [("topic", ct.c_char_p), ("partition", ct.c_int32), ("offset", ct.c_int64), ("error", ct.POINTER(Error)), ("opaque", ct.c_void_p)]


class Place(ct.Structure):
    _fields_ = [("topic", ct.c_char_p), ("partition", ct.c_int32), ("offset", ct.c_int64), ("code", ct.c_int32)]


class Record(ct.Structure):
    _fields_ = [("topic", ct.c_char_p), ("partition", ct.c_int32), ("n_headers", ct.c_int32), ("offset", ct.c_int64),
                ("timestamp", ct.c_int64), ("key", Bytes), ("value", Bytes), ("headers", ct.c_void_p), ("end", ct.c_void_p)]


ON_DELIVERY = ct.CFUNCTYPE(None, ct.POINTER(Report), ct.c_void_p)
ON_REBALANCE = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_int, ct.POINTER(Place), ct.c_size_t, ct.c_void_p)
REBALANCES = ("assigned", "revoked", "lost")
lib = ct.CDLL(os.path.join(BUILD, "libpgbroker.so.0"))
for name in ("pgb_conf_new", "pgb_producer_new", "pgb_consumer_new"):
    getattr(lib, name).restype = ct.c_void_p
for name in ("pgb_position", "pgb_lag", "pgb_pending", "pgb_producer_close"):
    getattr(lib, name).restype = ct.c_int64
lib.pgb_version.restype = ct.c_char_p
lib.pgb_header_next.restype = ct.c_bool


class Failure(Exception):
    def __init__(self, error):
        super().__init__(error.text.decode(errors="replace"))
        self.code, self.retriable = error.code, error.retriable


def check(result, error):
    if result is None or result < 0:
        raise Failure(error)
    return result


def as_bytes(data, keep):
    """A pgb_bytes; what it points to is appended to `keep`."""
    if data is None:
        return Bytes(None, 0)
    buffer = ct.create_string_buffer(data, len(data) + 1)
    keep.append(buffer)
    return Bytes(ct.addressof(buffer), len(data))


def places(items):
    """(topic, partition, offset) as an array."""
    return (Place * max(len(items), 1))(*(Place(t.encode(), p, o, 0) for t, p, o in items))


class Handle:
    def __init__(self, settings):
        self.error = Error()
        self.conf = ct.c_void_p(lib.pgb_conf_new())
        for key, value in settings.items():
            check(lib.pgb_conf_set(self.conf, key.encode(), str(value).encode(), ct.byref(self.error)), self.error)


class Producer(Handle):
    """Producer({settings}); reports are (topic, partition, offset, error or None, opaque)."""

    def __init__(self, settings):
        super().__init__(settings)
        self.reports = []
        self.callback = ON_DELIVERY(self._report)
        lib.pgb_conf_on_delivery(self.conf, self.callback, None)
        self.handle = ct.c_void_p(check(lib.pgb_producer_new(self.conf, ct.byref(self.error)), self.error))
        lib.pgb_conf_free(self.conf)

    def _report(self, report, _):
        r = report.contents
        error = Failure(r.error.contents) if r.error else None
        self.reports.append((r.topic.decode(), r.partition, r.offset, error, (r.opaque or 0)))

    def produce(self, topic, value=None, key=None, partition=-1, timestamp=-1, headers=(), opaque=0, block=True):
        keep = []
        pairs = (Header * max(len(headers), 1))(*(Header(as_bytes(k.encode(), keep), as_bytes(v, keep)) for k, v in headers))
        m = Message(topic.encode(), partition, timestamp, as_bytes(key, keep), as_bytes(value, keep), pairs, len(headers), opaque)
        while lib.pgb_produce(self.handle, ct.byref(m), ct.byref(self.error)) != 0:
            if self.error.code != QUEUE_FULL or not block:
                raise Failure(self.error)
            self.work(100)

    def work(self, ms=0):
        return lib.pgb_producer_work(self.handle, ms)

    def pending(self):
        return lib.pgb_pending(self.handle)

    def flush(self, ms=30000):
        check(lib.pgb_flush(self.handle, ms, ct.byref(self.error)), self.error)

    def close(self, ms=30000):
        handle, self.handle = self.handle, None
        return lib.pgb_producer_close(handle, ms) if handle else 0


class Consumer(Handle):
    """Consumer({settings}, on_rebalance=f): f(what, [(topic, partition)])."""

    def __init__(self, settings, on_rebalance=None):
        super().__init__(settings)

        def told(_, what, at, n, __):
            on_rebalance(REBALANCES[what], [(at[i].topic.decode(), at[i].partition) for i in range(n)])
        self.callback = ON_REBALANCE(told)
        if on_rebalance:
            lib.pgb_conf_on_rebalance(self.conf, self.callback, None)
        self.handle = ct.c_void_p(check(lib.pgb_consumer_new(self.conf, ct.byref(self.error)), self.error))
        lib.pgb_conf_free(self.conf)
        self.records = (Record * 500)()

    def call(self, function, *args):
        return check(function(self.handle, *args, ct.byref(self.error)), self.error)

    def subscribe(self, *topics):
        self.call(lib.pgb_subscribe, (ct.c_char_p * max(len(topics), 1))(*(t.encode() for t in topics)), ct.c_size_t(len(topics)))

    def assign(self, *items):
        self.call(lib.pgb_assign, places(items), ct.c_size_t(len(items)))

    def poll(self, ms=100, most=500):
        """[(topic, partition, offset, timestamp, key, value, headers)]"""
        n = self.call(lib.pgb_poll, self.records, most, ms)
        return [(r.topic.decode(), r.partition, r.offset, r.timestamp, r.key.value(), r.value.value(), self.headers(r)) for r in self.records[:n]]

    @staticmethod
    def headers(record):
        at, header, found = ct.c_void_p(), Header(), []
        while record.n_headers and lib.pgb_header_next(ct.byref(record), ct.byref(at), ct.byref(header)):
            found.append((header.name.value().decode(), header.value.value()))
        return found

    def offsets(self, *items):
        """The offsets of (topic, partition, time)."""
        at = places(items)
        self.call(lib.pgb_offsets, at, ct.c_size_t(len(items)), 20000)
        return [at[i].offset for i in range(len(items))]

    def committed(self, *items):
        at = places([(t, p, 0) for t, p in items])
        self.call(lib.pgb_committed, at, ct.c_size_t(len(items)), 20000)
        return [at[i].offset for i in range(len(items))]

    def commit(self, *items, ms=20000):
        self.call(lib.pgb_commit, places(items) if items else None, ct.c_size_t(len(items)), ms)

    def seek(self, topic, partition, offset):
        self.call(lib.pgb_seek, topic.encode(), partition, ct.c_int64(offset))

    def seek_time(self, topic, partition, at):
        self.call(lib.pgb_seek_time, topic.encode(), partition, ct.c_int64(at))

    def pause(self, topic, partition):
        self.call(lib.pgb_pause, topic.encode(), partition)

    def resume(self, topic, partition):
        self.call(lib.pgb_resume, topic.encode(), partition)

    def position(self, topic, partition):
        return lib.pgb_position(self.handle, topic.encode(), partition)

    def lag(self, topic, partition):
        return lib.pgb_lag(self.handle, topic.encode(), partition)

    def partitions(self, topic):
        return self.call(lib.pgb_partitions, topic.encode(), 20000)

    def close(self, ms=5000):
        """What it calls back about, may ask it to commit."""
        if self.handle:
            lib.pgb_consumer_close(self.handle, ms)
        self.handle = None


def brokerctl(*args, bootstrap, text="", check_code=True):
    """What brokerctl prints; AssertionError with what it says when it fails (or, unchecked, (code, out, err))."""
    done = subprocess.run([BROKERCTL, *args], input=text, capture_output=True, text=True, timeout=90,
                          env={**os.environ, "PGBROKER_BOOTSTRAP": bootstrap}, check=False)
    if not check_code:
        return done.returncode, done.stdout, done.stderr
    assert done.returncode == 0, f"brokerctl {' '.join(args)}: {done.returncode}: {done.stderr}"
    return done.stdout
