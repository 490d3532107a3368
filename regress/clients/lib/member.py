"""A member of a consumer group, in a process of its own: what it was given and what it read, as its driver prints it."""
import json
import subprocess
import threading
import time

from process import Driver, DriverError


class Member:
    """The driver of a client in the group command.  A partition is held from the event that gives it to the one that takes it.

    holds      {partition: [[from, to], ...]}: since the epoch; to is None while it is held
    seen       {(partition, offset): generation or None}
    """

    def __init__(self, client, bootstrap, log, **command):
        self.driver = Driver(client, bootstrap, log)
        self.holds = {}
        self.seen = {}
        self.generations = {}       # (generation, partition) -> records read
        self.failure = None
        self.lock = threading.Lock()
        self.driver.process.stdin.write(json.dumps({'op': 'group', **command}).encode() + b'\n')
        self.driver.process.stdin.flush()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while True:
            line = self.driver.lines.get()
            if line is None:
                return
            try:
                event = json.loads(line)
            except ValueError:
                return      # half a line of one that was killed
            with self.lock:
                self._take(event)
            if event['e'] == 'left':
                return

    def _take(self, event):
        kind = event['e']
        if kind == 'error':
            self.failure = event['error']
        elif kind == 'records':
            for offset in event['o']:
                self.seen[(event['p'], offset)] = event['g']
            if event['g'] is not None:
                key = (event['g'], event['p'])
                self.generations[key] = self.generations.get(key, 0) + len(event['o'])
        elif kind == 'left':
            self._release(list(self.holds), time.time())
        elif kind == 'revoked':
            self._release(event['p'], event['t'])
        else:
            if kind == 'assignment':
                self._release(set(self.holding()) - set(event['p']), event['t'])
            for p in set(event['p']) - set(self.holding()):
                self.holds.setdefault(p, []).append([event['t'], None])

    def _release(self, partitions, at):
        for p in partitions:
            if self.holds.get(p) and self.holds[p][-1][1] is None:
                self.holds[p][-1][1] = at

    def holding(self):
        return sorted(p for p, spans in self.holds.items() if spans and spans[-1][1] is None)

    def snapshot(self):
        with self.lock:
            return self.holding(), set(self.seen)

    def kill(self):
        """As a crash: SIGKILL."""
        self.driver.kill()
        self.reader.join(10)
        with self.lock:
            self._release(list(self.holds), time.time())
        self.driver.log.close()

    def leave(self, timeout=30):
        """Ends it in order: it commits and leaves."""
        self.driver.process.stdin.close()
        try:
            self.driver.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            raise DriverError(f'{self.driver.name}: did not leave within {timeout} s') from None
        finally:
            self.driver.log.close()
        self.reader.join()
        if self.failure:
            raise DriverError(f'{self.driver.name}: {self.failure}')

    def end(self):
        """Whatever its state, it ends."""
        if self.driver.process.poll() is None:
            self.driver.kill()
