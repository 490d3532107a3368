"""Instructions and allocations of a running brokerd, by valgrind's callgrind.

    program = wrapper(folder, brokerd)       a program to start instead of brokerd; it counts nothing yet
    counter = Callgrind(pid, folder)
    counter.begin(); ...; profile = counter.end()
    profile.instructions                     of user code, of all threads
    profile.functions                        {"log_append_as_leader": 81234, ...}: those of its own code
    profile.allocations                      {"malloc < conn_new < on_acceptable": 3, ...}: calls, with who called

callgrind and not perf: it counts the same on every machine, and most virtual machines have no counters.  The
kernel's part of a system call is not in it; that is what counting system calls is for.
"""
import collections
import dataclasses
import os
import re
import subprocess

ALLOCATORS = ("malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign")
CALLERS = 4


def wrapper(folder, brokerd):
    path = os.path.join(folder, "brokerd-counted")
    contexts = " ".join(f"--separate-callers{CALLERS}={name}" for name in ALLOCATORS)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n"
                   f"exec valgrind --quiet --tool=callgrind --instr-atstart=no {contexts} "
                   f"--callgrind-out-file='{folder}/callgrind.out.%p' '{os.path.abspath(brokerd)}' \"$@\"\n")
    os.chmod(path, 0o755)
    return path


@dataclasses.dataclass
class Profile:
    instructions: int
    functions: dict
    allocations: dict


class Callgrind:
    def __init__(self, pid, folder):
        self.pid = pid
        self.folder = folder
        self.parts = 0

    def control(self, *words):
        done = subprocess.run(["callgrind_control", *words, str(self.pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode or "OK" not in done.stdout:
            raise RuntimeError(f"callgrind_control {' '.join(words)}: {done.stdout.strip()}")

    def begin(self):
        self.control("-z")
        self.control("-i", "on")

    def end(self):
        self.control("-i", "off")
        self.control("-d")
        self.parts += 1
        path = os.path.join(self.folder, f"callgrind.out.{self.pid}.{self.parts}")
        with open(path, encoding="utf-8", errors="replace") as file:
            profile = parse(file)
        os.unlink(path)
        return profile


def parse(lines):
    """A file of callgrind (its format is in valgrind's manual): names are numbered when they first come."""
    names, functions, allocations = {}, collections.Counter(), collections.Counter()
    function, callee, is_call, total = "", "", False, 0
    for line in lines:
        line = line.rstrip("\n")
        found = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line)
        if found:
            kind, number, name = found.groups()
            if name is not None:
                names[number] = name
            if kind == "fn":
                function = names[number]
            else:
                callee = names[number]
        elif line.startswith("calls="):
            if callee.split("'")[0] in ALLOCATORS and function.split("'")[0] not in ALLOCATORS:
                allocations[chain(callee)] += int(line[6:].split()[0])
            is_call = True
        elif line[:1] in "0123456789+-*" and line:
            # A line behind calls= is what the callee cost.
            if not is_call:
                cost = int(line.split()[1])
                functions[function.split("'")[0]] += cost
                total += cost
            is_call = False
    return Profile(total, dict(functions), dict(allocations))


def chain(name):
    """malloc'a'b'c, as callgrind writes it, with the innermost first."""
    return " < ".join(name.split("'"))
