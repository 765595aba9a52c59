"""What to say where one of our dependencies is not installed. Standard library only."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires

from tuner.errors import MissingPackageError

_REQUIREMENT = re.compile(r"([\w.-]+)(?:.*extra == ['\"]([\w-]+)['\"])?")
_NOT_FOR_USERS = ("dev", "docs")


@contextmanager
def telling_what_is_missing() -> Iterator[None]:
    """Within the block, a dependency that cannot be imported is a MissingPackageError."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extras = _extras_of(package)
        if extras is None:
            raise
        what = f"rpc-tuner[{extras[0]}]" if extras else "rpc-tuner"
        raise MissingPackageError(
            f"{package} is not installed here: install it with python -m pip install '{what}', "
            "or do this where it is (a rank of a program needs torch alone)"
        ) from error


def _extras_of(package: str) -> list[str] | None:
    """The extras that bring it, none where every installation has it; None if it is not ours."""
    try:
        requirements = requires("rpc-tuner") or []
    except PackageNotFoundError:
        return None
    found = [_REQUIREMENT.match(each) for each in requirements]
    extras = [
        match[2] for match in found if match and re.sub(r"[-.]", "_", match[1].lower()) == package
    ]
    if not extras:
        return None
    if None in extras:
        return []
    return [extra for extra in extras if extra not in _NOT_FOR_USERS] or None
