"""The released SDK's server on a port: prints it, and serves until it is killed."""

import asyncio
import socket
import sys

import uvicorn
from a2c_smcp.testing.server import create_local_async_server


async def main(port: int) -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    _, _, app = create_local_async_server()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    print(listening.getsockname()[1], flush=True)
    await server.serve(sockets=[listening])


asyncio.run(main(int(sys.argv[1])))
