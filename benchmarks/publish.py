"""What was measured last, into the documentation: `build/*.json` become the tables of `docs/benchmarks.md`.

    python benchmarks/publish.py

A verb that was not run keeps the table that it had. Where each figure is explained is the rest of that page.
"""

from __future__ import annotations

import json
import re

from report import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
# Verbs in the order of the page, and which of their figures are shown; the others are in the files.
SHOWN = {
    "suite": r"draft\d+(_\d+)?_(total|right|accepted_invalid)|vectors_.*",
    "bench-masks": r"(cold|first_mask|warm)_.*_ratio|batch64_us|passing|refused|accepted_invalid|rejected_valid|rss_mb",
    "bench-grammars": r"grammars_passing|.*_ratio",
    "bench-engine": r".*",
    "bench-constrained": r".*",
    "bench-samplers": r".*_ratio",
    "bench-scale": r".*",
    "soak": r".*",
    "soak-constrained": r".*",
}


def table(report: dict[str, object], shown: str) -> str:
    """One verb's figures. `report`: as `report.write_report` writes it."""
    machine, figures = report["machine"], report["figures"]
    assert isinstance(machine, dict)
    assert isinstance(figures, dict)
    rows = [f"| `{name}` | {value:.4g} |" for name, value in figures.items() if re.fullmatch(shown, name)]
    place = f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}"
    return "\n".join(
        [f"{place}; commit {str(report['commit'])[:10]}.", "", "| figure | measured |", "|---|---|", *rows]
    )


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for verb, shown in SHOWN.items():
        path = ROOT / "build" / f"{verb}.json"
        if path.exists():
            begin, end = f"<!-- measured {verb} -->", "<!-- end -->"
            put = f"{begin}\n{table(json.loads(path.read_text(encoding='utf-8')), shown)}\n{end}"
            page, count = re.subn(rf"{begin}.*?{end}", lambda _, put=put: put, page, flags=re.DOTALL)
            print(f"{verb}: {'put' if count else 'has no place in the page'}")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
