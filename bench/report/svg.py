"""Plots as SVG, written by hand: bars of several series in groups, and lines or points over two axes.

    bars(title, unit, groups=["100 B", "1,000 B"], series={"brokerd": [1.5, 0.8], "Kafka": [3.9, None]})
    lines(title, "requests/s", "ms", series={"brokerd": [(1000, 0.4), (10000, 0.9)]}, log_x=True, log_y=True)

Both return the text of a file.  None is a gap.  Colours go by the name of a series where COLOURS has it, so that
a system has one colour in all plots of a report.
"""
import math
from html import escape

WIDTH, HEIGHT = 1000, 452
LEFT, RIGHT, TOP, BOTTOM = 78, 24, 56, 86
COLOURS = {"brokerd (fsync)": "#1f6f8b", "brokerd, no fsync": "#66b3c9", "Kafka, no fsync": "#c8553d",
           "Kafka, flush.messages=1": "#e9a178", "ceiling, fsync": "#555555", "ceiling, no fsync": "#aaaaaa",
           "brokerd": "#1f6f8b", "Apache Kafka": "#c8553d", "PostgreSQL": "#6b5b95"}
SPARE = ["#4c956c", "#8d6a9f", "#b5838d", "#6c757d", "#d4a017"]


def colour_of(name, number):
    return COLOURS.get(name, SPARE[number % len(SPARE)])


def number_text(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 4)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def linear_ticks(top, wanted=5):
    """Round numbers from 0 to at least `top`."""
    if top <= 0:
        return [0, 1]
    raw = top / wanted
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def log_ticks(low, high):
    """Powers of ten around what is there."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0 ** power for power in range(first, max(last, first + 1) + 1)]


class Axis:
    """From a value to a place on the paper."""

    def __init__(self, values, begin, end, log):
        self.begin, self.end, self.log = begin, end, log
        if log:
            values = [value for value in values if value > 0] or [1]
            self.ticks = log_ticks(min(values), max(values))
        else:
            self.ticks = linear_ticks(max(values or [1]))

    def place(self, value):
        low, high = self.ticks[0], self.ticks[-1]
        if self.log:
            value, low, high = (math.log10(max(number, low)) for number in (value, low, high))
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)


class Paper:
    def __init__(self, title):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
        self.text(WIDTH / 2, 20, title, size=15, anchor="middle")

    def text(self, x, y, text, size=12, anchor="start", turn=None, fill="#222222"):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{turned}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour="#dddddd", width=1):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>')

    def y_axis(self, axis, title):
        for tick in axis.ticks:
            y = axis.place(tick)
            self.line(LEFT, y, WIDTH - RIGHT, y)
            self.text(LEFT - 6, y + 4, number_text(tick), anchor="end")
        self.text(18, (TOP + HEIGHT - BOTTOM) / 2, title, anchor="middle", turn=-90)

    def legend(self, names):
        x = LEFT
        for number, name in enumerate(names):
            self.parts.append(f'<rect x="{x:.1f}" y="32" width="11" height="11" fill="{colour_of(name, number)}"/>')
            self.text(x + 15, 42, name)
            x += 30 + 6.6 * len(name)

    def end(self):
        return "\n".join(self.parts + ["</svg>"]) + "\n"


def bars(title, unit, groups, series, log_y=False):
    paper = Paper(title)
    axis = Axis([value for values in series.values() for value in values if value is not None], HEIGHT - BOTTOM, TOP, log_y)
    paper.y_axis(axis, unit)
    room = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    thick = room * 0.8 / max(1, len(series))
    for at, group in enumerate(groups):
        x = LEFT + room * (at + 0.1)
        for number, (name, values) in enumerate(series.items()):
            if values[at] is None:
                continue
            top = axis.place(values[at])
            paper.parts.append(f'<rect x="{x + number * thick:.1f}" y="{top:.1f}" width="{thick * 0.92:.1f}" '
                               f'height="{max(0.5, HEIGHT - BOTTOM - top):.1f}" fill="{colour_of(name, number)}"/>')
            if thick > 22:
                paper.text(x + (number + 0.46) * thick, top - 4, number_text(values[at]), size=10, anchor="middle")
        crowded = len(groups) > 5
        paper.text(x + room * 0.4, HEIGHT - BOTTOM + (14 if crowded else 18), group, size=11,
                   anchor="end" if crowded else "middle", turn=-25 if crowded else None)
    paper.legend(series)
    return paper.end()


def lines(title, x_title, y_title, series, log_x=False, log_y=False):
    paper = Paper(title)
    points = [point for values in series.values() for point in values]
    across = Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, log_x)
    up = Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, log_y)
    paper.y_axis(up, y_title)
    for tick in across.ticks:
        x = across.place(tick)
        paper.line(x, TOP, x, HEIGHT - BOTTOM)
        paper.text(x, HEIGHT - BOTTOM + 18, number_text(tick), anchor="middle")
    paper.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 40, x_title, anchor="middle")
    for number, (name, values) in enumerate(series.items()):
        colour = colour_of(name, number)
        places = [(across.place(x), up.place(y)) for x, y in sorted(values)]
        if len(places) > 1:
            drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            paper.parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        paper.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    paper.legend(series)
    return paper.end()
