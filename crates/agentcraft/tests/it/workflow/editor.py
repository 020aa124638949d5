"""Drives `agentcraft acp-serve` with the official Python client, and checks every frame against the published schema.

Arguments: the program, the folder of the project, and the schema. Run as `tee LOG PROGRAM ARGUMENT...` it carries the lines
between its own pipes and those of the program, and keeps them in the log.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading


def tee(log, command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lock = threading.Lock()

    def carry(source, target, side):
        for line in source:
            with lock, open(log, "ab") as kept:
                kept.write(side + line)
            target.write(line)
            target.flush()
        target.close()

    threading.Thread(target=carry, args=(sys.stdin.buffer, child.stdin, b"> "), daemon=True).start()
    carry(child.stdout, sys.stdout.buffer, b"< ")
    sys.exit(child.wait())


if sys.argv[1] == "tee":
    tee(sys.argv[2], sys.argv[3:])

import acp  # noqa: E402
from acp import schema  # noqa: E402
from jsonschema import Draft202012Validator  # noqa: E402

PROGRAM, FOLDER, SCHEMA = sys.argv[1:4]

HANGS = {
    "sequence": """
name: sequence
states:
  initial: work
  work: {type: command, command: "touch sequence-at-work; sleep 60", on_success: done}
  done: {type: terminal}
""",
    "branches": """
name: branches
states:
  initial: wide
  wide: {type: parallel, parallel: [left, right], on_success: done}
  left: {type: command, command: "touch branches-at-work; sleep 60"}
  right: {type: command, command: "sleep 60"}
  done: {type: terminal}
""",
    "agent": """
name: agent
states:
  initial: talk
  talk: {type: agent, provider: "acp: agentcraft builtin-agent", prompt: /hang, on_success: done}
  done: {type: terminal}
""",
}


def check(holds, what):
    if not holds:
        raise AssertionError(repr(what))


class Editor(acp.Client):
    def __init__(self):
        self.told = []
        self.asked = 0
        self.choice = "allow_once"
        self.heard = asyncio.Event()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked += 1
        chosen = next(option for option in options if option.kind == self.choice)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.told.append(update)
        self.heard.set()

    def of(self, kind):
        return [update for update in self.told if update.session_update == kind]

    def words(self):
        return "".join(chunk.content.text for chunk in self.of("agent_message_chunk"))

    async def until(self, holds):
        while not holds():
            self.heard.clear()
            await self.heard.wait()


def said(text):
    return [acp.text_block(text)]


async def cancels(connection, editor, session):
    for name, text in HANGS.items():
        with open(os.path.join(FOLDER, ".agentcraft/workflows", f"{name}.yaml"), "w") as file:
            file.write(text)
        editor.told.clear()
        hanging = asyncio.create_task(connection.prompt(session_id=session, prompt=said(f"/{name}")))
        await editor.until(lambda: editor.of("tool_call"))
        await connection.cancel(session_id=session)
        check((await hanging).stop_reason == "cancelled", name)
        ended = {}
        for call in editor.of("tool_call") + editor.of("tool_call_update"):
            ended[call.tool_call_id] = call.status or ended.get(call.tool_call_id)
        check(ended and set(ended.values()) == {"failed"}, (name, ended))


async def talk(connection, editor):
    hello = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
    check(hello.protocol_version == 1 and not hello.auth_methods, hello)
    session = (await connection.new_session(cwd=FOLDER, mcp_servers=[])).session_id
    await editor.until(lambda: editor.of("available_commands_update"))
    commands = editor.of("available_commands_update")[0].available_commands
    check(len(commands) == 10, commands)

    answer = await connection.prompt(session_id=session, prompt=said("/01-greet who=Ann"))
    check(answer.stop_reason == "end_turn" and "greeted Ann" in editor.words(), editor.words())
    answer = await connection.prompt(session_id=session, prompt=said("/01-greet"))
    check(answer.stop_reason == "refusal" and "inputs.who" in editor.words(), editor.words())
    answer = await connection.prompt(session_id=session, prompt=said("/02-parallel-checks"))
    check(answer.stop_reason == "end_turn" and editor.of("plan"), answer)
    branches = [call for call in editor.of("tool_call") if ":checks/" in call.tool_call_id]
    check(len(branches) == 3, editor.told)
    check(all(os.path.isabs(call.locations[0].path) and call.locations[0].line for call in branches), branches)

    editor.choice = "reject_once"
    published = os.path.join(FOLDER, "published.txt")
    answer = await connection.prompt(session_id=session, prompt=said("/05-approval"))
    check(editor.asked == 1 and not os.path.exists(published), editor.asked)
    editor.choice = "allow_once"
    answer = await connection.prompt(session_id=session, prompt=said("/05-approval"))
    check(answer.stop_reason == "end_turn" and editor.asked == 2, editor.asked)
    check(os.path.exists(published), FOLDER)

    await connection.prompt(session_id=session, prompt=said("/10-conversation"))
    for turn in ["one", "two", "three", "four"]:
        await connection.prompt(session_id=session, prompt=said(turn))
        check(f"You said: {turn}" in editor.words(), editor.words())
    await connection.prompt(session_id=session, prompt=said("quit"))
    await cancels(connection, editor, session)
    return session


async def look_back(connection, editor, session):
    await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
    await connection.load_session(session_id=session, cwd=FOLDER, mcp_servers=[])
    check("You said: four" in editor.words(), editor.words())
    answer = await connection.prompt(session_id=session, prompt=said("/01-greet who=Bob"))
    check(answer.stop_reason == "end_turn" and "greeted Bob" in editor.words(), editor.words())
    listed = [it.session_id for it in (await connection.list_sessions()).sessions]
    check(session in listed, listed)
    await connection.close_session(session_id=session)


def validate(log):
    definitions = json.load(open(SCHEMA))
    named = {}
    for name, definition in definitions["$defs"].items():
        if "x-method" in definition:
            kind = "result" if name.endswith("Response") else "params"
            named[definition["x-method"], kind] = name
    validators = {}
    asked, checked = {}, 0
    for line in open(log, "rb"):
        side, message = line[:1], json.loads(line[2:])
        if "method" in message:
            method, kind = message["method"], "params"
            if "id" in message:
                asked[side, message["id"]] = method
        elif "result" in message:
            method, kind = asked[b"<" if side == b">" else b">", message["id"]], "result"
        else:
            continue
        check(message["jsonrpc"] == "2.0", message)
        update = message.get("params", {}).get("update")
        check(update is None or len(update) > 1, ("an empty update", message))
        name = named[method, kind]
        if name not in validators:
            whole = {"$ref": f"#/$defs/{name}", "$defs": definitions["$defs"]}
            validators[name] = Draft202012Validator(whole)
        errors = [error.message for error in validators[name].iter_errors(message.get(kind))]
        check(not errors, (method, kind, errors, message))
        checked += side == b"<"
    return checked


async def connected(visit):
    editor = Editor()
    log = os.path.join(tempfile.mkdtemp(dir=os.path.dirname(FOLDER)), "frames")
    command = [sys.executable, os.path.abspath(__file__), "tee", log, PROGRAM, "acp-serve"]
    async with acp.spawn_agent_process(editor, *command, env=dict(os.environ)) as (connection, _process):
        result = await visit(connection, editor)
    return result, validate(log)


async def main():
    session, checked = await connected(talk)
    check(checked > 80, checked)
    is_kept = subprocess.run([PROGRAM, "session", "show", session], capture_output=True).returncode == 0
    if is_kept:
        await connected(lambda connection, editor: look_back(connection, editor, session))


asyncio.run(main())
