"""Drives `agentcraft mcp serve` with the official client: every tool, progress, cancellation, failures, resources.

Arguments: the program, and the way to connect (legacy, auto, or a protocol version). The node has the templates `echo` (the
built-in agent, which must ask) and `trusted` (the same, which may edit).
"""

import os
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import ElicitResult

PROGRAM, MODE = sys.argv[1:3]
TOOLS = ["run_agent", "prompt_agent", "agent_status", "create_agent", "list_agents"]
LENDING = ["delegate"] + [
    f"delegate_{name}"
    for name in ["output", "cancel", "snapshots", "apply_snapshot", "discard_snapshot", "continue", "close"]
]
READING = ["agentcraft_agent_status", "agentcraft_list_agents", "delegate_output", "delegate_snapshots"]


def check(holds, what):
    if not holds:
        raise AssertionError(f"{MODE}: {what!r}")


def text(result):
    return "\n".join(block.text for block in result.content)


async def succeed(client, tool, arguments, **options):
    result = await client.call_tool(f"agentcraft_{tool}", arguments, **options)
    check(not result.is_error, result)
    return result.structured_content, text(result)


async def fail(client, tool, arguments, code):
    result = await client.call_tool(f"agentcraft_{tool}", arguments)
    check(result.is_error, result)
    check(text(result).startswith(f"{code}: "), result)
    check(result.meta["agentcraft/errorCode"] == code, result)
    return text(result)


async def tools_are_described(client):
    tools = (await client.list_tools()).tools
    check([tool.name for tool in tools] == [f"agentcraft_{name}" for name in TOOLS] + LENDING, tools)
    for tool in tools:
        check(tool.description and tool.input_schema["type"] == "object", tool)
        check(tool.output_schema["type"] == "object", tool)
        check(tool.annotations.read_only_hint is (tool.name in READING), tool)


async def agents_are_created_and_shown(client):
    created, _ = await succeed(client, "create_agent", {"name": "worker", "template": "echo"})
    check(created["name"] == "worker" and os.path.isdir(created["workspaceDir"]), created)
    check(set(created) == {"name", "workspaceDir", "status"}, created)
    shown, words = await succeed(client, "agent_status", {"name": "worker"})
    check(shown["templateName"] == "echo" and '"worker"' in words, shown)
    listed, _ = await succeed(client, "list_agents", {})
    check([agent["name"] for agent in listed["agents"]] == ["worker"], listed)
    return created["workspaceDir"]


async def agents_are_prompted(client, workspace):
    first, words = await succeed(client, "prompt_agent", {"name": "worker", "message": "hello there"})
    session = first["sessionId"]
    check("hello there" in first["response"] and session in words, (first, words))
    check(first["stopReason"] == "end_turn", first)
    again = {"name": "worker", "message": "and again", "sessionId": session}
    second, _ = await succeed(client, "prompt_agent", again)
    check(second["sessionId"] == session and "and again" in second["response"], second)
    denied, _ = await succeed(client, "prompt_agent", {"name": "worker", "message": "/write a.txt hi"})
    check(denied["stopReason"] == "end_turn", denied)
    check(not os.path.exists(os.path.join(workspace, "a.txt")), "nobody can be asked, so nothing is written")
    said = await fail(client, "prompt_agent", {"name": "worker", "message": "/fail on purpose"}, "TURN_FAILED")
    check("on purpose" in said, said)
    return session


async def progress_is_told(client, tool, arguments):
    told = []

    async def on_progress(progress, total, message):
        told.append((progress, message))

    await succeed(client, tool, arguments, progress_callback=on_progress)
    check(len(told) >= 3, told)
    numbers = [progress for progress, _ in told]
    check(numbers == sorted(set(numbers)), told)
    check(all(message for _, message in told), told)


async def agents_are_run(client):
    run, words = await succeed(client, "run_agent", {"template": "trusted", "prompt": "/write made.txt hi"})
    check(run["artifacts"] == ["made.txt"] and run["stopReason"] == "end_turn", run)
    check("made.txt" in words, words)
    await fail(client, "run_agent", {"template": "echo", "prompt": "/fail on purpose"}, "TURN_FAILED")
    slow = {"template": "echo", "prompt": "/slow 100 100", "timeoutMs": 300}
    await fail(client, "run_agent", slow, "GENERIC_BUSINESS")
    while True:  # It is removed right after the answer.
        listed, _ = await succeed(client, "list_agents", {})
        if [agent["name"] for agent in listed["agents"]] == ["worker"]:
            break
        await anyio.sleep(0.05)


