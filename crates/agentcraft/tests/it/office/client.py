"""Drives `agentcraft mcp office` with the official client: tools that come, are called, are cancelled and go.

Arguments: the program, the way to connect (legacy or auto), the address of the office server, the file of a token, the
servers of a computer, and the file that its tool `slow` writes when it is cancelled. The office is empty.
"""

import contextlib
import os
import subprocess
import sys

import anyio
from mcp import Client, StdioServerParameters, stdio_client

PROGRAM, MODE, URL, TOKEN, SERVERS, CANCELLED = sys.argv[1:7]
TOOLS = ["nova__scripted__plus", "nova__scripted__slow", "nova__scripted__variable"]
PLACE = [URL, "studio", "--token-file", TOKEN]
PATIENCE = 30


def check(holds, what):
    if not holds:
        raise AssertionError(f"{MODE}: {what!r}")


def text(result):
    return "\n".join(block.text for block in result.content)


@contextlib.contextmanager
def computer():
    command = [PROGRAM, "computer", "join", *PLACE, "--name", "nova", "--config", SERVERS, "--yes"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def names(client):
    return sorted(tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools)


class Changes:
    """Counts the notices that the tools have changed, whichever way they come."""

    def __init__(self):
        self.told = anyio.Event()

    async def on_message(self, message):
        if type(message).__name__ == "ToolListChangedNotification":
            self.told.set()

    async def listen(self, client, *, task_status):
        if MODE == "legacy":
            task_status.started()
            return
        async with client.listen(tools_list_changed=True) as subscription:
            task_status.started()
            async for _ in subscription:
                self.told.set()

    async def until(self, client, expected):
        with anyio.fail_after(PATIENCE):
            while await names(client) != expected:
                await self.told.wait()
                self.told = anyio.Event()


async def tools_are_called(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    plus = tools["nova__scripted__plus"]
    check(plus.description == "Adds two numbers.", plus)
    check(set(plus.input_schema["properties"]) == {"a", "b"}, plus)
    result = await client.call_tool("nova__scripted__plus", {"a": 1, "b": 2})
    check(not result.is_error and text(result) == "3", result)
    check(result.structured_content == {"result": 3}, result)
    wrong = await client.call_tool("nova__scripted__plus", {"a": "x"})
    check(wrong.is_error, wrong)


async def windows_are_resources(client):
    shown = {str(resource.uri): resource for resource in (await client.list_resources()).resources}
    notes = "office://nova/window://notes"
    check(notes in shown and shown[notes].name.startswith("nova: "), shown)
    read = await client.read_resource(notes)
    check("window://notes" in read.contents[0].text, read)


async def calls_are_cancelled(client):
    # One that is cancelled before its server has begun leaves no mark, and is tried again.
    with anyio.fail_after(PATIENCE):
        while not os.path.exists(CANCELLED):
            with anyio.move_on_after(0.5):
                await client.call_tool("nova__scripted__slow", {})


async def main():
    changes = Changes()
    server = StdioServerParameters(command=PROGRAM, args=["mcp", "office", *PLACE], env=dict(os.environ))
    client = Client(stdio_client(server), mode=MODE, message_handler=changes.on_message)
    async with client, anyio.create_task_group() as group:
        check(client.server_info.name == "agentcraft-office", client.server_info)
        check(await names(client) == [], "an empty office has no tools")
        await group.start(changes.listen, client)
        with computer() as process:
            await changes.until(client, TOOLS)
            await tools_are_called(client)
            await windows_are_resources(client)
            await calls_are_cancelled(client)
            process.kill()
            await changes.until(client, [])
        gone = await client.call_tool("nova__scripted__plus", {"a": 1, "b": 2})
        check(gone.is_error and "may have left" in text(gone), gone)
        with computer():
            await changes.until(client, TOOLS)
            await tools_are_called(client)
        await changes.until(client, [])
        print(client.protocol_version)
        group.cancel_scope.cancel()


anyio.run(main)
