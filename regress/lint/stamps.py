"""Remembers which translation units were found clean, by the content of everything that they are made of."""
import hashlib
import os
import subprocess


class Stamps:
    def __init__(self, folder, clang, root):
        self.folder = folder
        self.clang = clang
        self.root = root
        self.digests = {}
        os.makedirs(folder, exist_ok=True)

    def digest(self, path):
        if path not in self.digests:
            with open(os.path.join(self.root, path), "rb") as file:
                self.digests[path] = hashlib.sha256(file.read()).digest()
        return self.digests[path]

    def key(self, name, flags, more):
        """A name for the content of `name`, of all that it includes, of the flags and of `more`; None = unknown."""
        done = subprocess.run([self.clang, "-MM", *flags, name], cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        digest = hashlib.sha256("\0".join(flags).encode())
        for path in done.stdout.replace("\\\n", " ").split()[1:] + more:
            digest.update(path.encode() + self.digest(path))
        return digest.hexdigest()

    def has(self, key):
        return key is not None and os.path.exists(os.path.join(self.folder, key))

    def put(self, key):
        if key is not None:
            with open(os.path.join(self.folder, key), "w", encoding="ascii"):
                pass
