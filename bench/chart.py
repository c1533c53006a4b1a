"""Pictures of figures: a curve on a logarithmic axis of sizes, and the spread of a ratio."""

import math

WIDTH, HEIGHT = 640, 300
# Margins: for the numbers of the axes, and for the title and the legend.
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 74, 46
STYLE = (
    ".curve text{font:13px system-ui,sans-serif;fill:#33424a}.curve .title{font-weight:600;font-size:15px}"
    ".curve .paper{fill:#fff}.curve .grid{stroke:#d9e0e4}.curve .line{fill:none;stroke-width:2}"
    ".curve .c0{stroke:#0a7a8c}.curve .c1{stroke:#b4540a;stroke-dasharray:8 3}"
    ".curve .c2{stroke:#5b4bb7;stroke-dasharray:3 3}"
    "@media (prefers-color-scheme:dark){.curve text{fill:#c6d3da}.curve .paper{fill:#12191d}"
    ".curve .grid{stroke:#2d3a41}.curve .c0{stroke:#3fb6c9}.curve .c1{stroke:#f0a060}.curve .c2{stroke:#a99df5}}"
)


def curve(title, grows, names, points):
    """A picture of lines. Each point is a size and one figure for each name.

    >>> curve("T", "keys", ["ns"], [(1, [2.0]), (10, [4.0])]).count("class=\\"line c0\\"")
    2
    """
    step = fifth(max(figure for _, figures in points for figure in figures))
    least, most = math.log(points[0][0]), math.log(points[-1][0])

    def x(size):
        return LEFT + (math.log(size) - least) / ((most - least) or 1) * (WIDTH - RIGHT - LEFT - 30)

    def y(figure):
        return HEIGHT - BOTTOM - figure / (5 * step) * (HEIGHT - BOTTOM - TOP)

    svg = [
        f'<svg class="curve" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        f'<style>{STYLE}</style>\n<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="20" y="26">{title}</text>',
    ]
    for tick in range(6):
        at = y(tick * step)
        svg.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        svg.append(text(LEFT - 8, at + 4, "end", f"{tick * step:,.{1 if step < 1 else 0}f}"))
    svg += [text(x(size), HEIGHT - 26, "middle", f"{size:,}") for size, _ in points]
    svg.append(text(WIDTH - RIGHT, HEIGHT - 8, "end", grows))
    legend = 20
    for colour, name in enumerate(names):
        line = "L".join(f"{x(size):.1f} {y(figures[colour]):.1f}" for size, figures in points)
        svg.append(f'<path class="line c{colour}" d="M{line}"/>')
        svg.append(f'<path class="line c{colour}" d="M{legend} 46h24"/>')
        svg.append(text(legend + 30, 50, "start", name))
        # An estimate of the width of the name.
        legend += 52 + 7 * len(name)
    return "\n".join(svg) + "\n</svg>\n"


def text(x, y, anchor, words):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def fifth(most):
    """A fifth of the axis: the least 1, 2 or 5 times a power of ten that is enough.

    >>> fifth(9), fifth(120), fifth(0)
    (2, 50, 1)
    """
    power = 10 ** math.floor(math.log10(most / 5)) if most > 0 else 1
    return next((digit * power for digit in (1, 2, 5) if digit * power * 5 >= most), 10 * power)


def spread(lowest, median, highest):
    """A bar from the lowest to the highest of a ratio, on a logarithmic axis from 1/4 to 4 with a line at 1."""

    def x(ratio):
        return 100 + 48 * max(-2, min(2, math.log2(ratio))) if ratio > 0 else 4

    low, mid, high = x(lowest), x(median), x(highest)
    return (
        '<svg class="spread" viewBox="0 0 200 14" aria-hidden="true"><path class="one" d="M100 0V14"/>'
        f'<path class="range" d="M{low:.1f} 7H{max(high, low + 1):.1f}"/><circle cx="{mid:.1f}" cy="7" r="4"/></svg>'
    )
