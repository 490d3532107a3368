"""The report of a run as Markdown: a pure function of what results.json has (bench/run.py says what that is).

The first table has one row a scenario, to be pasted into docs/performance.md; below it each scenario has its own,
with the lowest and highest run and the ratios.  What was not clean has a dagger and is listed with its reasons.
"""
from bench.report import stats
from bench.scenarios.columns import COLUMNS
from bench.scenarios.metrics import METRICS

DAGGER = "†"


def number(value, digits):
    return f"{value:,.{digits}f}"


def unit_of(metric):
    return f" {metric.unit}" if metric.unit else ""


def median_text(samples, key):
    found = stats.summary(samples, key)
    return number(found["median"], METRICS[key].digits) if found else "–"


def range_text(samples, key):
    found, digits = stats.summary(samples, key), METRICS[key].digits
    if not found:
        return "–"
    text = number(found["median"], digits)
    low, high = number(found["low"], digits), number(found["high"], digits)
    return f"{text} ({low}–{high})" if found["n"] > 1 and low != high else text


def ratio_digits(value):
    """Two figures at least, of small ratios too; one behind the point is enough of large ones."""
    return 1 if value >= 10 else 2 if value >= 0.1 else 3 if value >= 0.01 else 4


def ratio_text(found):
    if not found:
        return "–"
    digits = ratio_digits(found["median"])
    text = number(found["median"], digits)
    return f"{text} ({number(found['low'], digits)}–{number(found['high'], digits)})" if found["n"] > 1 else text


def bounds_of(scenario):
    return {key: METRICS[key].bound for key in scenario["metrics"]}


def trouble_of(scenario):
    """{column: reasons} of the columns that were not clean."""
    found = {}
    for column in scenario["columns"]:
        reasons = stats.trouble_of(scenario["cells"].get(column, []), scenario["pairs"], bounds_of(scenario))
        if reasons:
            found[column] = reasons
    return found


def goal_text(goal):
    metric = METRICS[goal["metric"]]
    sign = "≥" if goal["is"] == ">=" else "≤"
    what = f"{COLUMNS[goal['column']].title}: {metric.title} {sign} "
    return what + (f"{goal['factor']:g} × {COLUMNS[goal['of']].title}" if goal["of"] else f"{goal['factor']:g}{unit_of(metric)}")


def verdict_text(goal, cells):
    measured, met = stats.judge(goal, cells)
    if measured is None:
        return "not measured"
    digits = METRICS[goal["metric"]].digits if goal["of"] is None else ratio_digits(measured)
    return f"{number(measured, digits)} {'met' if met else '**not met**'}"


def goals_met(scenario):
    said = [stats.judge(goal, scenario["cells"])[1] for goal in scenario["goals"]]
    if not said:
        return ""
    return f"{sum(1 for met in said if met)} of {len(said)}" + (f", {said.count(None)} not measured" if None in said else "")


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "-|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]


def used_columns(scenarios):
    used = {column for scenario in scenarios for column in scenario["columns"]}
    return [key for key in COLUMNS if key in used]


def short_cell(scenario, column, trouble):
    if column not in scenario["columns"]:
        return ""
    samples = scenario["cells"].get(column, [])
    if not any(sample["values"] for sample in samples):
        return f"not measured {DAGGER}"
    text = "; ".join(median_text(samples, key) for key in scenario["metrics"][:2])
    return text + (f" {DAGGER}" if column in trouble else "")


def overview(scenarios):
    """One row a scenario: its first two metrics in each column."""
    columns = used_columns(scenarios)
    rows = []
    for scenario in scenarios:
        what = "; ".join(f"{METRICS[key].title}{unit_of(METRICS[key])}" for key in scenario["metrics"][:2])
        if scenario["skipped"]:
            rows.append([f"{scenario['title']} ({what})", *["not measured"] * len(columns), ""])
            continue
        trouble = trouble_of(scenario)
        rows.append([f"{scenario['title']} ({what})", *(short_cell(scenario, column, trouble) for column in columns), goals_met(scenario)])
    return table(["scenario", *(COLUMNS[key].title for key in columns), "goals met"], rows)


def ratio_rows(scenario):
    """brokerd's columns over the ones of Kafka: with fsync against both, without it against the one without."""
    pairs = [("brokerd", "kafka"), ("brokerd", "kafka-flush"), ("brokerd-relaxed", "kafka"), ("brokerd", "null-fsync"), ("brokerd-relaxed", "null")]
    head, rows = [], []
    for ours, theirs in pairs:
        if ours in scenario["cells"] and theirs in scenario["cells"]:
            head.append((ours, theirs))
    if not head:
        return []
    for key in scenario["metrics"]:
        if METRICS[key].bound < 5:
            rows.append([METRICS[key].title, *(ratio_text(stats.ratio(scenario["cells"][a], scenario["cells"][b], key)) for a, b in head)])
    return table(["ratio", *(f"{COLUMNS[a].title} / {COLUMNS[b].title}" for a, b in head)], rows)


