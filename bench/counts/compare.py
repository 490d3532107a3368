"""What got dearer: figures of a run beside those that are kept.  Pure functions.

A figure may grow by a share and, since small ones jump by one, by a little more; beyond that it is dearer.  The
shares are what ten runs of the same program on an idle and on a busy machine differ by, and half as much again.
"""

# What is counted, by how much it may grow (a share, and that much at least), and in what it is given.
FIGURES = {
    "instructions": (0.05, 300, "instructions a request"),
    "syscalls": (0.10, 0.3, "system calls a request"),
    "allocations": (0.10, 0.1, "allocations a request"),
}
# A second of nothing is the sum of timers, some of which are slow.
IDLE = "idle"
IDLE_SHARE = 0.5


def allowance(load, figure, before):
    share, least, _ = FIGURES[figure]
    return max(before * (IDLE_SHARE if load.startswith(IDLE) else share), least)


def compare(kept, now):
    """[(load, figure, before, after, verdict)] with verdict same, cheaper, dearer, new or gone."""
    rows = []
    for load in list(kept) + [name for name in now if name not in kept]:
        for figure in FIGURES:
            before = kept.get(load, {}).get(figure)
            after = now.get(load, {}).get(figure)
            if before is None and after is None:
                continue
            rows.append((load, figure, before, after, verdict(load, figure, before, after)))
    return rows


def verdict(load, figure, before, after):
    if before is None:
        return "new"
    if after is None:
        return "gone"
    allowed = allowance(load, figure, before)
    return "dearer" if after > before + allowed else "cheaper" if after < before - allowed else "same"


def growth(before, after, most=5):
    """The keys whose value grew most, [(key, before, after)]."""
    grown = [(key, before.get(key, 0), value) for key, value in after.items() if value > before.get(key, 0)]
    return sorted(grown, key=lambda row: row[1] - row[2])[:most]


def minus(counts, background, seconds):
    """Counts of a load without what would have been there anyway: `background` is that of a second."""
    rest = {key: value - background.get(key, 0) * seconds for key, value in counts.items()}
    return {key: value for key, value in rest.items() if value > 0}


def without(counts, background, seconds):
    """The same for what is there by the clock or not at all: a key of the background is dropped, unless there is much more."""
    much = {key: 3 * rate * seconds + 10 for key, rate in background.items()}
    return {key: value for key, value in counts.items() if value > much.get(key, 0)}
