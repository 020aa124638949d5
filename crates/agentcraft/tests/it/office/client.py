"""Drives `agentcraft mcp office` with the official client: tools that come, are called, are cancelled and go.

Arguments: the program, the transport (stdio or http), the way to connect (legacy or auto), the address of the office
server, the file of a token, the servers of a computer, and the file that its tool `slow` writes when it is cancelled. The
office is empty.
"""

import contextlib
import os
import subprocess
import sys
from functools import partial

import anyio
import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

PROGRAM, TRANSPORT, MODE, URL, TOKEN, SERVERS, CANCELLED = sys.argv[1:8]
BOARD = "office://nova/window://board"
TOOLS = ["nova__board__write", "nova__scripted__plus", "nova__scripted__slow", "nova__scripted__variable"]
PLACE = [URL, "studio", "--token-file", TOKEN]
PATIENCE = 30


def check(holds, what):
    if not holds:
        raise AssertionError(f"{TRANSPORT} {MODE}: {what!r}")


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
    """Waits for the notices that something has changed, whichever way they come."""

    def __init__(self):
        self.told = anyio.Event()
        self.updated = anyio.Event()

    async def on_message(self, message):
        kind = type(message).__name__
        if kind == "ToolListChangedNotification":
            self.told.set()
        elif kind == "ResourceUpdatedNotification" and str(message.params.uri) == BOARD:
            self.updated.set()

    async def listen(self, client, *, task_status):
        if MODE == "legacy":
            task_status.started()
            return
        followed = {"resource_subscriptions": [BOARD]}
        async with client.listen(tools_list_changed=True, **followed) as subscription:
            task_status.started()
            async for event in subscription:
                if type(event).__name__ == "ResourceUpdated":
                    self.updated.set()
                else:
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


async def windows_are_followed(client, changes):
    if MODE == "legacy":
        await client.subscribe_resource(BOARD)
    # A computer follows its windows a moment after it lends their tools.
    for words in ["first words", "last words"]:
        changes.updated = anyio.Event()
        with anyio.fail_after(PATIENCE):
            while not changes.updated.is_set():
                written = await client.call_tool("nova__board__write", {"text": words})
                check(not written.is_error, written)
                with anyio.move_on_after(1):
                    await changes.updated.wait()
        read = await client.read_resource(BOARD, cache_mode="bypass")
        check(words in read.contents[0].text, read)


async def progress_is_told(client):
    told, heard = [], anyio.Event()

    async def on_progress(progress, total, message):
        told.append((progress, total, message))
        heard.set()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(
                partial(client.call_tool, "nova__scripted__slow", {}, progress_callback=on_progress)
            )
            await heard.wait()
            group.cancel_scope.cancel()
    check(told == [(1, 2, "half way")], told)


async def calls_are_cancelled(client):
    # One that is cancelled before its server has begun leaves no mark, and is tried again.
    with anyio.fail_after(PATIENCE), contextlib.suppress(FileNotFoundError):
        os.remove(CANCELLED)
    with anyio.fail_after(PATIENCE):
        while not os.path.exists(CANCELLED):
            with anyio.move_on_after(0.5):
                await client.call_tool("nova__scripted__slow", {})


@contextlib.asynccontextmanager
async def transport():
    arguments = ["mcp", "office", *PLACE]
    if TRANSPORT == "stdio":
        yield stdio_client(StdioServerParameters(command=PROGRAM, args=arguments, env=dict(os.environ)))
        return
    command = [PROGRAM, *arguments, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = process.stdout.readline().removeprefix("MCP server at ").strip()
        token = process.stdout.readline().removeprefix("token: ").strip()
        async with httpx2.AsyncClient(timeout=PATIENCE) as stranger:
            refused = await stranger.post(url, json={})
            check(refused.status_code == 401, refused)
        bearer = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=bearer, timeout=PATIENCE) as http:
            yield streamable_http_client(url, http_client=http)
    finally:
        process.terminate()
        check(process.wait() == 0, "it ends when it is told to")


async def main():
    changes = Changes()
    async with contextlib.AsyncExitStack() as stack:
        way = await stack.enter_async_context(transport())
        client = await stack.enter_async_context(Client(way, mode=MODE, message_handler=changes.on_message))
        group = await stack.enter_async_context(anyio.create_task_group())
        check(client.server_info.name == "agentcraft-office", client.server_info)
        check(await names(client) == [], "an empty office has no tools")
        await group.start(changes.listen, client)
        with computer() as process:
            await changes.until(client, TOOLS)
            await tools_are_called(client)
            await windows_are_resources(client)
            await windows_are_followed(client, changes)
            await progress_is_told(client)
            await calls_are_cancelled(client)
            process.kill()
            await changes.until(client, [])
        gone = await client.call_tool("nova__scripted__plus", {"a": 1, "b": 2})
        check(gone.is_error and "may have left" in text(gone), gone)
        # What comes again comes the same way over HTTP.
        if TRANSPORT == "stdio":
            with computer():
                await changes.until(client, TOOLS)
                await tools_are_called(client)
            await changes.until(client, [])
        print(client.protocol_version)
        group.cancel_scope.cancel()


anyio.run(main)
