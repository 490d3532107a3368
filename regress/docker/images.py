"""Builds the images of docker/Dockerfile on this machine, by podman, from Debian packages only: no image registry.

    enter()                  become a process in private mount, network and pid namespaces (root only)
    images = Images()
    images.build("brokerd")  a stage of docker/Dockerfile, as localhost/pg_broker/brokerd; Failed where it fails
    images.podman("ps")      -> what it printed; Failed where it fails

The base is what mmdebstrap makes from the Debian mirrors that apt is configured with here; the compiler's image has ccache
before gcc.  These, the layers of packages, the last images and ccache's files stay in the cache folder, so that a second
run compiles what has changed and nothing else.  One process at a time uses that storage; containers and volumes that a
killed one left are removed first.

Everything but the builds happens in the private namespaces: ports, bridges, names of containers and processes collide with
nobody's, and the kernel removes all of it when the last process has ended, however that came.
"""
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "regress", "lib"))
import kafka

TOOLS = "podman podman-compose crun mmdebstrap unshare nsenter ip iptables".split()
ENTERED = "PGB_OUTER_NETWORK"  # the file descriptor of the network that we came from
# Nothing reads documentation in there, and it is a tenth of the time that unpacking takes.
LEAN = ["path-exclude=/usr/share/doc/*", "path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*",
        "path-exclude=/usr/share/info/*", "force-unsafe-io"]
PRIVATE = ["/run/netns", "/run/libpod", "/run/crun", "/run/containers", "/dev/shm"]

COMPILER = """
ARG BASE
FROM ${BASE}
RUN apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends ccache
ENV PATH=/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR=/ccache CCACHE_MAXSIZE=300M
"""

