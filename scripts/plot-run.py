#!/usr/bin/env python3
"""SVG plots of a simulated run from its time series.

    metaroce-sim run config/scenarios/ls64-incast-32.yaml --series run.csv
    scripts/plot-run.py run.csv --match 'rate|queue' --output run.svg

One panel per kind of value: what stands behind the last dot of a name ("host3.rate_mbps"). Names
that end in _bytes and only rise (placed_bytes) are drawn as rates. Needs matplotlib:
`scripts/setup.sh --plots`.
"""
import argparse
import collections
import csv
import re
import sys

RISING = re.compile(r"(placed|sent|received)_bytes$")


def read_series(path, match, most):
    """{kind: {name: ([times in us], [values])}}, the `most` first names of each kind."""
    series = collections.defaultdict(dict)
    left_out = collections.Counter()
    with open(path, newline="", encoding="utf-8") as f:
        rows = csv.reader(f)
        if next(rows, None) != ["time_ns", "name", "value"]:
            raise ValueError(f"{path} does not start with time_ns,name,value")
        for number, row in enumerate(rows, 2):
            if len(row) != 3 or not re.fullmatch(r"-?\d+", row[0]) or not re.fullmatch(r"-?\d+", row[2]):
                raise ValueError(f"{path}:{number}: is not time,name,value")
            name = row[1]
            if not re.search(match, name):
                continue
            kind = name.rsplit(".", 1)[-1]
            if name not in series[kind]:
                if len(series[kind]) == most:
                    left_out[kind] += 1
                    continue
                series[kind][name] = ([], [])
            times, values = series[kind][name]
            times.append(int(row[0]) / 1e3)
            values.append(int(row[2]))
    for kind in left_out:
        print(f"plot-run: {kind}: only the first {most} names are drawn; --match chooses", file=sys.stderr)
    return {kind: names for kind, names in series.items() if names}


def as_rates(times, values):
    """Gb/s between samples of a counter of bytes."""
    rates = [(b - a) * 8 / ((t - s) * 1e3) for a, b, s, t in zip(values, values[1:], times, times[1:]) if t > s]
    return times[1 : len(rates) + 1], rates


def draw(series, output, title):
    import matplotlib

    matplotlib.use("svg")
    # Equal data, equal file: no date, ids from a fixed salt.
    matplotlib.rcParams["svg.hashsalt"] = "metaroce"
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(len(series), 1, sharex=True, squeeze=False,
                                     figsize=(9, 1 + 2.6 * len(series)), layout="constrained")
    for panel, (kind, names) in zip(panels[:, 0], sorted(series.items())):
        rising = RISING.search(kind)
        for name, (times, values) in sorted(names.items()):
            if rising:
                times, values = as_rates(times, values)
            panel.plot(times, values, linewidth=0.8, drawstyle="steps-post", label=name.rsplit(".", 1)[0])
        panel.set_ylabel(kind.replace("_bytes", " Gb/s") if rising else kind.replace("_", " "))
        panel.set_ylim(bottom=0)
        if len(names) <= 12:
            panel.legend(fontsize="x-small", ncols=4)
    panels[-1, 0].set_xlabel("time in us")
    figure.suptitle(title)
    figure.savefig(output, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("series", help="file that `metaroce-sim run --series` wrote")
    parser.add_argument("--match", default="", help="regular expression that a name must contain")
    parser.add_argument("--most", type=int, default=64, help="lines in a panel")
    parser.add_argument("--output", help="SVG file; default: the series' name with .svg")
    parser.add_argument("--title", help="default: the series' name")
    options = parser.parse_args()
    try:
        series = read_series(options.series, options.match, options.most)
        if not series:
            raise ValueError("no sample has such a name")
        output = options.output or re.sub(r"(\.csv)?$", ".svg", options.series, count=1)
        draw(series, output, options.title or options.series)
    except ModuleNotFoundError as error:
        sys.exit(f"plot-run: {error}; install it with scripts/setup.sh --plots")
    except (OSError, ValueError, re.error) as error:
        sys.exit(f"plot-run: {error}")
    print(output)


if __name__ == "__main__":
    main()
