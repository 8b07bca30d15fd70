"""A chart of the benchmark's rows: an SVG of bars, which adapts to dark pages."""

from html import escape

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #14202b; }
.task { font-weight: 650; }
.soft { fill: #5a6b7a; }
.own { fill: #0b7fab; }
.peer { fill: #a9b7c4; }
.card { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .soft { fill: #93a4b3; }
  .own { fill: #3db3e3; }
  .peer { fill: #4d6070; }
  .card { fill: #161f27; }
}
"""
_LEFT, _WIDTH, _LINE = 250, 340, 22


def rows_of(table):
    """Return the rows of a table that the benchmark has printed: task, library, figure, unit.

    >>> rows_of("| task | library | figure | unit |\\n|---|---|--:|---|\\n| isin | numpy | 7.5 | ns/key |")
    [('isin', 'numpy', 7.5, 'ns/key')]
    """
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|"))
    return [
        (task, library, float(figure), unit)
        for task, library, figure, unit in cells
        if figure.replace(".", "", 1).isdigit()
    ]


def chart(rows):
    """Return an SVG: a group of bars for each task and unit, the shortest first.

    >>> chart([("isin", "numpy", 7.5, "ns/key")]).count("<rect")
    2
    """
    groups = {}
    for task, library, figure, unit in rows:
        groups.setdefault((task, unit), []).append((figure, library))
    parts, top = [], 12
    for (task, unit), bars in groups.items():
        parts.append(f'<text class="task" x="16" y="{top + 16}">{escape(task)}</text>')
        parts.append(f'<text class="soft" x="{_LEFT}" y="{top + 16}">{escape(unit)}, less is better</text>')
        top += _LINE + 4
        longest = max(figure for figure, _ in bars) or 1
        for figure, library in sorted(bars):
            kind = "own" if library.startswith("nunatak") else "peer"
            width = max(1.0, _WIDTH * figure / longest)
            parts.append(f'<text x="{_LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(library)}</text>')
            parts.append(f'<rect class="{kind}" x="{_LEFT}" y="{top + 2}" width="{width:.1f}" height="16" rx="2"/>')
            parts.append(f'<text class="soft" x="{_LEFT + width + 6:.1f}" y="{top + 14}">{figure:g}</text>')
            top += _LINE
        top += 14
    size = f'viewBox="0 0 672 {top}" width="672" height="{top}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>\n'
        f'<rect class="card" width="672" height="{top}" rx="8"/>\n{body}\n</svg>\n'
    )
