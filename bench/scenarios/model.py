"""A scenario: what is measured, how, on which columns, and what is aimed at.  Data only; table.py has them all."""
from dataclasses import asdict, dataclass, field

PROFILES = ("quick", "bench", "all")


@dataclass(frozen=True)
class Goal:
    """metric of column >= (or <=) factor x the same of another column; of the number itself without `of`."""
    metric: str
    column: str
    sign: str
    factor: float
    of: str | None = None

    def as_dict(self):
        return {"metric": self.metric, "column": self.column, "is": self.sign, "factor": self.factor, "of": self.of}


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    short: str  # below a bar of a plot
    measure: str  # a name of measures.MEASURES
    columns: tuple
    metrics: tuple  # the first one is the throughput or the time, the second the CPU
    how: str  # one sentence of the report
    settings: dict = field(default_factory=dict)
    goals: tuple = ()
    profiles: tuple = ("bench", "all")
    nodes: int = 1
    partitions: int = 1
    most_pairs: int | None = None  # where a round takes so long that five would be too much
    seconds: float | None = None  # a run's, instead of the profile's
    disk_gb: float = 3  # what may be on the disk at once
    memory_gb: float = 3
    files: int = 1000  # open files that a broker or the client needs
    sizes: tuple = ()  # of a growth scenario
    unit: str = ""

    @property
    def kind(self):
        return "growth" if self.sizes else "pairs"

    def as_dict(self):
        """What results.json has of it."""
        row = asdict(self)
        row.update(kind=self.kind, goals=[goal.as_dict() for goal in self.goals], columns=list(self.columns),
                   metrics=list(self.metrics), settings=dict(self.settings), skipped="", cells={}, pairs=0)
        return row


def faults(scenarios, columns, metrics, measures):
    """What is wrong with a table of scenarios, one sentence each; [] for a sound one."""
    wrong, seen = [], set()
    for s in scenarios:
        if s.name in seen:
            wrong.append(f"{s.name}: there are two of that name")
        seen.add(s.name)
        wrong += [f"{s.name}: no column {key}" for key in s.columns if key not in columns]
        wrong += [f"{s.name}: no metric {key}" for key in s.metrics if key not in metrics]
        wrong += [f"{s.name}: no profile {key}" for key in s.profiles if key not in PROFILES]
        if s.measure not in measures:
            wrong.append(f"{s.name}: no measure {s.measure}")
        if len(s.metrics) < 1 or not s.columns or not s.profiles or not s.how.endswith("."):
            wrong.append(f"{s.name}: needs a metric, a column, a profile and a sentence")
        if s.sizes and (not s.unit or len(s.sizes) < 3 or list(s.sizes) != sorted(s.sizes)):
            wrong.append(f"{s.name}: growth needs a unit and three sizes that grow")
        for goal in s.goals:
            wrong += goal_faults(s, goal)
    return wrong


def goal_faults(s, goal):
    wrong = []
    if goal.metric not in s.metrics:
        wrong.append(f"{s.name}: a goal's metric {goal.metric} is not measured")
    if goal.sign not in (">=", "<="):
        wrong.append(f"{s.name}: a goal is >= or <=, not {goal.sign}")
    wrong += [f"{s.name}: a goal's column {key} is not measured" for key in (goal.column, goal.of) if key and key not in s.columns]
    return wrong
