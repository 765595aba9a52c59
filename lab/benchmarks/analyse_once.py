"""One side of the benchmark of trace analysis, once: `analyse_once.py SIDE TRACE`.

Prints, as JSON, the seconds that it took without imports, and the process's peak memory in MB. Each
side imports only its own packages, since they are not all installed in one environment.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def ours(path: Path) -> Callable[[], object]:
    """Read, build the frames, parallelism, tables."""
    from tuner.trace.analyze.call_times import latency
    from tuner.trace.analyze.recipe_table import recipe_table
    from tuner.trace.analyze.server_parallelism import parallelism
    from tuner.trace.files.reader import read_traces

    def analyse() -> object:
        trace = read_traces([path])
        at_work = parallelism(trace, "operators")
        assert at_work["max"].tolist() == [8], at_work
        return at_work, recipe_table(trace), latency(trace.calls)

    return analyse


def parse(path: Path) -> Callable[[], object]:
    """Parse the JSON."""
    decode = import_module("msgspec").json.decode
    return lambda: decode(path.read_bytes())


def hta(path: Path) -> Callable[[], object]:
    """HolisticTraceAnalysis: parse with its defaults, but without its pool of processes."""
    parse = import_module("hta.common.trace_parser").parse_trace_dataframe
    config = import_module("hta.configs.parser_config").ParserConfig.get_default_cfg()
    return lambda: parse(str(path), config)


def peak_memory_mb() -> float:
    """The most memory that this process held, without that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak_kb,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak_kb) / 1e3


def main(side: str, path: Path) -> None:
    run = {"ours": ours, "parse": parse, "hta": hta}[side](path)
    started_s = time.perf_counter()
    found = run()
    wall_s = time.perf_counter() - started_s
    del found
    print(json.dumps([wall_s, peak_memory_mb()]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
