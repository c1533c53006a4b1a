"""Tables and figures of the results in a page that is written by hand.

A line alone:
    <!-- table core/governor -->     that table; with `rows a; b` only those rows, with `ending ", 1 thread"` only rows whose
                                     name ends so, with `by ratio` sorted by that column (in this order)
    <!-- measured -->                when and where the tables of this section were measured, and how often
    <!-- slower -->                  every ratio of all tables that says that something is slower
In a line:
    {core/governor: hot key, 1 thread: ratio}           the figure of that row and column
    {spread core/governor: hot key, 1 thread: ratio}    with its lowest and highest
    {version: nginx}                                    of the session in which the tables of this section were measured

A section reaches from one heading of the second level to the next.
"""

import re

import machine
from cells import is_measured, one, text, with_spread
from results import goodness, ratios, worst_first

NOT_MEASURED = "not measured in this run"
NAME = r"(?P<name>[a-z0-9]+/[a-z0-9-]+)"
TABLE = re.compile(
    rf'^<!-- table {NAME}(?: rows (?P<rows>.+?))?(?: ending "(?P<ending>.+?)")?(?: by (?P<by>.+?))? -->$', re.M)
MEASURED = re.compile("^<!-- measured -->$", re.M)
SLOWER = re.compile("^<!-- slower -->$", re.M)
FIGURE = re.compile(rf"\{{(?P<spread>spread )?{NAME}: (?P<row>[^{{}}]+): (?P<column>[^:{{}}]+)\}}")
VERSION = re.compile(r"\{version: (?P<program>[^{}]+)\}")
LEFT_OVER = re.compile(r"^<!-- (?:table|measured|slower).*|\{(?:spread |version|[a-z0-9]+/)[^{}]*\}?", re.M)
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


def page(template, results):
    """The template with tables and figures in it, and what is missing for that.

    >>> ratio = {"median": 2.5, "lowest": 2, "highest": 3, "unit": "×", "decimals": 2, "better": "more"}
    >>> table = {"title": "M/s", "columns": ["ratio"], "rows": [{"name": "log: full", "cells": [ratio]}], "session": 0}
    >>> results = {"tables": {"core/x": table}, "sessions": [{"versions": {"nginx": "1.22.1"}}]}
    >>> made, missing = page("<!-- table core/x -->\\n{core/x: log: full: ratio}, {spread core/x: log: full: ratio}", results)
    >>> print(made)
    | M/s | ratio |
    |---|--:|
    | log: full | 2.50 (2.00 – 3.00) |
    2.50, 2.50 (2.00 – 3.00)
    >>> page("{core/x: log: ratio}, {version: nginx}, {version: envoy}\\n<!-- table core/y -->\\n<!-- tables core/x -->", results)[1]
    ['core/x: log: ratio', 'version: envoy (where core/x was measured)', 'not understood: <!-- tables core/x -->']
    """
    missing = []
    sections = re.split(r"^(?=## )", template, flags=re.M)
    made = "".join(section(it, results, missing) for it in sections)
    missing += [f"not understood: {it}" for it in LEFT_OVER.findall(made)]
    return made, list(dict.fromkeys(missing))


def section(template, results, missing):
    named = {match["name"] for pattern in (TABLE, FIGURE) for match in pattern.finditer(template)}
    tables = {name: results["tables"][name] for name in sorted(named) if name in results["tables"]}
    sessions = [results["sessions"][at] for at in sorted({table["session"] for table in tables.values()})]

    def put_table(match):
        if match["name"] not in tables:
            return f"({match['name']}: {NOT_MEASURED}.)"
        try:
            return markdown(tables[match["name"]], match["rows"], match["ending"], match["by"])
        except ValueError as problem:
            missing.append(f"{match['name']}: {problem}")
            return NOT_MEASURED

    def put_figure(match):
        cell = find(tables.get(match["name"]), match["row"], match["column"])
        return known(with_spread(cell) if match["spread"] else one(cell), match)

    def put_version(match):
        found = {it["versions"].get(match["program"]) for it in sessions or results["sessions"]} - {None}
        return known(" and ".join(sorted(found)), match, f" (where {next(iter(tables))} was measured)" if tables else "")

    def known(words, match, where=""):
        if words:
            return words
        missing.append(match[0].strip("{}") + where)
        return NOT_MEASURED

    made = TABLE.sub(put_table, template)
    made = MEASURED.sub(lambda _: measured(tables, results["sessions"]), made)
    made = SLOWER.sub(lambda _: slower(results), made)
    return VERSION.sub(put_version, FIGURE.sub(put_figure, made))


