"""What is wrong with the history of a consumer group: pure functions, no cluster.  Everything counted here must be 0.

Times are of one clock (time.monotonic()), in seconds.

    History.commits   [Commit]    each partition of each commit that a member asked for
    History.holds     [Hold]      each time that a partition was given to a member
    History.looks     [Look]      what OffsetFetch and PostgreSQL said
    History.lapses    [Lapse]     PostgreSQL failed over to a standby that had stopped following

| kind | |
|-|-|
| skipped | a member began, or OffsetFetch answered, beyond what was asked to be committed; records that no member was given |
| went-back | below the last commit that was acknowledged before that was asked, or at another one that this had come after |
| held-twice | two members had a partition in one generation |
| not-fenced | a commit of a generation was acknowledged, though a newer one was known to be there before it was asked for |

A commit may take effect at any time after it was asked for until it is answered.  One without a good answer, or with one that
took so long that its client may have sent it twice, may do so later too (its bytes may still lie in a socket), but not once
a newer generation is there.  So what is found must be one of the commits that nothing acknowledged is certain to have come after.

What a failover to an asynchronous standby may lose is what was acknowledged since it stopped following and asked for before the
primary was dead, of commits and of generations; nothing before, and nothing by any other fault.
"""
import bisect
import collections
import itertools

from checker import Findings

KINDS = ("skipped", "went-back", "held-twice", "not-fenced")
# answered: None without a good answer.  generation: -1 when it is not certain which one it was sent with.
Commit = collections.namedtuple("Commit", "member partition offset generation asked answered")
# spans: [[first, end]], of what it was given; a new one begins where it does not go on.  begun: when the first record came.
Hold = collections.namedtuple("Hold", "member partition generation given begun spans")
Look = collections.namedtuple("Look", "who partition offset asked answered")  # offset -1: none is committed
Lapse = collections.namedtuple("Lapse", "stopped killing dead")
# Something that proves that a generation was stored; `asked`: not before that.
Proof = collections.namedtuple("Proof", "generation member partition asked answered")

SLOW = 1.0      # seconds; a client does not send a commit again that was answered before
STORING = 30.0  # a generation was stored at most so long before a member was given partitions of it


class History:
    def __init__(self, commits, holds, looks, lapses=()):
        self.commits = [Commit(*row) for row in commits]
        self.holds = [Hold(*row) for row in holds]
        self.looks = [Look(*row) for row in looks]
        self.lapses = sorted(Lapse(*row) for row in lapses)
        self.acknowledged = [c for c in self.commits if c.answered is not None]

    def passed(self, until):
        """How many lapses may have done harm by then."""
        return sum(lapse.killing <= until for lapse in self.lapses)

    def survives(self, event, passed):
        return not any(event.answered >= lapse.stopped and event.asked <= lapse.dead for lapse in self.lapses[:passed])


class Latest:
    """The greatest of some keys of all events that were answered before a time and that no failover may have taken."""

    def __init__(self, history, events, keys):
        self.history, self.keys = history, keys
        self.events = sorted(events, key=lambda event: event.answered)
        self.tables = {}

    def table(self, passed):
        if passed not in self.tables:
            kept = [event for event in self.events if self.history.survives(event, passed)]
            columns = [list(itertools.accumulate((getattr(event, key) for event in kept), max)) for key in self.keys]
            self.tables[passed] = [event.answered for event in kept], columns
        return self.tables[passed]

    def before(self, time, passed):
        """(the greatest of each key), None when there is no event."""
        answered, columns = self.table(passed)
        n = bisect.bisect_left(answered, time)
        return None if n == 0 else tuple(column[n - 1] for column in columns)


class Figures:
    """What there was to judge, for the report."""

    def __init__(self):
        self.handovers = self.looks = self.lost = self.late = 0


def may_be_later(commit):
    return commit.answered is None or commit.answered - commit.asked > SLOW


def is_over(commit, last):
    """Whether another one is certain to have come after it."""
    if last is None:
        return False
    asked, generation, _ = last
    return generation > commit.generation >= 0 or not may_be_later(commit) and asked > commit.answered


