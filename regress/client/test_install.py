#!/usr/bin/env python3
"""What `make install` brings of the client is enough: programs are built with pkg-config alone, from C and from C++, the
examples run, the library shows pgb_ names only, and the manual and the completions are sound.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
from pgbroker_cluster import Cluster
from tap import Tap

BUILD = os.path.abspath(os.environ.get("BUILD") or os.path.join(ROOT, "build"))
EXAMPLES = os.path.join(ROOT, "client", "examples")
CPLUSPLUS = """
#include <pgbroker.h>
int main() { pgb_conf *c = pgb_conf_new(); pgb_message m = PGB_MESSAGE("t"); pgb_conf_free(c); return m.partition != PGB_ANY_PARTITION; }
"""


def run(*argv, **options):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False, **options)


def main():
    with Tap() as t, tempfile.TemporaryDirectory() as folder:
        done = run("make", "-s", f"BUILD={BUILD}", "install-client", f"DESTDIR={folder}", "PREFIX=/usr", cwd=ROOT)
        t.equal(done.returncode, 0, "make install-client") or t.note(done.stdout)
        usr = os.path.join(folder, "usr")
        env = {**os.environ, "PKG_CONFIG_PATH": f"{usr}/lib/pkgconfig", "PKG_CONFIG_SYSROOT_DIR": folder,
               "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1", "LD_LIBRARY_PATH": f"{usr}/lib"}
        flags = run("pkg-config", "--cflags", "--libs", "pgbroker", env=env).stdout.split()
        t.ok(any(f.endswith("-lpgbroker") for f in flags), "pkg-config knows it") or t.note(flags)
        for name in ("produce", "consume"):
            done = run("gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", f"{folder}/{name}",
                       f"{EXAMPLES}/{name}.c", *flags)
            t.equal(done.returncode, 0, f"the example {name} is built with nothing else") or t.note(done.stdout)
        with open(f"{folder}/t.cc", "w", encoding="utf-8") as f:
            f.write(CPLUSPLUS)
        if shutil.which("g++"):
            done = run("g++", "-Wall", "-Wextra", "-Werror", "-o", f"{folder}/t", f"{folder}/t.cc", *flags)
            t.ok(done.returncode == 0 and run(f"{folder}/t", env=env).returncode == 0, "a C++ program includes and runs it") or t.note(done.stdout)
        else:
            t.skip("a C++ program includes and runs it", "no g++")
        symbols = run("nm", "-D", "--defined-only", f"{usr}/lib/libpgbroker.so").stdout.split("\n")
        names = [line.split()[-1] for line in symbols if line and " A " not in line]
        t.ok(len(names) > 30 and all(re.match(r"pgb_\w+@@PGBROKER_0\.1$", n) for n in names), "it shows pgb_ names only") or t.note(names)
        with open(os.path.join(ROOT, "client", "pgbroker.h"), encoding="utf-8") as f:
            declared = set(re.findall(r"\b(pgb_\w+)\(", re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)))
        t.equal(declared, {n.split("@")[0] for n in names}, "and all that the header declares")
        t.ok("libpgbroker.so.0" in run("readelf", "-d", f"{usr}/lib/libpgbroker.so").stdout, "its soname is libpgbroker.so.0")
        with Cluster(brokers=1) as c:
            with t.case("the examples run: what one writes the other one reads"):
                lines = "".join(f"line {i}\n" for i in range(1000))
                done = run(f"{folder}/produce", c.bootstrap, "examples", input=lines, env=env)
                assert done.returncode == 0 and "0 not delivered" in done.stdout, done.stdout
                reader = subprocess.Popen([f"{folder}/consume", c.bootstrap, "g", "examples"], stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True, env=env)
                got = [reader.stdout.readline().split(" ", 2)[2] for _ in range(1000)]
                reader.terminate()
                assert reader.wait(20) == 0
                assert sorted(got) == sorted(lines.splitlines(True))
        with t.case("the completions are sound, the manual page has every command"):
            assert run("bash", "-n", f"{usr}/share/bash-completion/completions/brokerctl").returncode == 0
            done = run("bash", "-c", f". {usr}/share/bash-completion/completions/brokerctl; COMP_WORDS=(brokerctl topics cr); "
                       "COMP_CWORD=2; _brokerctl; echo ${COMPREPLY[*]}")
            assert done.stdout.strip() == "create", done.stdout
            with open(f"{usr}/share/man/man1/brokerctl.1", encoding="utf-8") as f:
                page = f.read()
            for words in ("topics create", "consume", "groups describe", "log dump", "bench produce"):
                assert words in page, words


if __name__ == "__main__":
    main()
