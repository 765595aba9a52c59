"""Plans, flags and options: read, or refused with every mistake named."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import strategies as st

from testing.specs import workload_spec
from tests.fake_program import FakeProgramLauncher
from tests.fuzz.fuzzing import TEXTS, fuzz, mangled, mutated, survives
from tuner import search
from tuner.errors import UsageError
from tuner.json_text import json_of, visible_json
from tuner.plan.draft import draft_plan, plan_mapping, read_plan_file, shipped_plan_path
from tuner.plan.keys import PLAN_KEYS
from tuner.plan.study_plan import StudyPlan
from workloads.options import options_of, read_options
from workloads.registry import SHIPPED

pytestmark = pytest.mark.thorough


WORKLOAD: dict[str, Any] = {
    "format": 2,
    "name": "mine",
    "workload": "udf",
    "options": {"size": 100, "calls": 4},
    "space": {
        "num_worker_threads": "1..8", "caller.num_worker_threads": [1, 2],
        "transports": ["shm", "uv", "shm+uv"], "channels": "cma,basic", "rpc_timeout": [5, 9.5],
        "server": {"intra_op_threads": [1, 2]},
    },
    "baseline": {"num_worker_threads": 16, "transports": "shm+uv"},
    "objective": "step_ms,cpu_ms_per_step",
    "require": ["peak_rss_mb<=2000"],
    "budget": "auto:5m", "max_blocks": 10, "epsilon": "3%", "confidence": 0.95, "min_time": "0.3s",
    "deadline": "30s", "sampler": "grid", "seed": 3, "storage": "sqlite:///a.db", "out": "a",
}  # fmt: skip
PROGRAM: dict[str, Any] = {
    "program": ["python", "main.py", "--world-size", "3"],
    "roles": {"agent": "agent", "observer": "observer.*"},
    "expect": "done", "metric": "loss=loss: ([0-9.]+)", "maximize": True,
    "window": "10s", "warm_up": "5s", "cold": True,
    "space": {"num_worker_threads": [1, 2, 4], "agent.num_worker_threads": "1..8:1"},
}  # fmt: skip
ON_HOSTS = {
    "workload": "udf", "launcher": "ray", "ray_address": "10.0.0.1:6379", "interface": "eth1",
    "place": {"server": "1,cpus=2", "caller": {"hosts": "spread", "gpus": 1}},
}  # fmt: skip
ISOLATED = {"workload": "udf", "isolation": False}
PROGRAMS = {"programs": [["python", "a.py"], "python b.py"], "space": {"num_worker_threads": 4}}
PIECES = [
    *("1", "32", "..", ":", ",", "+", "=", ".", "%", "s", "m", "h", "auto", "shm", "uv", "default"),
    *("num_worker_threads", "transports", "agent", "server", "*", "-", "/", "<=", ">=", "cuda:0"),
    *("peak_rss_mb", "step_ms", " ", "(", ")", "[0-9]", '"', "'", *TEXTS),
]
WORDS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(st.characters())


def planned(mapping: Any) -> None:
    """What a search does with a plan before its first world."""
    if not isinstance(mapping, dict):
        return
    draft = draft_plan(mapping)
    visible_json(list(draft.problems))
    program = FakeProgramLauncher(lambda config: 1.0)
    plan = draft.finish(program.subject_of(draft) if draft.program else workload_spec())
    document = json.loads(json.dumps(plan.to_json()))
    assert StudyPlan.from_json(document).fingerprint() == plan.fingerprint()
    assert 0 < plan.measuring.budget_s < 1e9
    assert plan.candidates()
    assert plan.measuring.limit


def test_mappings() -> None:
    fuzz(
        mutated([WORKLOAD, PROGRAM, PROGRAMS, ON_HOSTS, ISOLATED]),
        lambda each: survives(lambda: planned(each)),
        300,
    )


def test_toml_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    shipped = [plan for name in SHIPPED if (plan := shipped_plan_path(name))]
    texts = [tomli_w.dumps(WORKLOAD).encode(), tomli_w.dumps(PROGRAM).encode()]
    texts += [each.read_bytes() for each in shipped]

    def check(text: bytes) -> None:
        path.write_bytes(text)
        survives(lambda: planned(read_plan_file(path)))

    tokens = (b"= inf", b"nan", b"1e300", b"1979-05-27", b"[[a]]", b"{}", b"[", b'"""', b"\\u0000")
    fuzz(st.binary() | mangled(texts, tokens), check, 150)


def test_options_of_workloads() -> None:
    from workloads.udf import Udf

    names = st.sampled_from(sorted(options_of(Udf)[0])) | WORDS

    def check(given: dict[str, Any]) -> None:
        values, problems = read_options(Udf, given)
        UsageError.about("the workload", problems or ["none"])
        if not problems:
            json_of(values)

    values = WORDS | st.integers() | st.floats() | st.none() | st.lists(st.integers(), max_size=2)
    fuzz(st.dictionaries(names, values, max_size=3), check, 200)


FLAGS = {
    *re.findall(r"--[a-z-]+", Path(search.__file__).read_text()),
    *(key.flag for key in PLAN_KEYS.values()),
    "--no-such-flag",
} - {"--help"}
TOKEN = st.sampled_from([*sorted(FLAGS), "--", "-", "-x", "--=", "udf"])


def test_flags_of_a_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The search reads its plan and starts nothing."""
    made: list[Any] = []

    def plan(as_json: bool, **asked: Any) -> None:
        del as_json
        program, beside = asked.pop("program"), asked.pop("beside")
        file, workload = asked.pop("plan"), asked.pop("workload")
        for other in ("show", "resume", "overwrite", "quiet", "log"):
            asked.pop(other, None)
        programs = None if program is None else [program, *beside]
        made.append(plan_mapping(file, workload, {"programs": programs, **asked}))
        planned(made[-1])

    def check(words: list[str]) -> None:
        assert search.main(["--workload", "udf", *words]) in (0, 1, 2, 3, 4, 130)

    monkeypatch.chdir(tmp_path)
    for name in ("_answer", "_dry_run"):
        monkeypatch.setattr(search, name, plan)
    for name in ("_list_workloads", "_check"):
        monkeypatch.setattr(search, name, lambda *arguments: 0)
    fuzz(st.lists(TOKEN | WORDS, max_size=8), check, 120)
    assert made
