"""Medians, ratios, spread, and whether a measurement was clean.  Pure functions of numbers.

A *sample* is what one run gave: {"round": 2, "values": {metric: number}, "trouble": [text, ...]}; one that failed
has no values and says why in trouble.  Samples of one round were taken one after the other, so a ratio is made
within each round and the median of those is the ratio: what drifts slowly, as a virtual machine does, falls out.
"""
import math


def median(numbers):
    ordered = sorted(numbers)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def quantile(numbers, share):
    """Between the two nearest of the ordered numbers, by distance."""
    ordered = sorted(numbers)
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(numbers):
    """The distance of the quartiles as a share of the median; None for fewer than two numbers."""
    middle = median(numbers)
    if len(numbers) < 2 or middle is None:
        return None
    if middle == 0:
        return 0.0 if min(numbers) == max(numbers) else math.inf
    return (quantile(numbers, 0.75) - quantile(numbers, 0.25)) / abs(middle)


def values_of(samples, metric):
    return [s["values"][metric] for s in samples if s["values"].get(metric) is not None]


def summary(samples, metric):
    """{"median", "low", "high", "spread", "n"} of a metric; None where no run gave it."""
    numbers = values_of(samples, metric)
    if not numbers:
        return None
    return {"median": median(numbers), "low": min(numbers), "high": max(numbers), "spread": spread(numbers), "n": len(numbers)}


def ratio(samples, others, metric):
    """{"median", "low", "high", "n"} of samples / others, round by round; None where no round has both."""
    theirs = {s["round"]: s["values"].get(metric) for s in others}
    found = [s["values"][metric] / theirs[s["round"]] for s in samples
             if s["values"].get(metric) is not None and theirs.get(s["round"])]
    if not found:
        return None
    return {"median": median(found), "low": min(found), "high": max(found), "n": len(found)}


def trouble_of(samples, wanted, bounds):
    """Why a cell of the table is not to be relied on; [] when it is.

    `wanted`: how many runs there should be.  `bounds`: {metric: the largest spread that is still clean}.
    """
    found = []
    good = [s for s in samples if s["values"]]
    if len(good) < wanted:
        found.append(f"{len(good)} of {wanted} runs")
    for metric, bound in bounds.items():
        numbers = values_of(samples, metric)
        wide = spread(numbers)
        if wide is not None and wide > bound:
            found.append(f"{metric}: spread {wide * 100:.0f} % (more than {bound * 100:.0f} %)")
    said = {}
    for sample in samples:
        for text in sample["trouble"]:
            said[text] = said.get(text, 0) + 1
    found += [text if count == 1 else f"{text} (in {count} runs)" for text, count in said.items()]
    return found


def judge(goal, cells):
    """(measured number, True/False) of a goal; (None, None) where it was not measured.

    goal: {"metric", "column", "is": ">=" or "<=", "factor", "of": column or None for the number itself}
    cells: {column: samples}
    """
    samples = cells.get(goal["column"], [])
    if goal["of"] is None:
        measured = summary(samples, goal["metric"])
    else:
        measured = ratio(samples, cells.get(goal["of"], []), goal["metric"])
    if measured is None:
        return None, None
    number = measured["median"]
    return number, number >= goal["factor"] if goal["is"] == ">=" else number <= goal["factor"]


def line_fit(points):
    """(slope, offset) of the straight line nearest to [(x, y)]: the cost of one more of something."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    square = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / square if square else 0.0
    return slope, mean_y - slope * mean_x
