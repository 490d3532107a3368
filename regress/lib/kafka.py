#!/usr/bin/env python3
"""Apache Kafka as a judge: its broker and its command-line tools, from Maven, run without an installation.

    kafka.py jars                     print the class path (fetches the jars the first time)
    kafka.py version                  print Kafka's version
    kafka.py server DIR PORT [K=V...] one KRaft node (broker and controller) with its data in DIR, in the foreground;
                                      says "ready 127.0.0.1:PORT" once a client is served
    kafka.py tool TOOL ARG...         one of TOOLS (kafka-topics, kafka-configs, ...) or a class name

As a module:

    with kafka.Server(dir, port) as server: ...       server.bootstrap, server.log_path, server.data_dir
    with kafka.ToolBox() as tools:                    one JVM for any number of tools, one after the other
        status, out, err = tools.run('kafka-topics', '--bootstrap-server', b, '--list')

Everything is kept in cache_dir()/kafka-VERSION and reused; several processes may ask at the same time.  Unavailable is
raised, with a sentence for people, where Java or Maven is missing or the jars cannot be had: a suite turns it into a skip.
"""
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from pgbroker_cluster import free_port

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'kafka')
CLUSTER_ID = 'cGdfYnJva2VyLWp1ZGdlMQ'
START_TIMEOUT = 90

TOOLS = {
    'kafka-broker-api-versions': 'org.apache.kafka.tools.BrokerApiVersionsCommand',
    'kafka-cluster': 'org.apache.kafka.tools.ClusterTool',
    'kafka-configs': 'kafka.admin.ConfigCommand',
    'kafka-console-consumer': 'org.apache.kafka.tools.consumer.ConsoleConsumer',
    'kafka-console-producer': 'org.apache.kafka.tools.ConsoleProducer',
    'kafka-consumer-groups': 'org.apache.kafka.tools.consumer.group.ConsumerGroupCommand',
    'kafka-consumer-perf-test': 'org.apache.kafka.tools.ConsumerPerformance',
    'kafka-delete-records': 'org.apache.kafka.tools.DeleteRecordsCommand',
    'kafka-dump-log': 'kafka.tools.DumpLogSegments',
    'kafka-features': 'org.apache.kafka.tools.FeatureCommand',
    'kafka-get-offsets': 'org.apache.kafka.tools.GetOffsetShell',
    'kafka-groups': 'org.apache.kafka.tools.GroupsCommand',
    'kafka-leader-election': 'org.apache.kafka.tools.LeaderElectionCommand',
    'kafka-log-dirs': 'org.apache.kafka.tools.LogDirsCommand',
    'kafka-producer-perf-test': 'org.apache.kafka.tools.ProducerPerformance',
    'kafka-reassign-partitions': 'org.apache.kafka.tools.reassign.ReassignPartitionsCommand',
    'kafka-storage': 'kafka.tools.StorageTool',
    'kafka-topics': 'org.apache.kafka.tools.TopicCommand',
    'kafka-transactions': 'org.apache.kafka.tools.TransactionsCommand',
    'kafka-verifiable-consumer': 'org.apache.kafka.tools.VerifiableConsumer',
    'kafka-verifiable-producer': 'org.apache.kafka.tools.VerifiableProducer',
}

# A short-lived JVM on a small machine: the first compiler only, the collector without threads.
JVM = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto', '-Djava.awt.headless=true']


class Unavailable(Exception):
    """The judge cannot be had here; the text says why."""


def cache_dir():
    """Where what is fetched is kept: $PGB_CACHE, else pg_broker in the user's cache folder."""
    base = os.environ.get('PGB_CACHE')
    if not base:
        base = os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'pg_broker')
    return os.path.abspath(base)


