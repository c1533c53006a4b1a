"""The results of the benchmarks: kept in a file, merged from several runs, and compared with those committed before."""

import json
import os
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

import machine
from cells import is_measured

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = "bench/results.json"
# Such figures are no figures.
QUICK = "QUICK" in os.environ
TARGET = ROOT / "target/bench"
FILE = TARGET / "results.json" if QUICK else ROOT / COMMITTED
# In the folder of the runs: the checkout and the machine when they began. Not `*.json`, as the tables are.
SESSION = "session"

# A ratio that is worse by this part is reported.
WORSE = 0.1


def load(path=FILE):
    return json.loads(path.read_text(encoding="utf-8"))


def begin(folder):
    """Writes down what is about to be measured, and where."""
    session = {"date": date.today().isoformat(), "commit": machine.commit(ROOT), **machine.describe(ROOT)}
    (Path(folder) / SESSION).write_text(compact(session), encoding="utf-8")


def ended(session, commit, versions):
    """The session after the last run: with the versions of what it has installed, and the checkout if that has changed.

    >>> session = {"commit": "a1", "versions": {"nginx": "1.22"}}
    >>> ended(session, "a1", {"nginx": "1.23", "envoy": "1.40"})
    {'commit': 'a1', 'versions': {'nginx': '1.22', 'envoy': '1.40'}}
    >>> ended(session, "b2", {})["commit"]
    'a1, at the end b2'
    """
    new = {name: version for name, version in versions.items() if name not in session["versions"]}
    changed = "" if commit == session["commit"] else f", at the end {commit}"
    return {**session, "commit": session["commit"] + changed, "versions": {**session["versions"], **new}}


def add(folder):
    """Replaces the tables that were measured now, and keeps the others with when and where they were measured."""
    folder = Path(folder)
    if not (folder / SESSION).exists():
        sys.exit(f"nobody wrote down what is measured in {folder}: page.py begin {folder}, before the first run")
    results = load() if FILE.exists() else {"tables": {}, "sessions": []}
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    runs = {}
    for table in (table for file in files if file.stat().st_size for table in load(file)["tables"]):
        runs.setdefault(table.pop("id"), []).append(table)
    now = machine.describe(ROOT)["versions"]
    results["sessions"].append(ended(load(folder / SESSION), machine.commit(ROOT), now))
    for name, tables in runs.items():
        same = [table for table in tables if table["columns"] == tables[-1]["columns"]]
        results["tables"][name] = {**merged_table(name, same), "session": len(results["sessions"]) - 1}
    save(results)
    print(f"{len(runs)} tables are new in {FILE.relative_to(ROOT)}")


def merged_table(name, runs):
    """Rows of the last run, and of earlier ones those that it has too. Rows that only some runs have, as in a search for
    the highest rate, are those of the last."""
    last = runs[-1]

    def cells(row, index):
        cells = [it["cells"][index] for run in runs for it in run["rows"] if it["name"] == row]
        try:
            return merged(cells)
        except ValueError as problem:
            sys.exit(f"{name}: {row}: {last['columns'][index]}: {problem}")

    columns = range(len(last["columns"]))
    rows = [{**row, "cells": [cells(row["name"], index) for index in columns]} for row in last["rows"]]
    return {**last, "rows": rows, "runs": len(runs)}


def merged(cells):
    """The same cell of several runs: the median of their medians, the lowest and the highest of all.

    >>> run = lambda low, mid, high: {"lowest": low, "median": mid, "highest": high, "unit": "×"}
    >>> merged([run(1, 2, 3), run(2, 4, 9), run(0.5, 3, 4)])
    {'lowest': 0.5, 'median': 3, 'highest': 9, 'unit': '×'}
    >>> merged(["yes", "no"]), merged([None, None]), merged([None, run(1, 2, 3)])["median"]
    ('no', None, 2)
    >>> merged(["0", run(1, 2, 3)])
    Traceback (most recent call last):
    ValueError: one run has the text '0' and another the figure 2: write a figure in all of them
    """
    figures = [cell for cell in cells if is_measured(cell)]
    texts = [cell for cell in cells if isinstance(cell, str)]
    if figures and texts:
        figure = figures[0]["median"]
        raise ValueError(f"one run has the text '{texts[0]}' and another the figure {figure}: write a figure in all of them")
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
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text("\n".join(lines), encoding="utf-8")


def compact(value):
    return json.dumps(value, ensure_ascii=False)


# Comparing.


def ratios(results):
    """Every ratio that is good or bad, by where it stands."""
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


def worst_first(ratios):
    return sorted(ratios.items(), key=lambda item: goodness(item[1]))


def is_worse(new, old):
    """By a tenth or more of what it was.

    >>> ratio = lambda median, better: {"median": median, "better": better}
    >>> [is_worse(ratio(median, "more"), ratio(2, "more")) for median in [1.79, 1.8, 1.81, 4]]
    [True, True, False, False]
    >>> [is_worse(ratio(median, "less"), ratio(1, "less")) for median in [1.11, 1.1, 1.09, 0.5]]
    [True, True, False, False]
    """
    change = new["median"] / old["median"]
    return change <= 1 - WORSE if new["better"] == "more" else change >= 1 + WORSE


def worse(now, before):
    """The ratios that are worse than before by a tenth or more, the worst first.

    >>> ratio = lambda median: {"median": median, "better": "more"}
    >>> worse({"a": ratio(1.7), "b": ratio(2), "c": ratio(1), "d": ratio(1)}, {"a": ratio(2), "b": ratio(2), "c": ratio(2)})
    ['c', 'a']
    """
    both = [at for at in now if at in before and is_worse(now[at], before[at])]
    return sorted(both, key=lambda at: goodness(now[at]) / goodness(before[at]))


def lost(results, before):
    """The ratios of a committed table that was measured again, and has them no longer.

    >>> ratio = {"median": 2, "unit": "×", "better": "more"}
    >>> table = lambda *rows: {"columns": ["ratio"], "rows": [{"name": row, "cells": [ratio]} for row in rows]}
    >>> lost({"tables": {"core/a": table("hot")}}, {"tables": {"core/a": table("hot", "cold"), "core/b": table("hot")}})
    [('core/a', 'cold', 'ratio')]
    """
    gone = ratios(before).keys() - ratios(results).keys()
    return sorted(at for at in gone if at[0] in results["tables"])


def committed():
    command = ["git", "-C", str(ROOT), "show", f"HEAD:{COMMITTED}"]
    shown = subprocess.run(command, capture_output=True, check=False)
    return json.loads(shown.stdout) if shown.returncode == 0 else {"tables": {}, "sessions": []}
