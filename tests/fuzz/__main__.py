"""`python -m tests.fuzz`: spoiled logs of every framework, and files of odd shapes, through the whole monitor.

Nothing may raise or hang.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.corpus import runs
from tests.fuzz.shapes import made
from tests.fuzz.trial import Trial

HANGS_AFTER = 60
"""Seconds after which one trial counts as hung; the process then ends with a traceback."""


def main() -> int:
    """Run trials until the time or the records are spent; 1 where one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--records", type=int, help="until so many records were mutated or mutated beside")
    parser.add_argument("--seed", type=int, default=0, help="the first trial's number (default: 0)")
    parser.add_argument("--only", help="runs of the corpus whose names hold this")
    parser.add_argument("--keep", type=Path, help="where the inputs of failed trials are kept")
    options = parser.parse_args()
    corpus = [(name, run) for name, run in runs() if not options.only or options.only in name]
    begin = time.perf_counter()
    number = records = failed = 0
    while failed < 10:
        spent = time.perf_counter() - begin
        if records >= options.records if options.records else spent >= options.seconds:
            break
        seed = options.seed + number
        if seed % 4 or options.only:
            name, run = corpus[seed % len(corpus)]
            trial = Trial(name, run, seed)
        else:
            name, run = made(seed)
            trial = Trial(name, run, seed, accident=seed % 8 == 0)
        with tempfile.TemporaryDirectory(prefix="grpo-top-fuzz-") as folder:
            faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
            error = trial.run(Path(folder))
            faulthandler.cancel_dump_traceback_later()
            if error is not None:
                failed += 1
                sys.stdout.write(f"seed {seed}, {name}: {error}\n")
                if options.keep:
                    trial.write(options.keep / str(seed))
        number += 1
        records += trial.records
    seconds = time.perf_counter() - begin
    sys.stdout.write(f"{number:,} trials, {records:,} records, {failed} failed, {seconds:.0f} s\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
