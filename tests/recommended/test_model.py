"""The model of recommended.json and its schema say the same."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tuner.recommended
from tests.plan.specs import threads, workload_spec
from tests.recommended.documents import AGENT, BY_ROLE, OF_EVERY_KNOB, document, recommendation
from tuner.plan.config import Config
from tuner.recommended.model import Recommendation, json_schema

SCHEMA = Path(tuner.recommended.__file__).with_name("recommended.schema.json")


def test_the_schema_in_the_package_is_that_of_the_model() -> None:
    written = json.dumps(json_schema(), indent=2) + "\n"
    assert SCHEMA.read_text() == written, "write json_schema() to it again, and change FORMAT?"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    "each",
    [
        recommendation(threads(4)),
        recommendation(OF_EVERY_KNOB, workload_spec(cuda_devices=2)),
        recommendation(BY_ROLE, AGENT),
        recommendation(threads(16), verdict="undecided", speedup=None, challenger=None,
                       challenger_speedup=None),
    ],
)  # fmt: skip
def test_what_is_written_follows_the_schema_and_is_read_back(each: Recommendation) -> None:
    written = each.model_dump_json()
    jsonschema.validate(json.loads(written), json_schema())
    assert Recommendation.model_validate_json(written, strict=True) == each


def test_a_file_without_the_topology_is_read() -> None:
    older = document()
    for key in ("numa_nodes", "threads_per_core"):
        del older["environment"][key]
    found = Recommendation.model_validate_json(json.dumps(older), strict=True)
    assert (found.environment.numa_nodes, found.environment.threads_per_core) == (None, None)


def test_every_role_gets_what_the_configs_say() -> None:
    found = recommendation(BY_ROLE, AGENT)
    assert found.roles == ("agent", "observer")
    assert found.values_of("agent") == {
        "num_worker_threads": 2, "transports": ("uv", "shm"), "channels": ("basic", "cma"),
        "rpc_timeout": 9.5, "devices": None, "intra_op_threads": 1,
    }  # fmt: skip
    assert found.values_of("observer")["num_worker_threads"] == 8
    assert found.values_of("observer")["intra_op_threads"] == 2


def test_the_date_has_a_time_zone() -> None:
    found = recommendation(threads(4))
    assert found.environment.date == datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


WRONG: list[tuple[tuple[str | int, ...], Any]] = [
    (("config",), None),
    (("config",), []),
    (("config", "*"), 8),
    (("config", "*", "num_worker_threads"), 0),
    (("config", "*", "num_worker_threads"), 4097),
    (("config", "*", "num_worker_threads"), "8"),
    (("config", "*", "num_worker_threads"), 2.5),
    (("config", "*", "num_worker_threads"), True),
    (("config", "*", "num_worker_threads"), None),
    (("config", "*", "num_worker_thread"), 8),
    (("config", "*", "transports"), "shm"),
    (("config", "*", "transports"), []),
    (("config", "*", "transports"), ["smoke"]),
    (("config", "*", "transports"), ["uv", "uv"]),
    (("config", "*", "channels"), 3),
    (("config", "*", "rpc_timeout"), 0),
    (("config", "*", "rpc_timeout"), "60"),
    (("config", "*", "rpc_timeout"), False),
    (("config", "*", "devices"), ["0"]),
    (("config", "*", "device_maps"), {}),
    (("config", "*", "device_maps"), {"worker1": {}}),
    (("config", "*", "device_maps"), {"worker1": {"0": "1"}}),
    (("config", "*", "device_maps"), "worker1:0-1"),
    (("config", "*", "cpu_binding"), "equals"),
    (("config", "*", "cpu_binding"), 2),
    (("config", "*", "switch_interval"), "1ms"),
    (("config", "*", "switch_interval"), 0),
    (("config", "*", "switch_interval"), 1.5),
    (("baseline", "*", "num_worker_threads"), -1),
    (("challenger", "config", "*", "num_worker_threads"), -1),
    (("format",), "2"),
    (("trial",), -1),
    (("trial",), "1"),
    (("verdict",), "best"),
    (("speedup",), None),
    (("speedup", "estimate"), "1.5"),
    (("speedup", "median"), 1.5),
    (("measured", "worlds"), 2.5),
    (("objective",), "step_s"),
    (("confidence",), 95),
    (("ranks",), []),
    (("ranks", 0, "name"), 0),
    (("ranks", 0, "host"), "here"),
    (("environment", "cpu_count"), "2"),
    (("environment", "torch"), None),
    (("environment", "numa_nodes"), "1"),
    (("environment", "options", "calls"), [4]),
    (("environment", "intra_op_threads", "agent"), 0),
    (("environment", "date"), "yesterday"),
    (("colour",), "blue"),
]


@pytest.mark.parametrize(("place", "value"), WRONG, ids=str)
def test_what_the_schema_refuses_the_model_refuses(
    place: tuple[str | int, ...], value: Any
) -> None:
    damaged = document(OF_EVERY_KNOB, workload_spec("agent", "observer"))
    holder: Any = damaged
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    validator = jsonschema.Draft202012Validator(
        json_schema(), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    if place != ("environment", "date"):  # jsonschema alone knows no dates
        assert not validator.is_valid(damaged)
    with pytest.raises(ValueError, match="Recommendation"):
        Recommendation.model_validate_json(json.dumps(damaged), strict=True)


@pytest.mark.parametrize("key", sorted(set(document()) - {"verdict", "speedup", "challenger"}))
def test_a_missing_key_is_refused(key: str) -> None:
    damaged = document()
    del damaged[key]
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(damaged)
    with pytest.raises(ValueError, match="Field required"):
        Recommendation.model_validate_json(json.dumps(damaged), strict=True)


def test_configs_of_a_role_that_is_not_there_are_refused() -> None:
    config = Config.from_json({"agnet": {"num_worker_threads": 2}})
    with pytest.raises(ValueError, match="unknown role 'agnet'; did you mean agent"):
        recommendation(config, AGENT)


@pytest.mark.parametrize("place", ["baseline", "challenger"])
def test_a_role_that_is_not_there_is_refused_everywhere(place: str) -> None:
    document = recommendation(threads(4)).model_dump(mode="json")
    wrong = {"nobody": {"num_worker_threads": 4}}
    document[place] = wrong if place == "baseline" else {"config": wrong}
    key = place if place == "baseline" else "challenger.config"
    with pytest.raises(ValueError, match=f"{key}: unknown role 'nobody'"):
        Recommendation.model_validate(document)


def test_a_rank_that_is_named_twice_is_refused() -> None:
    document = recommendation(threads(4)).model_dump(mode="json")
    document["ranks"] = [document["ranks"][0], *document["ranks"]]
    with pytest.raises(ValueError, match="'worker0' is named twice"):
        Recommendation.model_validate(document)
