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


def bar_plot(scenarios, key, title, log_y=False):
    """One group a scenario that has the metric."""
    chosen = [(scenario, medians(scenario, key)) for scenario in scenarios if key in scenario["metrics"]]
    chosen = [(scenario, values) for scenario, values in chosen if values][:MOST_GROUPS]
    if not chosen:
        return None
    columns = [column for column in COLUMNS if any(column in values for _, values in chosen)]
    series = {COLUMNS[column].title: [values.get(column) for _, values in chosen] for column in columns}
    return svg.bars(title, METRICS[key].unit, [scenario["short"] for scenario, _ in chosen], series, log_y)


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


def all_plots(results):
    pairs = [s for s in results["scenarios"] if s["kind"] == "pairs" and not s["skipped"]]
    found = {}
    for name, title, text in (
            ("throughput.svg", "Throughput", bar_plot(pairs, "mb_per_s", "Throughput, MB/s")),
            ("cpu-a-gb.svg", "Broker CPU a GB", bar_plot(pairs, "cpu_s_per_gb", "Broker CPU, seconds a GB")),
            ("latency.svg", "p99", bar_plot(pairs, "p99_ms", "p99, ms (log scale)", log_y=True)),
            ("throughput-latency.svg", "Throughput against latency", throughput_against_latency(pairs)),
            ("memory.svg", "Resident memory", bar_plot(pairs, "memory_mib", "Resident memory, MiB (log scale)", log_y=True))):
        if text:
            found[name] = (title, text)
    for scenario in results["scenarios"]:
        if scenario["kind"] == "growth" and not scenario["skipped"]:
            found.update({name: (title, text) for name, title, text in growth_plots(scenario)})
    return found
