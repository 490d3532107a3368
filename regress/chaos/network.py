"""A network of its own for a cluster, that can be cut between any two nodes, in one direction or both.

    enter()                          become a process in private network and mount namespaces (root only)
    net = Network(["b1", "b2", "b3", "client"], ["pg1", "pg2"])
    net.address("b1")                "10.77.0.11"
    net.command("b1")                what to put before a program's argv so that it runs there
    net.cut("b1", "b2")              nothing of b1 arrives at b2 any more; the other way still works
    net.heal()

Each of the first nodes has a network namespace of its own on a bridge; the second ones are addresses of the
bridge itself, for a server that cannot be started by nsenter because it is not root.  The namespaces are
children of ours, so the kernel removes all of it when the last process in them has ended, however that came.
Whoever stands at the bridge (the test itself) reaches everybody, whatever is cut.
"""
import os
import shutil
import subprocess
import sys

PREFIX = "10.77.0."
NAMES = "/run/netns"


def is_possible():
    """Whether this machine lets us: root, the tools, and a kernel that has namespaces and packet filters."""
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("unshare", "nsenter", "ip", "iptables")):
        return False
    probe = "ip link add type veth && ip link add br0 type bridge && iptables -A INPUT -s 10.77.0.9 -j DROP"
    return subprocess.run(["unshare", "--net", "sh", "-c", probe], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def enter():
    """Runs this program again inside; returns only there."""
    if os.environ.get("CHAOS_NETWORK") == "entered":
        return
    os.makedirs(NAMES, exist_ok=True)
    os.environ["CHAOS_NETWORK"] = "entered"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def _run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout.strip()}")


class Network:
    def __init__(self, nodes, at_bridge=()):
        self.inside = {name: PREFIX + str(11 + i) for i, name in enumerate(nodes)}
        self.at_bridge = {name: PREFIX + str(101 + i) for i, name in enumerate(at_bridge)}
        _run("mount", "-t", "tmpfs", "none", NAMES)
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "br0", "type", "bridge")
        _run("ip", "address", "add", PREFIX + "1/24", "dev", "br0")
        for address in self.at_bridge.values():
            _run("ip", "address", "add", address + "/24", "dev", "br0")
        _run("ip", "link", "set", "br0", "up")
        for name, address in self.inside.items():
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", "to-" + name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", "to-" + name, "master", "br0", "up")
            _run("ip", "-n", name, "address", "add", address + "/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "link", "set", "eth0", "up")

    def address(self, name):
        return self.inside.get(name) or self.at_bridge[name]

    def command(self, name):
        return ["nsenter", f"--net={NAMES}/{name}"] if name in self.inside else []

    def cut(self, source, target):
        """What `source` sends is dropped where `target` would receive it: nobody is told, as in a real one."""
        _run(*self.command(target), "iptables", "-w", "-A", "INPUT", "-s", self.address(source), "-d", self.address(target), "-j", "DROP")

    def heal(self):
        for name in [*self.inside, *list(self.at_bridge)[:1]]:
            _run(*self.command(name), "iptables", "-w", "-F", "INPUT")
