#!/usr/bin/env python3
"""Draws the lag of standbys and their memory, from the files of `measure_standby.py --csv DIR`, as an SVG picture.

  lag_plot.py lags/tpcb-live-seawall.csv lags/tpcb-live-postgresql.csv --to lag.svg

Two panels over the seconds of the load: the highest lag of each second in milliseconds, on a logarithmic scale, and the anonymous memory
of the standby in MiB. Each file is a line. Needs nothing beside Python.
"""
import argparse, csv, html, math, os

WIDTH, PANEL, LEFT, RIGHT, TOP, GAP = 860, 210, 70, 20, 40, 60
COLOURS = ["#1f6feb", "#d1570d", "#2a9d4e", "#8250df"]
TICKS = 5


class Panel:
    """One diagram: seconds from left to right, a figure upwards."""

    def __init__(self, top, title, lines, logarithmic):
        points = [point for _, line in lines for point in line]
        self.top, self.title, self.lines, self.logarithmic = top, title, lines, logarithmic
        last = max((second for second, _ in points), default=1) or 1
        self.apart = step(last / TICKS)
        self.seconds = self.apart * math.ceil(last / self.apart)
        highest = max((value for _, value in points), default=1) or 1
        if logarithmic:
            lowest = min((value for _, value in points if value > 0), default=1)
            self.low, self.high = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
            self.high = max(self.high, self.low + 1)
        else:
            self.step = step(highest / TICKS)
            self.low, self.high = 0, self.step * math.ceil(highest / self.step)

    def x(self, second):
        return LEFT + (WIDTH - LEFT - RIGHT) * second / self.seconds

    def y(self, value):
        place = math.log10(max(value, 10 ** self.low)) if self.logarithmic else value
        return self.top + PANEL * (1 - (place - self.low) / (self.high - self.low))

    def heights(self):
        if self.logarithmic:
            return [10 ** power for power in range(self.low, self.high + 1)]
        return [self.step * part for part in range(round(self.high / self.step) + 1)]

    def draw(self):
        yield text(LEFT, self.top - 10, self.title, "start", bold=True)
        for height in self.heights():
            y = self.y(height)
            yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            yield text(LEFT - 6, y + 4, f"{height:,.4g}", "end")
        for second in (self.apart * part for part in range(round(self.seconds / self.apart) + 1)):
            yield text(self.x(second), self.top + PANEL + 16, f"{second:,.0f} s", "middle")
        for colour, (_, line) in zip(COLOURS, self.lines):
            places = " ".join(f"{self.x(second):.1f},{self.y(value):.1f}" for second, value in line)
            yield f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.3"/>'


def step(at_least):
    """The smallest of 1, 2 and 5 times a power of ten that is at least this."""
    power = 10 ** math.floor(math.log10(at_least))
    return next(power * part for part in (1, 2, 5, 10) if power * part >= at_least)


def text(x, y, words, anchor, bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{html.escape(words)}</text>'


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def column(rows, name, divisor=1):
    return [(float(row["second"]), float(row[name]) / divisor) for row in rows if row[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help=f"of the same load, {len(COLOURS)} at most")
    parser.add_argument("--to", default="lag.svg")
    given = parser.parse_args()
    if len(given.files) > len(COLOURS):
        parser.error(f"{len(given.files)} files are too many lines for one picture: {len(COLOURS)} at most")
    files = [(os.path.splitext(os.path.basename(path))[0], read(path)) for path in given.files]
    panels = [
        Panel(TOP + 24, "Highest lag of each second, ms", [(name, column(rows, "lag_milliseconds")) for name, rows in files], True),
        Panel(TOP + 24 + PANEL + GAP, "Anonymous memory of the standby, MiB",
              [(name, column(rows, "anonymous_kib", 1024)) for name, rows in files], False),
    ]
    height = TOP + 24 + 2 * PANEL + GAP + 36
    with open(given.to, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="#333">\n'
                   f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n')
        for number, (colour, (name, _)) in enumerate(zip(COLOURS, files)):
            x = LEFT + number * (WIDTH - LEFT) / len(files)
            file.write(f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>\n{text(x + 18, 24, name, "start")}\n')
        for panel in panels:
            file.write("\n".join(panel.draw()) + "\n")
        file.write("</svg>\n")


if __name__ == "__main__":
    main()