def find(table, name, column):
    for row in table["rows"] if table else []:
        if row["name"] == name and column in table["columns"]:
            return row["cells"][table["columns"].index(column)]
    return None


def markdown(table, only=None, ending=None, by=None):
    """
    >>> figure = lambda median: {"median": median, "unit": "", "decimals": 0}
    >>> rows = [{"name": name, "cells": [figure(at)]} for at, name in enumerate(["b, 1 thread", "c, 2 threads", "a, 1 thread"])]
    >>> table = {"title": "", "columns": ["ns"], "rows": rows[::-1]}
    >>> print(markdown(table, ending=", 1 thread", by="ns"))
    | | ns |
    |---|--:|
    | b, 1 thread | 0 |
    | a, 1 thread | 2 |
    >>> markdown(table, only="c, 2 threads; d")
    Traceback (most recent call last):
    ValueError: no row 'd'
    """
    rows = table["rows"]
    if only:
        only = only.split("; ")
        for name in only:
            if not any(row["name"] == name for row in rows):
                raise ValueError(f"no row '{name}'")
        rows = [row for row in rows if row["name"] in only]
    if ending:
        rows = [row for row in rows if row["name"].endswith(ending)]
        if not rows:
            raise ValueError(f"no row that ends with '{ending}'")
    if by:
        if by not in table["columns"]:
            raise ValueError(f"no column '{by}'")
        at = table["columns"].index(by)
        rows = sorted(rows, key=lambda row: row["cells"][at]["median"] if is_measured(row["cells"][at]) else float("inf"))
    lines = [[row["name"], *map(text, row["cells"])] for row in rows]
    head, rule = [table["title"], *table["columns"]], "|---|" + "--:|" * len(table["columns"])
    return "\n".join([markdown_row(head), rule, *map(markdown_row, lines)])


def markdown_row(cells):
    """
    >>> markdown_row(["a", "", "b"])
    '| a | | b |'
    """
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def measured(tables, sessions):
    """
    >>> machine = {"cpu": "AMD EPYC", "family": "26", "cores": 2, "memory": "23 GiB"}
    >>> sessions = [{"date": "2026-11-20", "commit": "a1b2", "machine": machine}]
    >>> print(measured({"core/a": {"runs": 5, "session": 0}, "core/b": {"runs": 1, "session": 0}}, sessions))
    - Medians of five runs, 2026-11-20, commit a1b2, on 2 cores of an AMD EPYC (family 26), 23 GiB: `core/a`.
    - One run, 2026-11-20, commit a1b2, on 2 cores of an AMD EPYC (family 26), 23 GiB: `core/b`.
    """
    if not tables:
        return f"({NOT_MEASURED.capitalize()}.)"
    together = {}
    for name, table in tables.items():
        together.setdefault((table["runs"], table["session"]), []).append(name)
    lines = []
    for (runs, at), names in together.items():
        session = sessions[at]
        count = "One run" if runs == 1 else f"Medians of {COUNTS.get(runs, runs)} runs"
        where = machine.sentence(session["machine"])
        lines.append((f"{count}, {session['date']}, commit {session['commit']}, on {where}", names))
    if len(lines) == 1:
        return lines[0][0] + "."
    return "\n".join(f"- {words}: {', '.join(f'`{name}`' for name in names)}." for words, names in lines)


def slower(results):
    """Every ratio that is worse than 1, the worst first.

    >>> ratio = lambda median, better: {"median": median, "lowest": 0.9, "highest": 2, "unit": "×", "decimals": 2, "better": better}
    >>> rows = [{"name": "hot", "cells": [ratio(0.95, "more"), ratio(1.5, "less"), ratio(1.2, "more")]}]
    >>> print(slower({"tables": {"core/a": {"columns": ["speed", "cost", "other"], "rows": rows}}}))
    | table | row | | ratio |
    |---|---|---|--:|
    | `core/a` | hot | cost, less is better | 1.50 (0.90 – 2.00) |
    | `core/a` | hot | speed, more is better | 0.95 (0.90 – 2.00) |
    """
    lines = [
        [f"`{name}`", row, f"{column}, {cell['better']} is better", text(cell)]
        for (name, row, column), cell in worst_first(ratios(results)) if goodness(cell) < 1
    ]
    if not lines:
        return "No ratio of this run is worse than 1."
    return "\n".join(["| table | row | | ratio |", "|---|---|---|--:|", *map(markdown_row, lines)])
