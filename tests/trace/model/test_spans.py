import pytest

from tests.trace.record.recordings import client_span
from tuner.trace.model.spans import CallName, call_name, read_call_name


@pytest.mark.parametrize(
    ("name", "parts", "body"),
    [
        (
            "rpc_async#udf(worker0 -> worker1)",
            CallName(kind="rpc_async", function="udf", client="worker0", server="worker1"),
            "python",
        ),
        (
            "rpc_sync#aten::add(a:1 -> b-2)",
            CallName(kind="rpc_sync", function="aten::add", client="a:1", server="b-2"),
            "builtin",
        ),
        (
            "rpc_remote#__torch__.model.forward(a -> b)",
            CallName(kind="rpc_remote", function="__torch__.model.forward", client="a", server="b"),
            "script",
        ),
        (
            "rpc_sync#outer.<locals>.f(x)(a -> b)",
            CallName(kind="rpc_sync", function="outer.<locals>.f(x)", client="a", server="b"),
            "python",
        ),
        (
            "to_here#(worker0)->(worker1)",
            CallName(kind="to_here", function="", client="worker0", server="worker1"),
            "fetch",
        ),
    ],
)
def test_reads_the_names_that_pytorch_gives_calls(name: str, parts: CallName, body: str) -> None:
    assert read_call_name(name) == parts
    assert parts.body == body


@pytest.mark.parametrize(
    "name",
    [
        "",
        "aten::mul",
        "rpc_sync#f",
        "rpc_sync#(a -> b)",
        "rpc_sync#f(a -> b) more",
        "my rpc_sync#f(a -> b)",
        "rpc_other#f(a -> b)",
        "rpc_sync#f(a->b)",
        "to_here#(a)",
        "rpc_sync#f(a -> b)#remote_op: aten::mul",
    ],
)
def test_other_names_are_not_read(name: str) -> None:
    assert read_call_name(name) is None


@pytest.mark.parametrize(
    ("kind", "function", "name"),
    [
        ("rpc_sync", "Adder.add", "rpc_sync#Adder.add(worker0 -> worker1)"),
        ("rpc_async", "aten::add", "rpc_async#aten::add(worker0 -> worker1)"),
        ("rpc_remote", "__torch__.m.f", "rpc_remote#__torch__.m.f(worker0 -> worker1)"),
        ("to_here", "", "to_here#(worker0)->(worker1)"),
    ],
)
def test_writes_the_names_that_pytorch_gives_calls(kind: str, function: str, name: str) -> None:
    assert call_name(client_span(1, kind=kind, function=function), "worker0") == name
