"""The reference server with an agent that echoes. Prints its address; ends with its standard input."""

import os
import socket
import sys
import threading

import uvicorn
from acp_sdk.server import agent, create_app


@agent(name="talker")
async def talker(input):
    for message in input:
        yield message


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(talker), log_level="error"))
    threading.Thread(target=end_with_input, daemon=True).start()
    print("%s:%d" % bound.getsockname(), flush=True)
    server.run(sockets=[bound])


main()
