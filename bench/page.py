#!/usr/bin/env python3
"""What the benchmarks have measured, as pages. `./dev bench all` calls all of this in this order:

    page.py begin FOLDER       writes down the checkout and the machine, before the first run
    page.py demo NAME FOLDER   reads what a demo prints with --json, and writes its tables as a benchmark does
    page.py add FOLDER         merges the files that benchmarks wrote with BENCH_JSON into results.json
    page.py report             makes target/bench/report.html, and says which ratios are worse than the committed ones
    page.py write              makes docs/benchmarks.md and the pictures from benchmarks.md and results.json; fails if
                               the text needs a figure that is not there
    page.py check              fails if one of them is stale

With QUICK in the environment, results and page are those in target/bench: such figures are no figures.
What benchmarks.md may contain is said in template.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True

import chart  # noqa: E402
import demo  # noqa: E402
import html_report  # noqa: E402
import results  # noqa: E402
import template  # noqa: E402
from cells import text  # noqa: E402
from results import QUICK, ROOT, TARGET  # noqa: E402

TEMPLATE = ROOT / "bench/benchmarks.md"
DOCS = TARGET if QUICK else ROOT / "docs"


def picture(table):
    drawn = table["curve"]["columns"]
    at = [table["columns"].index(column) for column in drawn]
    points = [(int(row["name"].replace(",", "")), [row["cells"][index]["median"] for index in at]) for row in table["rows"]]
    return chart.curve(table["curve"]["title"], table["title"], drawn, points)


def pages(measured):
    """What is made from the results: the text of each file. And what is missing for it."""
    page, missing = template.page(TEMPLATE.read_text(encoding="utf-8"), measured)
    made = {DOCS / "benchmarks.md": page}
    for name, table in measured["tables"].items():
        if table.get("curve"):
            made[DOCS / "images" / f"{name.replace('/', '-')}.svg"] = picture(table)
    return made, [] if QUICK else missing


def complain(missing):
    for what in missing:
        print(f"bench/benchmarks.md needs a figure that bench/results.json does not have: {what}", file=sys.stderr)
    return 1 if missing else 0


def write():
    made, missing = pages(results.load())
    if missing:
        return complain(missing)
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return 0


def check():
    made, missing = pages(results.load())
    stale = [path for path, content in made.items() if not path.exists() or path.read_text(encoding="utf-8") != content]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is stale: python3 bench/page.py write", file=sys.stderr)
    return complain(missing) or (1 if stale else 0)


def take_demo(name, folder):
    made = demo.tables(name, sys.stdin.read())
    for table in made["tables"]:
        print(f"{template.markdown(table)}\n")
    (Path(folder) / f"demo-{name}.json").write_text(results.compact(made), encoding="utf-8")


def report():
    measured, before = results.load(), results.committed()
    now, last = results.ratios(measured), results.ratios(before)
    regressed = [(at, now[at], last[at]) for at in results.worse(now, last)]
    lost = [(at, last[at]) for at in results.lost(measured, before)]
    pictures = {name: picture(table) for name, table in measured["tables"].items() if table.get("curve")}
    TARGET.mkdir(parents=True, exist_ok=True)
    shown = html_report.make(measured, regressed, lost, results.worst_first(now), pictures)
    (TARGET / "report.html").write_text(shown, encoding="utf-8")
    for (name, row, column), new, old in regressed:
        print(f"worse than committed: {name}: {row}: {column}: {text(new)}, was {text(old)}")
    for (name, row, column), _ in lost:
        print(f"no longer measured: {name}: {row}: {column}")
    print(f"{len(regressed)} of {len(now)} ratios are worse by {results.WORSE:.0%} or more; see target/bench/report.html")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["begin", folder]:
            results.begin(folder)
        case ["demo", ("overload" | "loop") as name, folder]:
            take_demo(name, folder)
        case ["add", folder]:
            results.add(folder)
        case ["report"]:
            report()
        case ["write"]:
            sys.exit(write())
        case ["check"]:
            sys.exit(check())
        case _:
            sys.exit(__doc__)
