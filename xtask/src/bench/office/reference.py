"""The SDK's server. Prints its address; ends with its standard input."""

import os
import socket
import sys
import threading

import uvicorn
from a2c_smcp.testing.server import create_local_async_server


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    bound = socket.create_server(("127.0.0.1", 0))
    _, _, app = create_local_async_server()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    threading.Thread(target=end_with_input, daemon=True).start()
    print("%s:%d" % bound.getsockname(), flush=True)
    server.run(sockets=[bound])


main()
