"""The order of the components: who may include from whom, read from SRCDIR_ and DEPS_ of the Makefile."""
import os
import re

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# Folders that are no component of the Makefile, and what they may include from.
OTHERS = {
    "extension": ["wire"],
    "client": ["wire"],
}
# What two processes must hold alike: the extension has it, everybody may include it.
SHARED = ["extension/config_keys.def", "extension/config_keys.h", "extension/min_isr.h"]


def read_makefile(text):
    """{component: folder}, {component: [components it may include from]}"""
    folders = dict(re.findall(r"^SRCDIR_(\w+)\s*=\s*(\S+)", text, re.M))
    allowed = {name: deps.split() for name, deps in re.findall(r"^DEPS_(\w+)[ \t]*=[ \t]*(.*)$", text, re.M)}
    return folders, allowed


def component_of(path, folders):
    for name, folder in folders.items():
        if path.startswith(folder + "/"):
            return name
    return None


def check(root, tracked):
    with open(os.path.join(root, "Makefile"), encoding="utf-8") as file:
        folders, allowed = read_makefile(file.read())
    for name, deps in OTHERS.items():
        folders.setdefault(name, name)
        allowed.setdefault(name, deps)
    wrong = cycles(allowed)
    for name in tracked("*.c", "*.h"):
        component = component_of(name, folders)
        if component is None:
            continue
        with open(os.path.join(root, name), encoding="utf-8") as file:
            included = INCLUDE.findall(file.read())
        for path in included:
            other = component_of(path, folders)
            if other not in (None, component, *allowed[component]) and path not in SHARED:
                wrong += f"{name}: {component} may not include from {other} ({path})\n"
    return wrong


def cycles(allowed):
    """Names the components that reach themselves."""
    wrong = ""
    for start in allowed:
        reached, waiting = set(), list(allowed[start])
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += allowed.get(name, [])
        if start in reached:
            wrong += f"Makefile: {start} depends on itself\n"
    return wrong
