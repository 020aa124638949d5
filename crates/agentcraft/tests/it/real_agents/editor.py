"""Drives a real agent through `agentcraft proxy` with the official Python client.

Arguments: the program, `direct` or `lease`, a prompt that has the agent write a file, the file, and the seconds to wait before an
earlier session is loaded.
"""

import asyncio
import contextlib
import os
import sys

import acp
from acp import schema

PROGRAM, WAY, WRITE, FILE, PAUSE = sys.argv[1:6]
# The slowest of them takes ten seconds for its first words on a machine that does nothing else.
PATIENCE = 110


def check(holds, what):
    if not holds:
        raise AssertionError(f"{WAY}: {what!r:.2000}")


class Editor(acp.Client):
    def __init__(self):
        self.told = []
        self.asked = 0
        self.spoken = asyncio.Event()
        self.news = asyncio.Condition()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked += 1
        check(not os.path.exists(FILE), "it asks first")
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.told.append((session_id, update))
        if update.session_update == "agent_message_chunk":
            self.spoken.set()
        async with self.news:
            self.news.notify_all()

    def chunks(self, session):
        own = [it for id, it in self.told if id == session and it.session_update == "agent_message_chunk"]
        return [chunk.content.text for chunk in own]

    def words(self, session):
        return "".join(self.chunks(session))

    async def hear(self, session, words):
        """Some agents tell their history only after they have said that it is told."""
        async with self.news:
            await asyncio.wait_for(self.news.wait_for(lambda: words in self.words(session)), PATIENCE)


@contextlib.asynccontextmanager
async def connected():
    editor = Editor()
    command = [PROGRAM, "proxy", "a1"] + (["--lease"] if WAY == "lease" else [])
    # Some of them write lines of many kilobytes.
    spawned = acp.spawn_agent_process(
        editor, *command, env=dict(os.environ), transport_kwargs={"limit": 10 * 1024 * 1024, "stderr": None}
    )
    async with spawned as (connection, process):
        hello = await asyncio.wait_for(connection.initialize(protocol_version=acp.PROTOCOL_VERSION), PATIENCE)
        check(hello.protocol_version == 1, hello)
        yield editor, connection, hello.agent_capabilities
        process.stdin.close()
        check(await asyncio.wait_for(process.wait(), PATIENCE) == 0, "the proxy failed")


async def new_session(connection):
    opened = await asyncio.wait_for(connection.new_session(cwd="/tmp", mcp_servers=[]), PATIENCE)
    # Some agents write without asking unless they are told to ask, which is the editor's choice to make.
    modes = [mode.id for mode in opened.modes.available_modes] if opened.modes else []
    if "read-only" in modes and opened.modes.current_mode_id != "read-only":
        choose = connection.set_session_mode(mode_id="read-only", session_id=opened.session_id)
        await asyncio.wait_for(choose, PATIENCE)
    return opened.session_id


async def say(connection, session, text):
    prompt = connection.prompt(session_id=session, prompt=[acp.text_block(text)])
    return (await asyncio.wait_for(prompt, PATIENCE)).stop_reason


async def talk():
    async with connected() as (editor, connection, can):
        first = await new_session(connection)
        check(await say(connection, first, "SAY one two three four") == "end_turn", "the first turn")
        check(editor.words(first).endswith("one two three four"), editor.words(first))
        check(len(editor.chunks(first)) >= 4, "the words come one by one")

        check(await say(connection, first, WRITE) == "end_turn", "the turn that writes")
        check(editor.asked == 1 and open(FILE).read().strip() == "content", (editor.asked, os.path.exists(FILE)))

        editor.spoken.clear()
        slow = asyncio.create_task(say(connection, first, "SLOW 400"))
        await asyncio.wait_for(editor.spoken.wait(), PATIENCE)
        await connection.cancel(session_id=first)
        check(await slow == "cancelled", "a cancel")
        check(await say(connection, first, "SAY after it") == "end_turn", "the turn after a cancel")

        second = await new_session(connection)
        check(await say(connection, second, "SAY in the second") == "end_turn", "the second session")
        check(editor.words(second).endswith("in the second"), editor.words(second))
        check("in the second" not in editor.words(first), "the second session speaks in the first")
    check(can.load_session, "it loads no sessions")
    return first


async def load(session):
    async with connected() as (editor, connection, _):
        loading = connection.load_session(session_id=session, cwd="/tmp", mcp_servers=[])
        await asyncio.wait_for(loading, PATIENCE)
        check(await say(connection, session, "SAY after the load") == "end_turn", "a turn after a load")
        await editor.hear(session, "after the load")
        await editor.hear(session, "one two three four")


async def main():
    first = await talk()
    await asyncio.sleep(int(PAUSE))
    await load(first)


asyncio.run(main())