# cgroups are left alone: a machine that is a container itself has none to give away.
CONTAINERS_CONF = """
[containers]
cgroups = "disabled"
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
STORAGE_CONF = """
[storage]
driver = "{driver}"
graphroot = "{storage}"
runroot = "{folder}/run"
"""


class Failed(Exception):
    """A program ended with an error; the text is the end of what it said."""


def missing():
    """Why images cannot be built here, or None."""
    if os.geteuid() != 0:
        return "images are built by root only"
    tools = [tool for tool in TOOLS if not shutil.which(tool)]
    if tools:
        return f"no {', '.join(tools)} on this machine"
    if run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False).returncode != 0:
        return "no right to make namespaces"
    return None


def run(argv, check=True, **more):
    more.setdefault("input", "")
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    if check and done.returncode != 0:
        last = "\n".join(done.stdout.strip().splitlines()[-25:])
        raise Failed(f"{' '.join(argv[:4])} … ended with {done.returncode}: {last}")
    return done


def enter():
    """Runs this program again inside; returns only there.  A shell is process 1, which collects orphans."""
    if ENTERED in os.environ:
        for folder in PRIVATE:
            os.makedirs(folder, exist_ok=True)
            run(["mount", "-t", "tmpfs", "none", folder])
        # crun knows the unified hierarchy, and machines that mount both do exist.
        run(["umount", "-R", "/sys/fs/cgroup"], check=False)
        run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=False)
        run(["ip", "link", "set", "lo", "up"])
        return
    outer = os.open("/proc/self/ns/net", os.O_RDONLY)
    os.set_inheritable(outer, True)
    os.environ[ENTERED] = str(outer)
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
                          "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh", sys.executable, *sys.argv])


def overlay_works(folder):
    """Whether the kernel mounts an overlay whose layers are in that folder: not where it is on an overlay itself."""
    with tempfile.TemporaryDirectory(dir=folder) as where:
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(os.path.join(where, name))
        script = "mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work merged && umount merged"
        return run(["sh", "-c", script], check=False, cwd=where).returncode == 0


def debian_sources():
    """The lines of sources.list for the Debian mirrors, as apt is configured here, and the proxy in between."""
    def ask():
        listed = run(["apt-get", "indextargets", "--format", "$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
                      "Identifier: Packages"]).stdout
        return list(dict.fromkeys(line[len("Debian "):] for line in listed.splitlines() if line.startswith("Debian ")))

    lines = ask()
    if not lines:  # the lists were thrown away, as images do
        run(["apt-get", "-q", "update"])
        lines = ask()
    if not lines:
        raise Failed("apt has no Debian sources on this machine")
    proxy = re.search(r'^Acquire::http::proxy "(.+)";$', run(["apt-config", "dump", "Acquire::http::proxy"]).stdout, re.M | re.I)
    return "".join(line + "\n" for line in lines), proxy.group(1) if proxy else None


def codename():
    with open("/etc/os-release", encoding="utf-8") as file:
        return re.search(r"^VERSION_CODENAME=(\w+)", file.read(), re.M).group(1)


class Images(contextlib.AbstractContextManager):
    def __init__(self):
        self.cache = os.path.join(kafka.cache_dir(), "containers")
        self.held = contextlib.ExitStack()

    def __enter__(self):
        os.makedirs(self.cache, exist_ok=True)
        self.held.enter_context(kafka.locked(self.cache + ".lock"))
        self.folder = self.held.enter_context(tempfile.TemporaryDirectory(prefix="pgb-images-"))
        self.sources, proxy = debian_sources()
        driver = "overlay" if overlay_works(self.cache) else "vfs"
        storage = STORAGE_CONF.format(driver=driver, storage=os.path.join(self.cache, driver), folder=self.folder)
        self.environment = dict(os.environ, CONTAINERS_STORAGE_CONF=self.write("storage.conf", storage),
                                CONTAINERS_CONF=self.write("containers.conf", CONTAINERS_CONF.format(folder=self.folder)),
                                DISABLE_HC_SYSTEMD="true", TMPDIR=self.folder, **({"http_proxy": proxy} if proxy else {}))
        self.clear()
        return self

    def __exit__(self, *_):
        self.clear()
        run(["umount", "-R", self.folder + "/run"], check=False)
        self.held.close()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def podman(self, *arguments, check=True):
        return run(["podman", *arguments], check, env=self.environment).stdout

    def outside(self, argv, **more):
        """Runs a program in the network that we came from: the package mirrors are there."""
        outer = int(os.environ[ENTERED])
        return run(["nsenter", f"--net=/proc/self/fd/{outer}", *argv], pass_fds=(outer,), env=self.environment, **more)

    def clear(self):
        """Containers, those of unfinished builds too, and volumes go; so do images that have lost their name."""
        for command in (["rm", "--all", "--force"], ["volume", "prune", "--force"], ["image", "prune", "--force"]):
            self.podman(*command, check=False)
        for name in self.podman("ps", "--all", "--external", "--quiet", check=False).split():
            self.podman("rm", "--force", name, check=False)

    def base(self):
        """The name of an image with Debian's essential packages and apt, made when it is not there."""
        recipe = ["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", '--aptopt=Acquire::Languages "none"',
                  *(f"--dpkgopt={option}" for option in LEAN)]
        if "https:" in self.sources:
            recipe.append("--include=ca-certificates")
        recipe.append(codename())
        name = "localhost/pg_broker_base:" + hashlib.sha256("\n".join([*recipe, self.sources]).encode()).hexdigest()[:16]
        if run(["podman", "image", "exists", name], False, env=self.environment).returncode != 0:
            tar = os.path.join(self.folder, "base.tar")
            self.outside([*recipe, tar, "-"], input=self.sources)
            self.podman("import", "--quiet", tar, name)
            os.remove(tar)
        return name

    def build(self, stage):
        """Each stage has a name, so that its layers are there for the next run."""
        base = self.base()
        objects = os.path.join(self.cache, "ccache")
        os.makedirs(objects, exist_ok=True)
        compiler = os.path.join(self.folder, "compiler")
        if not os.path.exists(compiler):
            self.build_file(self.write(compiler, COMPILER), "compiler", f"--build-arg=BASE={base}")
        self.build_file("docker/Dockerfile", stage, f"--build-arg=BASE={base}",
                        "--build-arg=BUILD_BASE=localhost/pg_broker/compiler", f"--volume={objects}:/ccache", f"--target={stage}")

    def build_file(self, path, name, *options):
        self.outside(["podman", "build", "--layers", "--format=docker", "--isolation=chroot", "--network=host", *options,
                      f"--file={path}", f"--tag=localhost/pg_broker/{name}", "."], cwd=ROOT)
