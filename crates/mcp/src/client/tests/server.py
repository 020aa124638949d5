"""A server of a few tools, on the transport its first argument names; prints its port, which may be the second, when it
has one.
"""

import asyncio
import os
import socket
import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("scripted")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def die() -> str:
    """Ends the process in the middle of the call."""
    os._exit(7)


@server.tool()
def variable(name: str) -> str:
    """Tells a variable of the environment."""
    return os.environ.get(name, "")


@server.tool()
async def slow(ctx: Context) -> str:
    """Reports progress, then waits to be cancelled; files beside each other tell of both."""
    with open(os.environ["CANCEL_MARK"] + ".begun", "w") as mark:
        mark.write("begun")
    await ctx.report_progress(1, 2, "half way")
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        with open(os.environ["CANCEL_MARK"], "w") as mark:
            mark.write("cancelled")
        raise
    return "never"


@server.resource("window://notes")
def notes() -> str:
    """What is on the screen."""
    return "the notes"


transport = sys.argv[1]
if transport == "stdio":
    server.run("stdio")
else:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
        port = probe.getsockname()[1]
    print(port, flush=True)
    server.run(transport, port=port)
