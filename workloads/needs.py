"""What shipped workloads need that is an extra: said before anything of them is imported."""

from importlib.util import find_spec

GYMNASIUM = "it needs Gymnasium: pip install 'rpc-tuner[cartpole]'"

_PACKAGES = {"cartpole": ("gymnasium", GYMNASIUM)}


def missing_packages(workload: str) -> list[str]:
    """Why a shipped workload cannot run here, a sentence each; empty if it can."""
    package, sentence = _PACKAGES.get(workload, ("", ""))
    return [sentence] if package and find_spec(package) is None else []
