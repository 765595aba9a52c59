"""A channel over a socket: its messages come whole, without blocking, or with descriptors."""

import os
import socket
from collections.abc import Iterator

import pytest

from tuner.world.socket_channel import SocketChannel

Both = tuple[SocketChannel, socket.socket]


@pytest.fixture
def both() -> Iterator[Both]:
    channel, theirs = SocketChannel.pair()
    yield channel, theirs
    channel.close()
    theirs.close()


def test_messages_come_whole_and_in_order_up_to_the_end_without_blocking(both: Both) -> None:
    channel, theirs = both
    assert channel.messages() == []
    whole = b"[" + b"1," * 49_000 + b"1]\n"
    theirs.sendall(b'{"kind": "phase"}\n' + whole[:50_000])
    assert channel.messages() == [{"kind": "phase"}]
    theirs.sendall(whole[50_000:])
    theirs.close()
    assert [*channel.messages(), *channel.messages()] == [[1] * 49_001]
    assert not channel.is_open


@pytest.mark.parametrize("garbage", [b"\xff" * 8 + b"\n", b"{}\n{\n", b"2\n" + b'"1234567890'])
def test_what_is_no_message_or_too_long_closes_the_channel(both: Both, garbage: bytes) -> None:
    ours, theirs = both
    channel = SocketChannel(ours.connection, most_bytes=10)
    theirs.sendall(garbage)
    assert channel.messages() in ([], [{}], [2])
    assert not channel.is_open


def test_an_answer_is_awaited_for_so_long(both: Both) -> None:
    channel, theirs = both
    with pytest.raises(TimeoutError):
        channel.awaited(0.05)
    theirs.sendall(b"1\n2\n3\n")
    assert channel.awaited(60.0) == 1
    assert channel.messages() == [2, 3]
    theirs.sendall(b"4\n5\n")
    theirs.close()
    assert [channel.awaited(0.0), channel.awaited(0.0)] == [4, 5]
    with pytest.raises(EOFError):
        channel.awaited(60.0)


def test_descriptors_come_with_their_message() -> None:
    ours, theirs = map(SocketChannel, socket.socketpair())
    read, write = os.pipe()
    ours.send({"name": "\udc80"})
    assert theirs.receive() == ({"name": "\udc80"}, [])
    ours.send([1], [write])
    ours.send([2], [write])
    ours.connection.sendall(b"3\n4\n{")
    for number in (1, 2):
        message, (descriptor,) = theirs.receive()
        assert message == [number]
        assert not os.get_inheritable(descriptor)
        os.write(descriptor, b"%d" % number)
        os.close(descriptor)
    assert [theirs.receive(), theirs.receive()] == [(3, []), (4, [])]
    socket.send_fds(ours.connection, [b"{"], [write])
    ours.close()
    os.close(write)
    with pytest.raises(EOFError):
        theirs.receive()
    theirs.close()
    assert os.read(read, 3) == b"12"
    assert os.read(read, 1) == b""
    os.close(read)


def test_an_end_of_a_pair_never_waits_for_a_reader(both: Both) -> None:
    channel, _ = both
    with pytest.raises(BlockingIOError):
        channel.send("x" * (1 << 24))
