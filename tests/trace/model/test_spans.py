from typing import Any

import pytest

from tests.trace.record.recordings import client_span
from tuner.trace.model.spans import call_name, read_call_name


@pytest.mark.parametrize(
    ("name", "parts", "body"),
    [
        ("rpc_async#udf(worker0 -> worker1)", ("rpc_async", "udf", "worker0", "worker1"), "python"),
        ("rpc_sync#aten::add(a:1 -> b-2)", ("rpc_sync", "aten::add", "a:1", "b-2"), "builtin"),
        ("rpc_remote#__torch__.m.f(a -> b)", ("rpc_remote", "__torch__.m.f", "a", "b"), "script"),
        ("rpc_sync#o.<locals>.f(x)(a -> b)", ("rpc_sync", "o.<locals>.f(x)", "a", "b"), "python"),
        ("to_here#(worker0)->(worker1)", ("to_here", "", "worker0", "worker1"), "fetch"),
    ],
)
def test_reads_the_names_that_pytorch_gives_calls(name: str, parts: Any, body: str) -> None:
    found = read_call_name(name)
    assert found == parts
    assert found
    assert found.body == body
    span = client_span(1, kind=found.kind, function=found.function)._replace(server=found.server)
    assert call_name(span, found.client) == name


@pytest.mark.parametrize(
    "name",
    ["", "aten::mul", "rpc_sync#f", "rpc_sync#(a -> b)", "rpc_sync#f(a -> b) more",
     "my rpc_sync#f(a -> b)", "rpc_other#f(a -> b)", "rpc_sync#f(a->b)", "to_here#(a)",
     "rpc_sync#f(a -> b)#remote_op: aten::mul"],
)  # fmt: skip
def test_other_names_are_not_read(name: str) -> None:
    assert read_call_name(name) is None