def judge_read(read, commits, last):
    """The kind of what is wrong, or None; and whether only a commit that came late explains it.
    `commits`: of this offset."""
    if read.offset <= 0 and last is None:
        return None, False
    asked = [c for c in commits if c.asked <= read.answered]
    possible = [c for c in asked if not is_over(c, last)]
    if possible:
        return None, last is not None and read.offset < last[2] and all(map(may_be_later, possible))
    return "went-back" if asked or last is not None and read.offset < last[2] else "skipped", False


def check_reads(history, found, figures):
    """Where members began, and what is said to be committed."""
    acknowledged, by_offset = collections.defaultdict(list), collections.defaultdict(list)
    for commit in history.commits:
        by_offset[commit.partition, commit.offset].append(commit)
    for commit in history.acknowledged:
        acknowledged[commit.partition].append(commit)
    starts = [Look(f"member {h.member}, generation {h.generation},", h.partition, h.spans[0][0], h.given, h.begun)
              for h in history.holds if h.spans]
    latest = {}
    figures.handovers, figures.looks = len(starts), len(history.looks)
    for read in itertools.chain(starts, history.looks):
        p = read.partition
        if p not in latest:
            latest[p] = Latest(history, acknowledged[p], ("asked", "generation", "offset"))
        commits, passed = by_offset[p, read.offset], history.passed(read.answered)
        last = latest[p].before(read.asked, passed)
        kind, late = judge_read(read, commits, last)
        figures.late += late
        if kind:
            found.add(kind, f"partition {p}: {read.who} found {read.offset} at {read.asked:.2f}; acknowledged before: "
                            f"{last[2] if last else 'nothing'}")
        elif passed and not late:
            figures.lost += judge_read(read, commits, latest[p].before(read.asked, 0))[0] == "went-back"


def check_spans(history, found):
    """Each member reads on where it was, and all of them together read all."""
    spans = collections.defaultdict(list)
    for hold in history.holds:
        spans[hold.partition] += hold.spans
        for before, after in itertools.pairwise(hold.spans):
            found.add("skipped" if after[0] > before[1] else "went-back",
                      f"partition {hold.partition}: member {hold.member} was given {after[0]} after {before[1] - 1}")
    for partition, rows in sorted(spans.items()):
        end = 0
        for first, next_ in sorted(rows):
            if first > end:
                found.add("skipped", f"partition {partition}: {end} to {first - 1} were given to no member")
            end = max(end, next_)


def proofs(history):
    given = [Proof(h.generation, h.member, h.partition, h.given - STORING, h.given) for h in history.holds if h.generation >= 0]
    return given + [Proof(c.generation, c.member, c.partition, c.asked, c.answered) for c in history.acknowledged if c.generation >= 0]


def check_owners(history, found):
    owners = collections.defaultdict(lambda: collections.defaultdict(list))
    for proof in sorted(proofs(history), key=lambda proof: proof.answered):
        owners[proof.partition, proof.generation][proof.member].append(proof)
    for (partition, generation), members in owners.items():
        for (one, first), (other, second) in itertools.permutations(members.items(), 2):
            # The first of one counts unless a failover has taken it before the last of the other.
            last = second[-1].answered
            if first[0].answered <= last and history.survives(first[0], history.passed(last)):
                found.add("held-twice", f"partition {partition}, generation {generation}: of members {one} and {other}")
                break


def check_fences(history, found):
    latest = Latest(history, proofs(history), ("generation",))
    for commit in history.acknowledged:
        known = latest.before(commit.asked, history.passed(commit.answered))
        if known and known[0] > commit.generation >= 0:
            found.add("not-fenced", f"partition {commit.partition}: member {commit.member} committed {commit.offset} in generation "
                                    f"{commit.generation} at {commit.asked:.2f}, after generation {known[0]} was known")


def check(history):
    """Findings and Figures."""
    found, figures = Findings(), Figures()
    check_reads(history, found, figures)
    check_spans(history, found)
    check_owners(history, found)
    check_fences(history, found)
    return found, figures
