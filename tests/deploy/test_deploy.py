"""The files that start a cluster elsewhere: as far as they can be checked without one."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml  # type: ignore[import-untyped]

from testing.known import known
from tuner.plan.draft import draft_plan
from tuner.plan.launching import read_launching
from workloads.registry import SHIPPED

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_cluster_is_as_rays_schema_has_it() -> None:
    cluster = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text())
    schema = Path(ray.__file__).with_name("autoscaler") / "ray-schema.json"
    jsonschema.validate(cluster, json.loads(schema.read_text()))
    assert len(cluster["provider"]["worker_ips"]) == cluster["max_workers"]
    # Ray's ports are not those where ranks meet.
    for starts in ("head", "worker"):
        assert "--max-worker-port 19999" in cluster[f"{starts}_start_ray_commands"][-1]


def test_the_job_runs_a_search_on_workers_of_a_host_each() -> None:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    found = {document["kind"]: document for document in documents}
    assert set(found) == {"PersistentVolumeClaim", "RayJob", "NetworkPolicy"}
    cluster = found["RayJob"]["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    (rule,) = workers["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert rule["labelSelector"]["matchLabels"] == {"ray.io/group": workers["groupName"]}
    claim = found["PersistentVolumeClaim"]["metadata"]["name"]
    (volume,) = cluster["headGroupSpec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim


@pytest.mark.parametrize("name", ["ray-cluster.yaml", "kubernetes.yaml"])
def test_the_search_is_one_that_the_command_takes(name: str) -> None:
    command = r"rpc-tuner search [^'\n]*(?:\n\s+--[^'\n]*)*"
    found = known(re.search(command, (DEPLOY / name).read_text()))
    pairs = list(pairwise(shlex.split(found.group())))
    flags = dict(pairs)
    assert flags["--workload"] in SHIPPED
    place = [tuple(value.split("=", 1)) for flag, value in pairs if flag == "--place"]
    launching, mistakes = read_launching({"launcher": flags["--launcher"], "place": place})
    assert not mistakes
    assert launching.mistakes(["server", "trainer"]) == []
    assert draft_plan({"workload": flags["--workload"], **launching.keys()}).problems == ()


def test_the_image_copies_what_is_there_and_does_not_run_as_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    instructions = [line.split() for line in lines if re.match("[A-Z]+ ", line)]
    name, image, *_ = instructions[0]
    assert name == "FROM"
    assert not image.endswith(":latest")
    copied = [word for name, *words in instructions if name == "COPY" for word in words[:-1]]
    assert all((DEPLOY.parent / each).exists() for each in copied)
    *_, user = (user for name, user, *_ in instructions if name == "USER")
    assert user != "root"
