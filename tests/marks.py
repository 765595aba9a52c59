"""Which tests a machine cannot run."""

import os

import pytest

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="binding needs two logical CPUs"
)