async def calls_are_cancelled(client, session):
    started = anyio.Event()

    async def on_progress(progress, total, message):
        started.set()

    async with anyio.create_task_group() as group:
        arguments = {"name": "worker", "message": "/slow 200 100", "sessionId": session}

        async def call():
            await client.call_tool("agentcraft_prompt_agent", arguments, progress_callback=on_progress)

        group.start_soon(call)
        await started.wait()
        await anyio.sleep(0.2)
        group.cancel_scope.cancel()
    with anyio.fail_after(20):
        while "The turn ended: cancelled" not in await read(client, f"agentcraft://session/{session}"):
            await anyio.sleep(0.05)


async def failures_are_told(client):
    await fail(client, "agent_status", {"name": "nobody"}, "AGENT_NOT_FOUND")
    await fail(client, "prompt_agent", {"name": "nobody", "message": "hi"}, "AGENT_NOT_FOUND")
    await fail(client, "create_agent", {"name": "x", "template": "nothing"}, "TEMPLATE_NOT_FOUND")
    await fail(client, "run_agent", {"template": "nothing", "prompt": "hi"}, "TEMPLATE_NOT_FOUND")
    await fail(client, "create_agent", {"name": "../x", "template": "echo"}, "INVALID_PARAMS")
    await fail(client, "run_agent", {"template": "echo"}, "INVALID_PARAMS")
    try:
        await client.call_tool("agentcraft_destroy_agent", {"name": "worker"})
        check(False, "there is no such tool")
    except MCPError as error:
        check(error.code == -32602, error)


async def read(client, uri):
    [contents] = (await client.read_resource(uri, cache_mode="bypass")).contents
    return contents.text


async def resources_are_read(client, session):
    templates = (await client.list_resource_templates()).resource_templates
    check(len(templates) == 3, templates)
    listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
    mine = {"agentcraft://agent/worker", "agentcraft://template/echo", f"agentcraft://session/{session}"}
    check(mine <= listed, listed)
    check('"worker"' in await read(client, "agentcraft://agent/worker"), "agent")
    check('"builtin"' in await read(client, "agentcraft://template/echo"), "template")
    transcript = await read(client, f"agentcraft://session/{session}")
    check("## Turn 1\n\n> hello there" in transcript and "> and again" in transcript, transcript)
    for missing in ["agent/nobody", "session/nothing", "template/nothing", "skill/x"]:
        try:
            await read(client, f"agentcraft://{missing}")
            check(False, missing)
        except MCPError as error:
            check(error.code in (-32002, -32602), error)


async def a_person_is_asked(server, workspace):
    """A second client, at which somebody sits: what they choose is done, and what they dismiss is not."""
    answers, forms = [], []

    async def on_form(_context, form):
        forms.append(form)
        return answers.pop(0)

    async with Client(stdio_client(server), mode=MODE, elicitation_callback=on_form) as client:
        answers.extend([ElicitResult(action="accept", content={"answer": "Allow once"}), ElicitResult(action="cancel")])
        await succeed(client, "prompt_agent", {"name": "worker", "message": "/write asked.txt hi"})
        await succeed(client, "prompt_agent", {"name": "worker", "message": "/write dismissed.txt hi"})
        check("asked.txt" in forms[0].message, forms)
        check(forms[0].requested_schema["properties"]["answer"]["enum"][0] == "Allow once", forms)
        answers.append(ElicitResult(action="accept", content={"answer": "Allow once"}))
        run, _ = await succeed(client, "run_agent", {"template": "echo", "prompt": "/write made.txt hi"})
        check(run["artifacts"] == ["made.txt"] and not answers and len(forms) == 3, (run, forms))
    check(os.path.exists(os.path.join(workspace, "asked.txt")), "what was allowed is done")
    check(not os.path.exists(os.path.join(workspace, "dismissed.txt")), "what was dismissed is not")


async def main():
    server = StdioServerParameters(command=PROGRAM, args=["mcp", "serve"], env=dict(os.environ))
    async with Client(stdio_client(server), mode=MODE) as client:
        check(client.server_info.name == "agentcraft", client.server_info)
        await tools_are_described(client)
        workspace = await agents_are_created_and_shown(client)
        session = await agents_are_prompted(client, workspace)
        await progress_is_told(client, "prompt_agent", {"name": "worker", "message": "/slow 8 60"})
        await progress_is_told(client, "run_agent", {"template": "echo", "prompt": "/slow 8 60"})
        await agents_are_run(client)
        await resources_are_read(client, session)
        await calls_are_cancelled(client, session)
        await failures_are_told(client)
        if MODE == "legacy":
            await a_person_is_asked(server, workspace)
        print(client.protocol_version)


anyio.run(main)
