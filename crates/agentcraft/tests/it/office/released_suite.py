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


def with_token(connect):
    def connecting(self, *arguments, **options):
        auth = options.get("auth")
        if auth is None or isinstance(auth, dict):
            options["auth"] = {"token": TOKEN, **(auth or {})}
        return connect(self, *arguments, **options)

    return connecting


for client in (socketio.Client, socketio.AsyncClient):
    client.connect = with_token(client.connect)
werkzeug.serving.make_server = make_server_or_office
for module in (released, a2c_smcp.testing):
    module.UvicornTestServer = UvicornTestServer
    module.run_http_server = run_http_server
