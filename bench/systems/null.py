"""A broker that keeps nothing but bytes: the ceiling of this machine and this client.  Off by default (--null PATH).

It is not part of the project: PATH is its source (compiled here) or its program.  It speaks Produce, Fetch, Metadata
and little else; topics exist as soon as they are named, so none are made, and it is started anew for each run.
"""
import os
import shutil
import signal
import subprocess

from bench.systems.system import NotServing, System, wait_until


def build(path, folder):
    """The program of PATH, compiled when it is C."""
    if not path.endswith(".c"):
        return os.path.abspath(path)
    program = os.path.join(folder, "nullbroker")
    subprocess.run(["gcc", "-O2", "-march=native", "-o", program, path, "-pthread"], check=True)
    return program


class Null(System):
    kind = "null"
    title = "null broker"
    has_topics = False

    def __init__(self, folder, program, mode, partitions=1):
        super().__init__(folder)
        self.program, self.mode, self.partitions = program, mode, partitions
        self.process = None

    def start(self):
        from pgbroker_cluster import free_port
        self.port = free_port()
        self.place = os.path.join(self.folder, f"null-{self.mode}")
        shutil.rmtree(self.place, ignore_errors=True)
        os.makedirs(self.place)
        with open(os.path.join(self.folder, f"null-{self.mode}.log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--port", str(self.port), "--mode", self.mode, "--dir", self.place, "--partitions", str(self.partitions)],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: self.is_serving(1), 10, "the null broker answers")
        return self

    def is_serving(self, node):
        if self.process.poll() is not None:
            raise NotServing("the null broker ended while it started")
        try:
            with self.connection(node, timeout=2) as k:
                return bool(k.call("Metadata", 5, {"topics": [], "allow_auto_topic_creation": False})["brokers"])
        except OSError:
            return False

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
            shutil.rmtree(self.place, ignore_errors=True)

    def ports(self):
        return {1: self.port}

    def node_pids(self, node):
        return [self.process.pid]

    def data_folders(self):
        return [self.place]

    def create_topic(self, name, partitions=1, *_, **__):
        if partitions != self.partitions:
            raise NotServing("the null broker has another number of partitions")

    def delete_topics(self, names):
        pass

    def version(self):
        return f"{os.path.basename(self.program)}, mode {self.mode}"

    def settings(self):
        return {}

    def logs(self):
        return ""
