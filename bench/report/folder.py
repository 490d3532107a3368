"""The folder of a run's results: a new one each time, named by its date, never one that is there already.

    results.json   everything that was measured; written again after each scenario
    report.md      report of it
    *.svg          its plots
"""
import json
import os
import time

from bench.report import markdown, plots


def make(parent, profile, now=None):
    """PARENT/2026-11-30T08-15-02-bench, or that with -2, -3, ... where it exists."""
    os.makedirs(parent, exist_ok=True)
    name = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(now)) + f"-{profile}"
    number = 1
    while True:
        path = os.path.join(parent, name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(path)
            return path
        except FileExistsError:
            number += 1


def write_file(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def save(path, results):
    write_file(os.path.join(path, "results.json"), json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def finish(path, results):
    """All of it; returns the report's text."""
    save(path, results)
    drawn = plots.all_plots(results)
    for name, (_, text) in drawn.items():
        write_file(os.path.join(path, name), text)
    text = markdown.render(results, [(title, name) for name, (title, _) in drawn.items()])
    write_file(os.path.join(path, "report.md"), text)
    return text
