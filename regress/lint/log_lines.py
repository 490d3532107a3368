"""The warnings and errors that brokerd logs, read from its source, and whether docs/operations.md explains them.

A line is known by its level, its subsystem and its text with … for what varies:
    storage: … is offline: …
What is only … is somebody else's sentence, passed on.
"""
import re

CALL = re.compile(r"\blog_msg\(\s*(LOG_\w+|[^,]+?),\s*\"(\w+)\",\s*")
STRING = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|(PRI\w+))')
CONVERSION = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]?")
EXPLAINED = ("LOG_WARNING", "LOG_ERROR", "LOG_FATAL")


def text_of(source, at):
    """The format string that begins at `at`, its adjacent literals joined; None if it is no literal."""
    text, found = "", False
    while True:
        part = STRING.match(source, at)
        if not part:
            break
        found = True
        text += part.group(1) if part.group(1) is not None else "d"
        at = part.end()
    return text if found else None


def normal(text):
    """`text` with … for each conversion."""
    text = CONVERSION.sub("…", text.replace('\\"', '"').replace("%%", "%"))
    return re.sub(r"…+", "…", text).strip()


def lines_of(source):
    """(level, "subsystem: text") of each line a file logs that needs an explanation."""
    for call in CALL.finditer(source):
        text = text_of(source, call.end())
        if call.group(1) in EXPLAINED or not call.group(1).startswith("LOG_"):
            if text is not None and normal(text) != "…":
                yield call.group(1), f"{call.group(2)}: {normal(text)}"


def check(read, names):
    """A complaint for each line that the page does not have in `backquotes`, and each of its lines that is gone."""
    page = set(re.findall(r"^\| `(\w+: .+?)` \|", read("docs/operations.md"), re.M))
    wrong, logged = "", set()
    for name in names:
        for level, line in lines_of(read(name)):
            logged.add(line)
            if line not in page:
                wrong += f"{name}: docs/operations.md does not explain `{line}` ({level})\n"
    for line in sorted(page - logged):
        wrong += f"docs/operations.md explains `{line}`, which nothing logs\n"
    return wrong
