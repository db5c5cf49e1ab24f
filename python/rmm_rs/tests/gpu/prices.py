"""Prices of RMM's package and ours in turn, each pass in a process of its own:

`prices.py OUT [--packages rmm,rmm_rs] [--passes 3]`.

Writes OUT/prices.json and OUT/prices.md: for each row the least and the median over the passes. The
exit status is 1 if a pass failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

Rows = dict[str, dict[str, Any]]


def one_pass(package: str, arguments: list[str], limit: float) -> Rows:
    """The rows of one process; a row with the error if it fails."""
    command = [sys.executable, str(HERE / "price.py"), package, *arguments]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"process | | |": {"error": f"it ran for more than {limit:.0f} s"}}
    rows: Rows = {}
    with contextlib.suppress(IndexError, ValueError):
        rows = json.loads(done.stdout.splitlines()[-1])
    if done.returncode:
        rows["process | | |"] = {"error": f"exit status {done.returncode}"}
    return rows


def merged(passes: list[Rows]) -> Rows:
    """The least of the least, and the median of the medians; an error if there was one."""
    rows: Rows = {}
    for key in dict.fromkeys(key for rows_of in passes for key in rows_of):
        found = [rows_of[key] for rows_of in passes if key in rows_of]
        errors = [row["error"] for row in found if "error" in row]
        good = [row for row in found if "error" not in row]
        rows[key] = (
            {"error": errors[0]}
            if errors
            else {
                "least": min(row["least"] for row in good),
                "median": statistics.median(row["median"] for row in good),
            }
        )
    return rows


def shown(nanoseconds: float) -> str:
    return f"{nanoseconds:,.0f}" if nanoseconds < 1e5 else f"{nanoseconds / 1e3:,.0f} µs"


def table(peer: str, own: str, results: dict[str, Rows]) -> str:
    """Markdown: a table for each operation, with the peer's time over ours."""
    lines: list[str] = []
    operation = ""
    slower: list[str] = []
    keys = list(dict.fromkeys([*results[peer], *results[own]]))
    operations = list(dict.fromkeys(key.split("|")[0] for key in keys))
    for key in sorted(keys, key=lambda key: operations.index(key.split("|")[0])):
        first, resource, stream, threads = (part.strip() for part in key.split("|"))
        if first != operation:
            operation = first
            lines += ["", f"## {operation}", ""]
            heads = ["resource", "stream", "threads", peer, "median", own, "median", "ratio"]
            lines.append(f"| {' | '.join([*heads, 'of medians'])} |")
            lines += ["|---|---|---|---|---|---|---|---|---|"]
        theirs, ours = results[peer].get(key, {}), results[own].get(key, {})
        if "least" not in theirs or "least" not in ours:
            errors = [
                f"{name}: {row.get('error', 'no row')}"
                for name, row in ((peer, theirs), (own, ours))
                if "least" not in row
            ]
            lines.append(f"| {resource} | {stream} | {threads} | {'; '.join(errors)} | | | | | |")
            continue
        ratios = [theirs[which] / ours[which] for which in ("least", "median")]
        cells = [shown(row[which]) for row in (theirs, ours) for which in ("least", "median")]
        cells += [f"{ratio:.2f}" for ratio in ratios]
        lines.append(f"| {resource} | {stream} | {threads} | {' | '.join(cells)} |")
        if max(ratios) < 0.98:
            slower.append(
                f"{operation}, {resource}, {stream} stream, {threads} threads: {ratios[0]:.2f}"
            )
    lines += ["", f"Slower than {peer} in least and median: {'; '.join(slower) or 'none'}."]
    return "\n".join(lines).strip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", default="rmm,rmm_rs", help="the peer, and ours")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=120, help="seconds: begins no pass after that"
    )
    parser.add_argument("--milliseconds", default="15")
    parser.add_argument("--libraries", default="cupy,torch")
    arguments = parser.parse_args()
    peer, own = arguments.packages.split(",")
    # The same package twice shows how much of a difference is chance.
    names = (peer, own) if peer != own else (f"{peer} (first)", f"{own} (second)")
    passes: dict[str, list[Rows]] = {name: [] for name in names}
    begin = time.monotonic()
    taken = 0.0
    for number in range(arguments.passes):
        if number and time.monotonic() - begin + taken > arguments.limit:
            break
        started = time.monotonic()
        # The first of a pass is the second of the next one.
        order = list(zip(names, (peer, own), strict=True))
        for name, package in order if number % 2 == 0 else order[::-1]:
            rest = arguments.limit - (time.monotonic() - begin)
            length = ["--milliseconds", arguments.milliseconds]
            options = [*length, "--libraries", arguments.libraries]
            passes[name].append(one_pass(package, options, max(rest, 20)))
            print(f"pass {number + 1}, {name}: {time.monotonic() - started:.1f} s", flush=True)
        taken = time.monotonic() - started
    results = {name: merged(found) for name, found in passes.items()}
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"passes": passes, "merged": results, "cores": os.cpu_count()}, indent=1)
    (arguments.out / "prices.json").write_text(text)
    shown_table = table(names[0], names[1], results)
    (arguments.out / "prices.md").write_text(shown_table)
    print(shown_table)
    return int(any("error" in row for rows in results.values() for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