def settings_text(settings):
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def detail(scenario):
    out = [f"### {scenario['title']}", "", f"`{scenario['name']}`: {scenario['how']}" +
           (f" Settings: {settings_text(scenario['settings'])}." if scenario["settings"] else ""), ""]
    if scenario["skipped"]:
        return out + [f"Not measured: {scenario['skipped']}", ""]
    rows = [[f"{METRICS[key].title}{',' if METRICS[key].unit else ''}{unit_of(METRICS[key])}",
             *(range_text(scenario["cells"].get(column, []), key) for column in scenario["columns"])] for key in scenario["metrics"]]
    out += table([f"{scenario['pairs']} runs: median (lowest–highest)", *(COLUMNS[c].title for c in scenario["columns"])], rows) + [""]
    ratios = ratio_rows(scenario)
    out += ratios + [""] if ratios else []
    if scenario["goals"]:
        out += table(["goal", "measured"], [[goal_text(goal), verdict_text(goal, scenario["cells"])] for goal in scenario["goals"]]) + [""]
    out += [f"Not clean {DAGGER}, {COLUMNS[column].title}: {'; '.join(reasons)}." for column, reasons in trouble_of(scenario).items()]
    return out + ([""] if trouble_of(scenario) else [])


def growth_section(scenario):
    """A scenario of sizes: one row a size, and what one more costs."""
    out = [f"### {scenario['title']}", "", f"`{scenario['name']}`: {scenario['how']}", ""]
    if scenario["skipped"]:
        return out + [f"Not measured: {scenario['skipped']}", ""]
    for column in scenario["columns"]:
        points = growth_points(scenario, column)
        rows = [[number(size, 0), *(next((number(y, METRICS[key].digits) for x, y in points[key] if x == size), "–") for key in scenario["metrics"])]
                for size in scenario["sizes"]]
        head = [scenario["unit"], *(f"{METRICS[key].title}{unit_of(METRICS[key])}" for key in scenario["metrics"])]
        out += [f"{COLUMNS[column].title}:", "", *table(head, rows)]
        out += [f"- one more of {scenario['unit']}: {cost_text(points[key], key)}" for key in scenario["metrics"] if len(points[key]) > 1] + [""]
        out += growth_trouble(scenario, column)
    return out


def growth_trouble(scenario, column):
    """Why sizes are missing, and what was not clean of the others."""
    samples = scenario["cells"].get(column, [])
    missing = [number(size, 0) for size in scenario["sizes"] if size not in {sample["values"].get("size") for sample in samples}]
    why = [text for sample in samples if not sample["values"] for text in sample["trouble"]]
    reasons = sorted({text for sample in samples if sample["values"] for text in sample["trouble"]})
    out = [f"Not measured {DAGGER} at {', '.join(missing)}: {'; '.join(why) or 'the run ended before'}.", ""] if missing else []
    return out + ([f"Not clean {DAGGER}: {'; '.join(reasons)}.", ""] if reasons else [])


def growth_points(scenario, column):
    """{metric: [(size, median)]}"""
    by_size = {}
    for sample in scenario["cells"].get(column, []):
        by_size.setdefault(sample["values"].get("size"), []).append(sample)
    by_size.pop(None, None)
    return {key: [(size, stats.summary(samples, key)["median"]) for size, samples in sorted(by_size.items()) if stats.summary(samples, key)]
            for key in scenario["metrics"]}


def cost_text(points, key):
    slope, _ = stats.line_fit(points)
    metric = METRICS[key]
    if metric.unit == "MiB":
        return f"{metric.title} {slope * 1024:,.2f} KiB"
    return f"{metric.title} {slope * 1000:,.3f} {metric.unit} for a thousand"


def loads(results):
    """What else ran, from all samples: the highest load average and the busiest others."""
    samples = [sample for scenario in results["scenarios"] for cell in scenario["cells"].values() for sample in cell]
    before = [sample["load"] for sample in samples if sample.get("load") is not None]
    others = {}
    for sample in samples:
        for share, name in sample.get("others", []):
            others[name] = max(share, others.get(name, 0))
    text = f"Load average before a run: {stats.median(before):.1f} (median), {max(before):.1f} (highest); " if before else ""
    listed = ", ".join(f"{name} {share:.2f}" for name, share in sorted(others.items(), key=lambda item: -item[1])[:12])
    return text + (f"other processes over 5 % of a core, highest share: {listed}." if listed else "no other process took more than 5 % of a core.")


def render(results, plots=()):
    scenarios = results["scenarios"]
    measured = [s for s in scenarios if s["kind"] == "pairs"]
    growth = [s for s in scenarios if s["kind"] == "growth"]
    out = [f"# brokerd and Apache Kafka, {results['began']}", ""]
    if results["status"] != "complete":
        out += [f"**{results['status']}**", ""]
    out += [f"`{results['command']}`: {results['pairs']} rounds of each scenario, in each the columns one after the other, "
            f"{results['seconds']:g} s a run after its warm-up. A ratio is the median of the rounds' ratios.", ""]
    if measured:
        out += [*overview(measured), "", f"{DAGGER} not clean, the reasons are below.", ""]
    out += ["## Where", "", *(f"- {name}: {text}" for name, text in results["machine"].items()),
            *(f"- {system['title']}: {system['version']}; settings: {settings_text(system['settings'])}" for system in results["systems"].values()),
            f"- {loads(results)}", *(f"- {note}" for note in results["notes"]), ""]
    if plots:
        out += ["## Plots", "", *(f"![{title}]({name})" for title, name in plots), ""]
    if measured:
        out += ["## Scenarios", ""]
        for scenario in measured:
            out += detail(scenario)
    if growth:
        out += ["## Growth", ""]
        for scenario in growth:
            out += growth_section(scenario)
    return "\n".join(out).rstrip() + "\n"
