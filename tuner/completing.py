"""What a shell completes behind a flag or a command: the names that can stand there."""

from collections.abc import Callable, Iterable

Completion = Callable[[str], list[str]]
"""The names that begin with what is typed."""


def one_of(names: Iterable[str]) -> Completion:
    """Completes to one of these names."""
    known = list(names)
    return _one_of_these(lambda: known)


def _one_of_these(names: Callable[[], Iterable[str]]) -> Completion:
    """Completes to one of the names that there are then: what --help need not import."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _workloads() -> Iterable[str]:
    from tuner.workloads_package import own_workloads

    own_workloads()
    from workloads.registry import SHIPPED

    return SHIPPED


def _studies() -> Iterable[str]:
    from tuner.study.folder import STUDIES, studies_in

    return (folder.name for folder in studies_in(STUDIES))


workload = _one_of_these(_workloads)
"""The name of a shipped workload."""
study = _one_of_these(_studies)
"""The name of a study in the folder `studies`."""
