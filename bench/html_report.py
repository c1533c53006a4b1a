"""All results as one HTML page that needs nothing else, light and dark."""

import html
import re

import machine
from cells import is_measured, text
from chart import spread

STYLE = """
:root{color-scheme:light dark;--ink:#1d2b33;--soft:#5a6b75;--paper:#fff;--line:#d9e0e4;--good:#0a7a8c;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--ink:#d5e0e6;--soft:#8fa2ad;--paper:#12191d;--line:#2d3a41;--good:#3fb6c9;--bad:#ff8a80}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}.scroll{overflow-x:auto;margin:.5rem 0 2rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top;white-space:nowrap}
th:first-child,td:first-child{text-align:left}td:first-child{white-space:normal}small{display:block;color:var(--soft)}a{color:var(--good)}
.bad{color:var(--bad)}.curve{max-width:40rem}.spread{width:200px;height:14px}
.spread .one{stroke:var(--soft)}.spread .range{stroke:var(--good);stroke-width:3}.spread circle{fill:var(--good)}
.bad .range{stroke:var(--bad)}.bad circle{fill:var(--bad)}
"""


def escape(words):
    """
    >>> escape("`<3/s`, a")
    '<code>&lt;3/s</code>, a'
    """
    return re.sub("`(.+?)`", r"<code>\1</code>", html.escape(words))


def make(results, regressed, lost, worst, pictures):
    """The page."""
    parts = ["<h1>tidegate: benchmarks</h1>", *sessions(results)]
    parts.append(f"<h2>Worse than committed, by a tenth or more: {len(regressed)}</h2>")
    if regressed:
        rows = [[place(at), escape(text(new)), escape(text(old))] for at, new, old in regressed]
        parts.append(table(["ratio", "now", "committed"], rows, "bad"))
    if lost:
        parts.append(f"<h2>No longer measured: {len(lost)}</h2>")
        parts.append(table(["ratio", "committed"], [[place(at), escape(text(old))] for at, old in lost], "bad"))
    parts.append("<h2>Ratios, the worst first</h2>")
    parts.append(
        "<p>The bar reaches from the lowest to the highest round of all runs, on a logarithmic axis from 1/4 to 4, with a "
        "line at 1.</p>"
    )
    rows = [[place(at), escape(text(cell)), f"{cell['better']} is better", drawn(cell)] for at, cell in worst]
    parts.append(table(["ratio", "median (spread)", "", "spread"], rows))
    for name, measured in sorted(results["tables"].items()):
        parts.append(f"<h2 id=\"{escape(name)}\">{escape(name)}</h2>{pictures.get(name, '')}")
        rows = [[escape(row["name"]), *(cell_html(cell) for cell in row["cells"])] for row in measured["rows"]]
        parts.append(table([measured["title"], *measured["columns"]], rows))
        session = results["sessions"][measured["session"]]
        parts.append(f"<p><small>{runs(measured['runs'])}, {escape(session['date'])}, commit {escape(session['commit'])}</small></p>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>tidegate: benchmarks</title><style>{STYLE}</style>\n" + "\n".join(parts) + "</html>\n"
    )


def runs(count):
    """
    >>> runs(1), runs(5)
    ('one run', 'medians of 5 runs, with the lowest and the highest round of all')
    """
    return "one run" if count == 1 else f"medians of {count} runs, with the lowest and the highest round of all"


def sessions(results):
    for session in results["sessions"]:
        versions = ", ".join(f"{name} {version}" for name, version in session["versions"].items())
        where = f"{session['date']}, commit {session['commit']}: {machine.sentence(session['machine'])}. {versions}"
        yield f"<p>{escape(where)}</p>"


def place(at):
    name, row, column = at
    return f'<a href="#{escape(name)}">{escape(name)}</a>: {escape(row)}: {escape(column)}'


def drawn(cell):
    is_bad = (cell["median"] < 1) == (cell["better"] == "more") and cell["median"] != 1
    return f'<span class="{"bad" if is_bad else ""}">{spread(cell["lowest"], cell["median"], cell["highest"])}</span>'


def cell_html(cell):
    """A figure with its lowest and highest below it, unless its text has them."""
    shown = escape(text(cell))
    if not is_measured(cell) or cell["unit"] == "×" or cell["lowest"] == cell["highest"]:
        return shown
    low, high = (escape(text({**cell, "median": cell[end]})) for end in ("lowest", "highest"))
    return f"{shown}<small>{low} – {high}</small>"


def table(head, rows, kind=""):
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}"><tr>{cells}</tr>{lines}</table></div>'
