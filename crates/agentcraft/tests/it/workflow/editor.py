"""Drives `agentcraft acp-serve` with the official Python client.

Arguments: the program and the folder of the project.
"""

import asyncio
import os
import sys

import acp
from acp import schema

PROGRAM, FOLDER = sys.argv[1:3]


def check(holds, what):
    if not holds:
        raise AssertionError(repr(what))


class Editor(acp.Client):
    def __init__(self):
        self.told = []
        self.asked = 0

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked += 1
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.told.append(update)

    def of(self, kind):
        return [update for update in self.told if update.session_update == kind]

    def words(self):
        return "".join(chunk.content.text for chunk in self.of("agent_message_chunk"))


def said(text):
    return [acp.text_block(text)]


async def main():
    editor = Editor()
    async with acp.spawn_agent_process(editor, PROGRAM, "acp-serve", env=dict(os.environ)) as (connection, _process):
        hello = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        check(hello.protocol_version == 1 and not hello.auth_methods, hello)
        session = (await connection.new_session(cwd=FOLDER, mcp_servers=[])).session_id
        for _ in range(100):
            if editor.of("available_commands_update"):
                break
            await asyncio.sleep(0.01)
        commands = editor.of("available_commands_update")[0].available_commands
        check(len(commands) == 10, commands)

        answer = await connection.prompt(session_id=session, prompt=said("/01-greet who=Ann"))
        check(answer.stop_reason == "end_turn" and "greeted Ann" in editor.words(), editor.words())
        answer = await connection.prompt(session_id=session, prompt=said("/02-parallel-checks"))
        check(answer.stop_reason == "end_turn" and editor.of("plan"), answer)
        check(len([call for call in editor.of("tool_call") if call.tool_call_id.startswith("checks/")]) == 3, editor.told)
        answer = await connection.prompt(session_id=session, prompt=said("/05-approval"))
        check(answer.stop_reason == "end_turn" and editor.asked == 1, editor.asked)
        check(os.path.exists(os.path.join(FOLDER, "published.txt")), FOLDER)

        await connection.prompt(session_id=session, prompt=said("/10-conversation"))
        await connection.prompt(session_id=session, prompt=said("from python"))
        check("You said: from python" in editor.words(), editor.words())
        await connection.prompt(session_id=session, prompt=said("quit"))

        hanging = asyncio.create_task(connection.prompt(session_id=session, prompt=said("/06-retry-and-timeout")))
        await asyncio.sleep(0)
        await connection.cancel(session_id=session)
        check((await hanging).stop_reason == "cancelled", session)


asyncio.run(main())
