"""Which plots a report has, from its results: {file name: (title, text of the SVG)}.  Pure."""
from bench.report import stats, svg
from bench.report.markdown import growth_points
from bench.scenarios.columns import COLUMNS
from bench.scenarios.metrics import METRICS

MOST_GROUPS = 14


def medians(scenario, key):
    """{column: median} of a metric."""
    found = {column: stats.summary(samples, key) for column, samples in scenario["cells"].items()}
    return {column: value["median"] for column, value in found.items() if value}


def groups_of(scenarios, keys):
    """[(what is below the bars, {column: median})]: a group for each scenario and metric that were measured."""
    found = []
    for scenario in scenarios:
        own = [key for key in keys if key in scenario["metrics"]]
        found += [(scenario["short"] + (f": {key.partition('_')[0]}" if len(own) > 1 else ""), medians(scenario, key)) for key in own]
    return [(name, values) for name, values in found if values]


def bar_plots(file, scenarios, keys, title, log_y=False):
    """FILE.svg, FILE-2.svg …: so many groups as can be read in each."""
    groups = groups_of(scenarios, keys)
    parts = [groups[at:at + MOST_GROUPS] for at in range(0, len(groups), MOST_GROUPS)]
    for number, part in enumerate(parts, 1):
        columns = [column for column in COLUMNS if any(column in values for _, values in part)]
        series = {COLUMNS[column].title: [values.get(column) for _, values in part] for column in columns}
        counted = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
        yield (f"{file}{f'-{number}' if number > 1 else ''}.svg", title + counted,
               svg.bars(title + counted, METRICS[keys[0]].unit, [name for name, _ in part], series, log_y))


def throughput_against_latency(scenarios):
    """Runs at a fixed rate: what was reached, and how long a request took; a line a column."""
    series = {}
    for scenario in scenarios:
        if "kept_up" not in scenario["metrics"] or scenario["nodes"] != 1:
            continue
        rates, waits = medians(scenario, "msgs_per_s"), medians(scenario, "p99_ms")
        for column in COLUMNS:
            if column in rates and column in waits:
                series.setdefault(COLUMNS[column].title, []).append((rates[column], waits[column]))
    if not series:
        return None
    return svg.lines("Throughput against latency, linger 0 (log scales)", "requests a second that were answered", "p99, ms", series,
                     log_x=True, log_y=True)


def growth_plots(scenario):
    for key in scenario["metrics"]:
        series = {}
        for column in scenario["columns"]:
            points = growth_points(scenario, column)[key]
            if points:
                series[COLUMNS[column].title] = points
        if series:
            title = f"{METRICS[key].title} against {scenario['unit']}"
            yield f"{scenario['name']}-{key}.svg", title, svg.lines(title, scenario["unit"], METRICS[key].unit, series, log_x=True)


BARS = (
    # file, metrics, title, log scale
    ("throughput", ("mb_per_s",), "Throughput, MB/s", False),
    ("cpu-a-gb", ("cpu_s_per_gb",), "Broker CPU, seconds a GB", False),
    ("latency", ("p99_ms",), "p99, ms (log scale)", True),
    ("memory", ("memory_mib",), "Resident memory, MiB (log scale)", True),
    ("times", ("start_s", "recover_s", "stop_s", "stall_s"), "Starts, stops and failovers, seconds (log scale)", True),
)


def all_plots(results):
    pairs = [s for s in results["scenarios"] if s["kind"] == "pairs" and not s["skipped"]]
    found = {name: (title, text) for bar in BARS for name, title, text in bar_plots(bar[0], pairs, *bar[1:])}
    against = throughput_against_latency(pairs)
    if against:
        found["throughput-latency.svg"] = ("Throughput against latency", against)
    for scenario in results["scenarios"]:
        if scenario["kind"] == "growth" and not scenario["skipped"]:
            found.update({name: (title, text) for name, title, text in growth_plots(scenario)})
    return found
