"""Drives MCP on the node's port with the official client: the five tools, progress, resources, failures.

Arguments: the node's address, a token, and the way to connect (legacy or auto). The node has the template and agent `echo`.
"""

import sys

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL, TOKEN, MODE = sys.argv[1:4]
TOOLS = ["run_agent", "prompt_agent", "agent_status", "create_agent", "list_agents"]
LENDING = ["delegate"] + [
    f"delegate_{name}"
    for name in ["output", "cancel", "snapshots", "apply_snapshot", "discard_snapshot", "continue", "close"]
]


def check(holds, what):
    if not holds:
        raise AssertionError(f"{MODE}: {what!r}")


async def call(client, tool, arguments, **options):
    result = await client.call_tool(f"agentcraft_{tool}", arguments, **options)
    check(not result.is_error, result)
    return result.structured_content


async def every_tool_works(client):
    tools = (await client.list_tools()).tools
    check([tool.name for tool in tools] == [f"agentcraft_{name}" for name in TOOLS] + LENDING, tools)
    run = await call(client, "run_agent", {"template": "echo", "prompt": "hello run"})
    check("hello run" in run["response"] and run["stopReason"] == "end_turn", run)
    made = await call(client, "create_agent", {"name": "worker", "template": "echo"})
    check(made["name"] == "worker", made)
    shown = await call(client, "agent_status", {"name": "worker"})
    check(shown["templateName"] == "echo", shown)
    listed = await call(client, "list_agents", {})
    check([agent["name"] for agent in listed["agents"]] == ["echo", "worker"], listed)
    first = await call(client, "prompt_agent", {"name": "worker", "message": "hello worker"})
    check("hello worker" in first["response"], first)
    again = {"name": "worker", "message": "and again", "sessionId": first["sessionId"]}
    check((await call(client, "prompt_agent", again))["sessionId"] == first["sessionId"], "the session goes on")
    return first["sessionId"]


async def progress_is_told(client):
    told = []

    async def on_progress(progress, total, message):
        told.append(message)

    await call(client, "prompt_agent", {"name": "worker", "message": "/slow 8 60"}, progress_callback=on_progress)
    check(len(told) >= 3, told)


async def resources_are_read(client, session):
    listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
    for uri, expected in [
        ("agentcraft://agent/worker", '"worker"'),
        ("agentcraft://template/echo", '"builtin"'),
        (f"agentcraft://session/{session}", "> hello worker"),
    ]:
        check(uri in listed, listed)
        [contents] = (await client.read_resource(uri, cache_mode="bypass")).contents
        check(expected in contents.text, contents)


async def failures_are_told(client):
    for tool, arguments, code in [
        ("prompt_agent", {"name": "worker", "message": "/fail on purpose"}, "TURN_FAILED"),
        ("agent_status", {"name": "nobody"}, "AGENT_NOT_FOUND"),
    ]:
        result = await client.call_tool(f"agentcraft_{tool}", arguments)
        check(result.is_error and result.meta["agentcraft/errorCode"] == code, result)


async def main():
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{URL}/mcp", http_client=http)
        async with Client(transport, mode=MODE) as client:
            check(client.server_info.name == "agentcraft", client.server_info)
            session = await every_tool_works(client)
            await progress_is_told(client)
            await resources_are_read(client, session)
            await failures_are_told(client)


anyio.run(main)
