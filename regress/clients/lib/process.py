"""A client's driver as a process: commands out, answers in, one JSON object a line."""
import json
import os
import queue
import subprocess
import threading

import toolchain


class DriverError(Exception):
    pass


class Driver:
    def __init__(self, name, bootstrap, log):
        """Starts the driver of client NAME; raises toolchain.Missing or toolchain.Broken.  LOG takes its standard error."""
        self.name = name
        command, env = toolchain.make(name)
        self.log = open(log, 'ab')
        self.command = command
        self.env = {**os.environ, **env, 'BOOTSTRAP': bootstrap}
        self.start()
        self.hello = self.ask('hello')
        self.cannot = set(self.hello['cannot'])

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def _read(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def ask(self, op, timeout=40, **fields):
        """The answer to one command; DriverError where it is an error, does not come, or the process ended."""
        if self.process.poll() is not None:
            self.start()
        self.process.stdin.write(json.dumps({'op': op, **fields}).encode() + b'\n')
        self.process.stdin.flush()
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise DriverError(f'{op}: no answer within {timeout} s') from None
        if line is None:
            raise DriverError(f'{op}: the driver ended with {self.process.wait()}')
        answer = json.loads(line)
        if 'error' in answer:
            raise DriverError(f"{op}: {answer['error']}")
        return answer

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()