@contextlib.contextmanager
def locked(path):
    """Holds the lock file PATH: only one process fills a cache folder."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def need(program, package):
    if not shutil.which(program):
        raise Unavailable(f'{program} is not installed (Debian: {package})')


def version():
    with open(os.path.join(HERE, 'pom.xml')) as pom:
        return re.search(r'<kafka\.version>([^<]+)<', pom.read()).group(1)


def _fingerprint():
    digest = hashlib.sha256()
    for name in ('pom.xml', 'Judge.java'):
        with open(os.path.join(HERE, name), 'rb') as f:
            digest.update(f.read())
    return digest.hexdigest()


def _run(what, command, cwd):
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines()
        errors = [line.partition('[ERROR] ')[2] for line in lines if '[ERROR] ' in line]         # Maven's last lines are where to read about it
        raise Unavailable(f'{what} failed: ' + '; '.join(errors[:1] or lines[-3:]))


def _fill(home):
    need('mvn', 'maven')
    need('javac', 'openjdk-17-jdk-headless')
    work = home + '.new'
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    for name in os.listdir(HERE):
        shutil.copy(os.path.join(HERE, name), work)
    _run('fetching the jars of Apache Kafka', ['mvn', '-q', '-B', 'dependency:copy-dependencies', '-DincludeScope=runtime',
                                               f'-DoutputDirectory={work}/jars'], work)
    _run('compiling Judge.java', ['javac', '-cp', f'{work}/jars/*', '-d', f'{work}/classes', 'Judge.java'], work)
    with open(os.path.join(work, 'fingerprint'), 'w') as f:
        f.write(_fingerprint())
    shutil.rmtree(home, ignore_errors=True)
    os.rename(work, home)


def home():
    """The folder with jars/ and classes/, filled when it is missing or older than the files beside this one."""
    need('java', 'openjdk-17-jdk-headless')
    path = os.path.join(cache_dir(), 'kafka-' + version())
    with locked(path + '.lock'):
        try:
            with open(os.path.join(path, 'fingerprint')) as f:
                current = f.read() == _fingerprint()
        except FileNotFoundError:
            current = False
        if not current:
            _fill(path)
    return path


def classpath():
    path = home()
    jars = sorted(os.path.join(path, 'jars', j) for j in os.listdir(os.path.join(path, 'jars')))
    return os.pathsep.join([os.path.join(path, 'classes')] + jars)


def java(*args, heap='256m', level='ERROR'):
    """The command that runs Judge with ARGS."""
    config = os.path.join(HERE, 'log4j2.xml')
    return (['java', f'-Xmx{heap}', *JVM, f'-Dlog4j2.configurationFile={config}', f'-Djudge.level={level}', '-cp', classpath(), 'Judge']
            + list(args))


def ask(port, key, api_version, body):
    """One request with header v1; returns the response without its correlation id."""
    with socket.create_connection(('127.0.0.1', port), timeout=5) as s:
        s.settimeout(5)
        frame = struct.pack('>hhih', key, api_version, 1, -1) + body
        s.sendall(struct.pack('>i', len(frame)) + frame)
        data = b''
        while len(data) < 4 or len(data) < 4 + struct.unpack('>i', data[:4])[0]:
            chunk = s.recv(65536)
            if not chunk:
                raise OSError('closed')
            data += chunk
        return data[8:]


def is_serving(port):
    """True once Metadata names a broker: from then on a client is served."""
    try:
        return struct.unpack('>i', ask(port, 3, 1, struct.pack('>i', 0))[:4])[0] > 0
    except (OSError, struct.error):
        return False


class Server:
    """One KRaft node with its data in DIR, which is kept; config adds to or replaces what the properties file has."""

    def __init__(self, path, port=None, config=None):
        self.dir = os.path.abspath(path)
        self.port = port or free_port()
        self.bootstrap = f'127.0.0.1:{self.port}'
        self.data_dir = os.path.join(self.dir, 'data')
        self.log_path = os.path.join(self.dir, 'server.log')
        self.config = dict(config or {})
        self.process = None

    def _properties(self):
        controller = free_port()
        values = {
            'process.roles': 'broker,controller',
            'node.id': 1,
            'controller.quorum.voters': f'1@127.0.0.1:{controller}',
            'listeners': f'PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}',
            'advertised.listeners': f'PLAINTEXT://127.0.0.1:{self.port}',
            'controller.listener.names': 'CONTROLLER',
            'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
            'log.dirs': self.data_dir,
            'offsets.topic.replication.factor': 1,
            'offsets.topic.num.partitions': 4,
            'transaction.state.log.replication.factor': 1,
            'transaction.state.log.min.isr': 1,
            'transaction.state.log.num.partitions': 4,
            'share.coordinator.state.topic.replication.factor': 1,
            'share.coordinator.state.topic.min.isr': 1,
            'share.coordinator.state.topic.num.partitions': 1,
            'group.initial.rebalance.delay.ms': 0,
        }
        values.update(self.config)
        return ''.join(f'{k}={v}\n' for k, v in values.items())

    def start(self):
        os.makedirs(self.dir, exist_ok=True)
        properties = os.path.join(self.dir, 'server.properties')
        with open(properties, 'w') as f:
            f.write(self._properties())
        command = java('server', properties, CLUSTER_ID, heap='512m', level='INFO')
        with open(self.log_path, 'ab') as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir)
        deadline = time.monotonic() + START_TIMEOUT
        while not is_serving(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f'Apache Kafka did not start; see {self.log_path}')
            time.sleep(0.1)
        return self

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()


class ToolBox:
    """Kafka's tools in one JVM, which starts with the first run()."""

    def __init__(self, heap='256m'):
        self.heap = heap
        self.process = None

    def _start(self):
        self.process = subprocess.Popen(java('tools', heap=self.heap), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _read(self, size):
        data = self.process.stdout.read(size)
        if len(data) != size:
            raise RuntimeError('the JVM of the tools ended')
        return data

    def _read_int(self):
        return struct.unpack('>i', self._read(4))[0]

    def run(self, tool, *args, stdin=''):
        """Runs a tool of TOOLS or a class; returns (exit status, stdout, stderr)."""
        if not self.process or self.process.poll() is not None:
            self._start()
        strings = [TOOLS.get(tool, tool), *map(str, args), stdin]
        message = struct.pack('>i', len(strings) - 1)
        for s in strings:
            encoded = s.encode()
            message += struct.pack('>i', len(encoded)) + encoded
        self.process.stdin.write(message)
        self.process.stdin.flush()
        status = self._read_int()
        out = self._read(self._read_int()).decode(errors='replace')
        err = self._read(self._read_int()).decode(errors='replace')
        return status, out, err

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def main(argv):
    if argv == ['jars']:
        print(classpath())
    elif argv == ['version']:
        print(version())
    elif len(argv) >= 3 and argv[0] == 'server':
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))      # the JVM ends with this process
        with Server(argv[1], int(argv[2]), dict(kv.split('=', 1) for kv in argv[3:])) as server:
            print(f'ready {server.bootstrap}', flush=True)
            try:
                return server.process.wait()
            except KeyboardInterrupt:
                return 0
    elif len(argv) >= 2 and argv[0] == 'tool':
        os.execvp('java', java(TOOLS.get(argv[1], argv[1]), *argv[2:]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except Unavailable as e:
        print(f'kafka.py: {e}', file=sys.stderr)
        sys.exit(3)
