"""How a cell of a table is written: text, nothing, or a figure with its median, lowest and highest."""


def is_measured(cell):
    """Text is no figure, nor is what was divided by zero."""
    return isinstance(cell, dict) and cell["median"] is not None


def digits(figure, value):
    """
    >>> digits({"decimals": -3}, 158247.0), digits({"decimals": 2}, 2.2871)
    ('158,000', '2.29')
    """
    decimals = figure["decimals"]
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def one(cell):
    """A figure without its spread and unit, as prose has it. Nothing if it is no number.

    >>> one("yes"), one(None), one({"median": None, "decimals": 0})
    ('yes', '', '')
    """
    return cell if isinstance(cell, str) else digits(cell, cell["median"]) if is_measured(cell) else ""


def with_spread(cell):
    """A figure with its lowest and highest, if they differ, and without its unit.

    >>> with_spread({"median": 27.8, "lowest": 26.1, "highest": 28.25, "unit": "ns", "decimals": 1}), with_spread("yes")
    ('27.8 (26.1 – 28.2)', 'yes')
    """
    if not is_measured(cell) or cell["lowest"] == cell["highest"]:
        return one(cell)
    return f"{one(cell)} ({digits(cell, cell['lowest'])} – {digits(cell, cell['highest'])})"


def text(cell):
    """What a cell of a table says: a ratio with its spread, other figures with their unit.

    >>> text({"median": 2.29, "lowest": 2.281, "highest": 2.3, "unit": "×", "decimals": 2})
    '2.29 (2.28 – 2.30)'
    >>> text({"median": 6.2, "lowest": 6, "highest": 7, "unit": "µs", "decimals": 1}), text(None), text({"median": None})
    ('6.2 µs', '', '')
    """
    if not is_measured(cell):
        return one(cell)
    if cell["unit"] == "×":
        return with_spread(cell)
    return one(cell) + (f" {cell['unit']}" if cell["unit"] else "")
