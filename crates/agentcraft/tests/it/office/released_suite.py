"""Points the released SDK's own tests at our server: wherever they start the SDK's, ours is started as a process.

A plugin of pytest. AGENTCRAFT_PROGRAM is our program, AGENTCRAFT_TOKENS a file of tokens whose only one is TOKEN. Servers that
are not the SDK's real one (mocks, other versions, other namespaces) stay what they are.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess

import pytest
import socketio
import werkzeug.serving

import a2c_smcp.testing
import a2c_smcp.testing.server as released
from a2c_smcp import PROTOCOL_VERSION
from a2c_smcp.server import SMCPNamespace, SyncSMCPNamespace

PROGRAM = os.environ["AGENTCRAFT_PROGRAM"]
TOKENS = os.environ["AGENTCRAFT_TOKENS"]
TOKEN = "token-of-the-released-suite"
NAMESPACES = (SMCPNamespace, SyncSMCPNamespace)


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Office:
    """One of our servers, at a port of the test's choosing."""

    def __init__(self, port):
        command = [PROGRAM, "office", "serve", "--listen", f"127.0.0.1:{port}", "--token-file", TOKENS]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=end_with_parent
        )
        said = self.process.stdout.readline()
        if not said.startswith("office server at "):
            raise RuntimeError(f"our server says {said!r}")

    def end(self):
        self.process.kill()
        self.process.wait()


def is_real(app):
    """Whether an application is the SDK's own server, in the version that is released."""
    version = getattr(app, "_server", None)
    if version is not None and str(version) != PROTOCOL_VERSION:
        return False
    app = getattr(app, "app", app)
    server = getattr(app, "engineio_server", None) or getattr(app, "engineio_app", None)
    handlers = getattr(server, "namespace_handlers", {})
    return list(handlers) == ["/smcp"] and isinstance(handlers["/smcp"], NAMESPACES)


class UvicornTestServer(released.UvicornTestServer):
    def __init__(self, app=None, host="127.0.0.1", port=8000):
        self._office, self._port = None, port if is_real(app) else None
        if self._port is None:
            super().__init__(app, host, port)

    async def up(self):
        if self._port is None:
            return await super().up()
        self._office = await asyncio.to_thread(Office, self._port)

    async def down(self, force=False):
        if self._port is None:
            return await super().down(force)
        if self._office is not None:
            self._office.end()


class WsgiOffice:
    def __init__(self, port):
        self.office = Office(port)

    def serve_forever(self, *_):
        self.office.process.wait()

    def shutdown(self):
        self.office.end()

    def server_close(self):
        self.office.end()


make_server = werkzeug.serving.make_server


def make_server_or_office(host, port, app, *arguments, **options):
    return WsgiOffice(port) if is_real(app) else make_server(host, port, app, *arguments, **options)


@contextlib.contextmanager
def run_http_server():
    port = released.pick_free_port()
    office = Office(port)
    try:
        yield "127.0.0.1", port
    finally:
        office.end()


def as_guest(connect):
    """Members say their version, as the SDK's own do, and show a token."""

    def connecting(self, url, *arguments, **options):
        if "a2c_version=" not in url:
            url += f"{'&' if '?' in url else '?'}a2c_version={PROTOCOL_VERSION}"
        auth = options.get("auth")
        if auth is None or isinstance(auth, dict):
            options["auth"] = {"token": TOKEN, **(auth or {})}
        return connect(self, url, *arguments, **options)

    return connecting


for client in (socketio.Client, socketio.AsyncClient):
    client.connect = as_guest(client.connect)
werkzeug.serving.make_server = make_server_or_office
for module in (released, a2c_smcp.testing):
    module.UvicornTestServer = UvicornTestServer
    module.run_http_server = run_http_server


# Tests that look into the server they have started, which is another process here.
INSIDE = {
    "test_aget_computers_and_sessions",
    "test_auth_provider_token_rotation_on_auto_reconnect",
    "test_auth_provider_transient_failure_self_heals",
    "test_computer_handles_get_config",
    "test_computer_handles_get_tools_request",
    "test_computer_handles_tool_call_timeout",
    "test_computer_join_and_leave_office",
    "test_computer_receives_tool_call",
    "test_computer_sends_update_mcp_config",
    "test_get_config_cross_office_rejected",
    "test_get_config_success_same_office",
    "test_get_resources_cross_office_rejected",
    "test_get_tools_cross_office_rejected",
    "test_list_room_cross_office_rejected",
    "test_tool_call_wrong_role_rejected",
}
# What the released server does and ours does otherwise on purpose.
OTHERWISE = {
    "test_get_tools_cross_office_rejected_sync": "a request for another office is answered, not left without an answer",
    "test_missing_version_returns_400_no_4008_header": "no version is the specification's profile",
    "test_tool_call_wrong_role_rejected_sync": "a request in the wrong role is answered, not left without an answer",
    "test_update_config_broadcast": "a computer speaks for itself alone",
    "test_update_config_broadcast_sync": "a computer speaks for itself alone",
}


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.originalname or item.name
        if name in INSIDE:
            item.add_marker(pytest.mark.skip(reason="it looks into the server's process"))
        elif name in OTHERWISE:
            item.add_marker(pytest.mark.skip(reason=OTHERWISE[name]))
