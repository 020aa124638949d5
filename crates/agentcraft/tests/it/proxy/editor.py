"""Drives `agentcraft proxy` with the official Python client, and checks every frame against the published schema.

Arguments: the program, the agent, `direct` or `lease`, and the schema. Run as `tee LOG PROGRAM ARGUMENT...` it carries the lines
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

PROGRAM, AGENT, WAY, SCHEMA = sys.argv[1:5]


def check(holds, what):
    if not holds:
        raise AssertionError(f"{WAY}: {what!r}")


class Editor(acp.Client):
    def __init__(self):
        self.told = []
        self.asked = 0
        self.choice = "allow_once"

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked += 1
        chosen = next(option for option in options if option.kind == self.choice)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.told.append((session_id, update))

    def words(self, session):
        chunks = [it for id, it in self.told if id == session and it.session_update == "agent_message_chunk"]
        return "".join(chunk.content.text for chunk in chunks)


def said(text):
    return [acp.text_block(text)]


async def talk(connection, editor, workspace):
    hello = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
    check(hello.protocol_version == 1 and hello.agent_capabilities.load_session, hello)
    session = (await connection.new_session(cwd="/home/me", mcp_servers=[])).session_id
    answer = await connection.prompt(session_id=session, prompt=said("hello from python"))
    check(answer.stop_reason == "end_turn", answer)
    check("hello from python" in editor.words(session), editor.words(session))

    await connection.prompt(session_id=session, prompt=said("/write python.txt yes"))
    check(editor.asked == 1 and os.path.exists(os.path.join(workspace(), "python.txt")), editor.asked)
    editor.choice = "reject_once"
    await connection.prompt(session_id=session, prompt=said("/write denied.txt no"))
    check(editor.asked == 2 and not os.path.exists(os.path.join(workspace(), "denied.txt")), editor.asked)

    hanging = asyncio.create_task(connection.prompt(session_id=session, prompt=said("/hang")))
    await asyncio.sleep(0)
    await connection.cancel(session_id=session)
    check((await hanging).stop_reason == "cancelled", session)

    second = (await connection.new_session(cwd="/home/me", mcp_servers=[])).session_id
    await connection.prompt(session_id=second, prompt=said("a second one"))
    check("a second one" in editor.words(second) and "a second one" not in editor.words(session), second)
    await connection.set_session_mode(session_id=second, mode_id="plan")
    editor.told.clear()
    await connection.load_session(session_id=session, cwd="/home/me", mcp_servers=[])
    check("hello from python" in editor.words(session), editor.told)
    listed = [it.session_id for it in (await connection.list_sessions()).sessions]
    check(session in listed and second in listed, listed)
    await connection.close_session(session_id=second)


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
        name = named[method, kind]
        if name not in validators:
            whole = {"$ref": f"#/$defs/{name}", "$defs": definitions["$defs"]}
            validators[name] = Draft202012Validator(whole)
        errors = [error.message for error in validators[name].iter_errors(message.get(kind))]
        check(not errors, (method, kind, errors, message))
        checked += side == b"<"
    check(checked > 20, checked)


async def main():
    editor = Editor()
    log = os.path.join(tempfile.mkdtemp(dir=os.environ["HOME"]), "frames")
    arguments = ["proxy", AGENT] + (["--lease"] if WAY == "lease" else [])
    command = [sys.executable, os.path.abspath(__file__), "tee", log, PROGRAM, *arguments]

    def workspace():
        shown = subprocess.run([PROGRAM, "agent", "status", AGENT, "-f", "json"], capture_output=True, check=True)
        return json.loads(shown.stdout)["workspaceDir"]

    async with acp.spawn_agent_process(editor, *command, env=dict(os.environ)) as (connection, _process):
        await talk(connection, editor, workspace)
    validate(log)


asyncio.run(main())
