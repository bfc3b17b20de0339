"""Makes `grammar/regular/format_tables.npz`: the minimal automaton of each format, from what `formats` says.

    python tests/format_tables.py [NAME ...]

Without names all are made, which takes some minutes, most of them for `idn-hostname`, which follows the Unicode version
of this Python's `unicodedata` and of the package idna: both are written down beside it.
"""

from __future__ import annotations

import sys
import unicodedata

import idna
import numpy as np
import numpy.typing as npt
from slipcast.grammar.regular.formats import FORMATS, TABLES, derived, tabled
from slipcast.grammar.regular.table_dfa import minimal

UNICODE = f"unicodedata {unicodedata.unidata_version}, idna {idna.__version__}"


def made(name: str) -> npt.NDArray[np.int32]:
    """What the file holds for a format: the bounds on the length of its texts (-1: none), and its table."""
    language = derived(name)
    high = -1 if language.high is None else language.high
    return np.concatenate([np.array([language.low, high], np.int32), minimal(language.dfa).packed()])


def kept() -> dict[str, npt.NDArray[np.int32]]:
    """What the file holds now, by format, and what `idn-hostname` was made with as "unicode"."""
    with np.load(TABLES, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def main() -> None:
    known = sorted(filter(tabled, FORMATS))
    wanted = sys.argv[1:] or known
    found = kept() if sys.argv[1:] else {}
    for name in wanted:
        found[name] = made(name)
        print(name, len(found[name]))
    if "idn-hostname" in wanted:
        found["unicode"] = np.array(UNICODE)
    np.savez_compressed(TABLES, allow_pickle=False, **found)
    print(f"{TABLES}: {TABLES.stat().st_size} bytes")


if __name__ == "__main__":
    main()
