#!/usr/bin/env python3
"""What the benchmarks have measured, as pages.

    page.py add FOLDER       merges the files that benchmarks wrote with BENCH_JSON into results.json
    page.py write            makes docs/benchmarks.md and the pictures from benchmarks.md and results.json
    page.py check            fails if one of them is stale
    page.py report           makes target/bench/report.html, and says which ratios are worse than the committed ones

With QUICK in the environment, results and page are those in target/bench: such figures are no figures.

In benchmarks.md, a line `<!-- table core/governor -->` becomes that table, with `rows a; b` only those rows, with
`by ratio` sorted by that column; `<!-- measured core/governor -->` becomes when and where it was measured; and
`{core/governor: hot key, 1 thread: ratio}` becomes one figure of a row and a column.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True

import chart  # noqa: E402
import html_report  # noqa: E402
import machine  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "bench/benchmarks.md"
COMMITTED = "bench/results.json"
QUICK = "QUICK" in os.environ
TARGET = ROOT / "target/bench"
RESULTS = TARGET / "results.json" if QUICK else ROOT / COMMITTED
DOCS = TARGET if QUICK else ROOT / "docs"

NOT_MEASURED = "not measured in this run"
# A ratio that is worse by this part is said.
WORSE = 0.1


def digits(figure, value):
    """
    >>> digits({"decimals": -3}, 158247.0), digits({"decimals": 2}, 2.2871)
    ('158,000', '2.29')
    """
    decimals = figure["decimals"]
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def one(cell):
    """A figure without its spread and unit, as prose and other cells have it. Nothing if it is no number.

    >>> one("yes"), one(None), one({"median": None, "decimals": 0})
    ('yes', '', '')
    """
    return cell if isinstance(cell, str) else digits(cell, cell["median"]) if is_measured(cell) else ""


def text(cell):
    """What a cell of a table says: a ratio with its spread, other figures with their unit.

    >>> text({"median": 2.29, "lowest": 2.281, "highest": 2.3, "unit": "×", "decimals": 2})
    '2.29 (2.28 – 2.30)'
    >>> text({"median": 6.2, "lowest": 6, "highest": 7, "unit": "µs", "decimals": 1}), text(None), text({"median": None})
    ('6.2 µs', '', '')
    """
    if not is_measured(cell):
        return one(cell)
    unit = cell["unit"]
    if unit == "×":
        spread = f" ({digits(cell, cell['lowest'])} – {digits(cell, cell['highest'])})"
        return one(cell) + (spread if cell["lowest"] != cell["highest"] else "")
    return one(cell) + (f" {unit}" if unit else "")


def is_measured(cell):
    """Text is no figure, nor is what was divided by zero."""
    return isinstance(cell, dict) and cell["median"] is not None


# Results: merging and comparing.


def merged(cells):
    """The same cell of several runs: the median of their medians, the lowest and the highest of all.

    >>> run = lambda low, mid, high: {"lowest": low, "median": mid, "highest": high, "unit": "×"}
    >>> merged([run(1, 2, 3), run(2, 4, 9), run(0.5, 3, 4)])
    {'lowest': 0.5, 'median': 3, 'highest': 9, 'unit': '×'}
    >>> merged(["yes", "no"]), merged([None, None])
    ('no', None)
    """
    figures = [cell for cell in cells if is_measured(cell)]
    if not figures:
        return cells[-1]
    return {
        **figures[-1],
        "lowest": min(figure["lowest"] for figure in figures),
        "median": round_to_six(statistics.median(figure["median"] for figure in figures)),
        "highest": max(figure["highest"] for figure in figures),
    }


def round_to_six(number):
    return number if number == int(number) else float(f"{number:.6g}")


def merged_table(runs):
    """Rows of the last run, and of earlier ones those that it has too. Rows that only some runs have, as in a search for
    the highest rate, are those of the last."""
    last = runs[-1]

    def cells(name, index):
        return merged([row["cells"][index] for run in runs for row in run["rows"] if row["name"] == name])

    columns = range(len(last["columns"]))
    rows = [{**row, "cells": [cells(row["name"], index) for index in columns]} for row in last["rows"]]
    return {**last, "rows": rows, "runs": len(runs)}


def add(folder):
    """Replaces the tables that were measured now, and keeps the others with when and where they were measured."""
    results = load(RESULTS) if RESULTS.exists() else {"tables": {}, "sessions": []}
    files = sorted(Path(folder).glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    runs = {}
    for table in (table for file in files if file.stat().st_size for table in load(file)["tables"]):
        runs.setdefault(table.pop("id"), []).append(table)
    session = {"date": date.today().isoformat(), "commit": machine.commit(ROOT), **machine.describe(ROOT)}
    results["sessions"].append(session)
    for name, tables in runs.items():
        same = [table for table in tables if table["columns"] == tables[-1]["columns"]]
        results["tables"][name] = {**merged_table(same), "session": len(results["sessions"]) - 1}
    save(results)
    print(f"{len(runs)} tables are new in {RESULTS.relative_to(ROOT)}")


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def save(results):
    """With a line for each row, and without sessions of which no table is left."""
    used = sorted({table["session"] for table in results["tables"].values()})
    lines = ['{"sessions": [']
    lines.append(",\n".join(compact(results["sessions"][old]) for old in used))
    lines.append('],\n"tables": {')
    tables = []
    for name, table in sorted(results["tables"].items()):
        head = {key: value for key, value in table.items() if key != "rows"}
        head["session"] = used.index(table["session"])
        rows = ",\n".join("  " + compact(row) for row in table["rows"])
        tables.append(f'{compact(name)}: {compact(head)[:-1]}, "rows": [\n{rows}]}}')
    lines.append(",\n".join(tables) + "\n}}\n")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("\n".join(lines), encoding="utf-8")


def compact(value):
    return json.dumps(value, ensure_ascii=False)


def ratios(results):
    """Every ratio of ours beside a peer, by where it stands."""
    return {
        (name, row["name"], column): cell
        for name, table in results["tables"].items()
        for row in table["rows"]
        for column, cell in zip(table["columns"], row["cells"])
        if is_measured(cell) and cell["unit"] == "×" and cell["better"] and cell["median"]
    }


def goodness(figure):
    """How many times better than the peer.

    >>> goodness({"median": 4, "better": "more"}), goodness({"median": 4, "better": "less"})
    (4, 0.25)
    """
    return figure["median"] if figure["better"] == "more" else 1 / figure["median"]


def worse(now, before):
    """The ratios that are worse than before by more than a tenth, the worst first.

    >>> ratio = lambda median, better="more": {"median": median, "better": better}
    >>> worse({"a": ratio(1.79), "b": ratio(1.81), "c": ratio(1.2, "less"), "d": ratio(1)}, {"a": ratio(2), "b": ratio(2), "c": ratio(1, "less")})
    ['c', 'a']
    """
    change = {at: goodness(now[at]) / goodness(before[at]) for at in now if at in before}
    return sorted((at for at in change if change[at] < 1 - WORSE), key=change.get)


def committed():
    command = ["git", "-C", str(ROOT), "show", f"HEAD:{COMMITTED}"]
    shown = subprocess.run(command, capture_output=True, check=False)
    return json.loads(shown.stdout) if shown.returncode == 0 else {"tables": {}, "sessions": []}


# The page.


def markdown(table, only=None, by=None):
    rows = [row for row in table["rows"] if only is None or row["name"] in only]
    if by:
        at = table["columns"].index(by)
        rows.sort(key=lambda row: row["cells"][at]["median"])
    lines = [[row["name"], *map(text, row["cells"])] for row in rows]
    head, rule = [table["title"], *table["columns"]], "|---|" + "--:|" * len(table["columns"])
    return "\n".join([markdown_row(head), rule, *map(markdown_row, lines)])


def markdown_row(cells):
    """
    >>> markdown_row(["a", "", "b"])
    '| a | | b |'
    """
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def measured(results, name):
    table = results["tables"].get(name)
    if table is None:
        return f"({name}: {NOT_MEASURED}.)"
    runs = table["runs"]
    count = {1: "One run", 2: "Two runs", 3: "Three runs", 4: "Four runs", 5: "Five runs"}.get(runs, f"{runs} runs")
    session = results["sessions"][table["session"]]
    return f"{count}, {session['date']}: {machine.sentence(session['machine'])}."


def page(template, results):
    """The template with tables and figures in it.

    >>> ratio = {"median": 2.5, "lowest": 2, "highest": 3, "unit": "×", "decimals": 2}
    >>> table = {"title": "M/s", "columns": ["ratio"], "rows": [{"name": "log: full", "cells": [ratio]}]}
    >>> print(page("<!-- table core/x -->\\n{core/x: log: full: ratio} and {core/y: a: b}", {"tables": {"core/x": table}}))
    | M/s | ratio |
    |---|--:|
    | log: full | 2.50 (2.00 – 3.00) |
    2.50 and not measured in this run
    """
    tables = results["tables"]

    def put_table(match):
        name, rows, by = match["name"], match["rows"], match["by"]
        if name not in tables:
            return f"({name}: {NOT_MEASURED}.)"
        return markdown(tables[name], rows and rows.split("; "), by)

    def put_figure(match):
        table = tables.get(match["name"])
        rows = table["rows"] if table else []
        for row in rows:
            for column, cell in zip(table["columns"], row["cells"]):
                if (row["name"], column) == (match["row"], match["column"]) and one(cell):
                    return one(cell)
        return NOT_MEASURED

    name = r"(?P<name>[a-z0-9]+/[a-z0-9-]+)"
    made = re.sub(rf"^<!-- table {name}(?: rows (?P<rows>.+?))?(?: by (?P<by>.+?))? -->$", put_table, template, flags=re.M)
    made = re.sub(rf"^<!-- measured {name} -->$", lambda match: measured(results, match["name"]), made, flags=re.M)
    return re.sub(rf"\{{{name}: (?P<row>[^{{}}]+): (?P<column>[^:{{}}]+)\}}", put_figure, made)


def picture(table):
    drawn = table["curve"]["columns"]
    at = [table["columns"].index(column) for column in drawn]
    points = [(int(row["name"].replace(",", "")), [row["cells"][index]["median"] for index in at]) for row in table["rows"]]
    return chart.curve(table["curve"]["title"], table["title"], drawn, points)


def pages(results):
    """What is made from the results: the text of each file."""
    made = {DOCS / "benchmarks.md": page(TEMPLATE.read_text(encoding="utf-8"), results)}
    for name, table in results["tables"].items():
        if table.get("curve"):
            made[DOCS / "images" / f"{name.replace('/', '-')}.svg"] = picture(table)
    return made


def write():
    for path, content in pages(load(RESULTS)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def check():
    made = pages(load(RESULTS))
    stale = [path for path, content in made.items() if not path.exists() or path.read_text(encoding="utf-8") != content]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is stale: python3 bench/page.py write", file=sys.stderr)
    return 1 if stale else 0


def report():
    results, before = load(RESULTS), committed()
    now, last = ratios(results), ratios(before)
    regressed = [(at, now[at], last[at]) for at in worse(now, last)]
    worst = sorted(now.items(), key=lambda item: goodness(item[1]))
    pictures = {name: picture(table) for name, table in results["tables"].items() if table.get("curve")}
    TARGET.mkdir(parents=True, exist_ok=True)
    shown = html_report.make(results, regressed, worst, pictures, text, chart.spread)
    (TARGET / "report.html").write_text(shown, encoding="utf-8")
    for (name, row, column), new, old in regressed:
        print(f"worse than committed: {name}: {row}: {column}: {text(new)}, was {text(old)}")
    print(f"{len(regressed)} of {len(now)} ratios are worse by {WORSE:.0%} or more; see target/bench/report.html")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", folder]:
            add(folder)
        case ["write"]:
            write()
        case ["check"]:
            sys.exit(check())
        case ["report"]:
            report()
        case _:
            sys.exit(__doc__)
