"""The guard of the unit tests: it keeps them from the network, and leaves no trace."""

import _socket
import inspect
import socket

import pytest
from pytest_socket import SocketConnectBlockedError


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_a_unit_test_reaches_no_host() -> None:
    with socket.socket() as client, pytest.raises(SocketConnectBlockedError):
        client.connect(("127.0.0.1", 9))


def test_modules_imported_meanwhile_keep_the_real_class() -> None:
    """An event loop imported during a unit test once kept a guarded class for the whole run."""
    assert inspect.getmro(socket.socket)[1] is _socket.socket
