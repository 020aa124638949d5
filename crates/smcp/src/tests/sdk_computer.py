"""The released SDK's computer: joins an office with one MCP server, which is this file with `serve`."""

import asyncio
import json
import pathlib
import sys


def serve() -> None:
    from mcp.server.fastmcp import FastMCP

    server = FastMCP("adder")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @server.tool()
    async def wait() -> str:
        """Waits for longer than anybody wants to."""
        await asyncio.sleep(600)
        return "done"

    @server.tool()
    def secret() -> str:
        """May not be called."""
        return "secret"

    server.run()


async def main(url: str) -> None:
    from mcp import StdioServerParameters

    from a2c_smcp.computer.computer import Computer
    from a2c_smcp.computer.mcp_clients.model import StdioServerConfig
    from a2c_smcp.computer.socketio.client import SMCPComputerClient

    server = StdioServerConfig(
        name="adder",
        forbidden_tools=["secret"],
        default_tool_meta={"auto_apply": True},
        server_parameters=StdioServerParameters(command=sys.executable, args=[__file__, "serve"]),
    )
    settings = pathlib.Path("settings.json").absolute()
    settings.write_text(json.dumps({"landingRoot": str(settings.parent / "landing")}))
    computer = Computer(name="pc", mcp_servers={server}, flag_settings_path=settings)
    await computer.boot_up()
    client = SMCPComputerClient(computer=computer)
    await client.connect(url, auth={"token": "t-pc"}, namespaces=["/smcp"])
    await client.join_office("o")
    print(json.dumps("joined"), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await client.emit_update_tool_list()
    await asyncio.to_thread(sys.stdin.readline)
    await client.disconnect()
    await computer.shutdown()


if sys.argv[1] == "serve":
    serve()
else:
    asyncio.run(main(sys.argv[1]))
