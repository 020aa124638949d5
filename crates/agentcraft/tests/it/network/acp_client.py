"""Drives the runs API with the standard client: every mode, an await and its answer, cancel, sessions, failures.

Arguments: the node's address and a token. The node has the agent `echo` (the built-in one, which must ask before it writes).
"""

import asyncio
import sys

from acp_sdk.client import Client
from acp_sdk.models import ACPError, Message, MessageAwaitResume, MessagePart

URL, TOKEN = sys.argv[1:3]
TRIES = 600


def check(holds, what):
    if not holds:
        raise AssertionError(repr(what))


def text(run):
    return "".join(part.content or "" for message in run.output for part in message.parts)


def words(content):
    return MessageAwaitResume(message=Message(role="user", parts=[MessagePart(content=content)]))


async def until(client, run, status):
    for _ in range(TRIES):
        run = await client.run_status(run_id=run.run_id)
        if run.status == status:
            return run
        await asyncio.sleep(0.05)
    raise AssertionError(f"{run.run_id} is {run.status}, not {status}")


async def agents_are_described(client):
    await client.ping()
    names = [agent.name async for agent in client.agents()]
    check("echo" in names, names)
    check((await client.agent(name="echo")).name == "echo", "manifest")


async def every_mode_answers(client):
    run = await client.run_sync("hello sync", agent="echo")
    check(run.status == "completed" and "hello sync" in text(run), run)
    run = await client.run_async("hello async", agent="echo")
    check(run.status in ("created", "in-progress", "completed"), run)
    check("hello async" in text(await until(client, run, "completed")), run)
    kinds, parts = [], []
    async for event in client.run_stream("/slow 3 50", agent="echo"):
        kinds.append(event.type)
        if event.type == "message.part":
            parts.append(event.part.content)
    check(kinds[0] == "run.created" and kinds[-1] == "run.completed", kinds)
    check(len(parts) >= 3, parts)
    run_id = (await client.run_sync("again", agent="echo")).run_id
    told = [event.type async for event in client.run_events(run_id=run_id)]
    check(told[-1] == "run.completed", told)


async def awaits_are_answered(client):
    run = await client.run_sync("/write sync.txt one", agent="echo")
    check(run.status == "awaiting" and run.await_request, run)
    run = await client.run_resume_sync(words("yes"), run_id=run.run_id)
    check(run.status == "completed", run)

    run = await client.run_async("/write async.txt two", agent="echo")
    run = await until(client, run, "awaiting")
    await client.run_resume_async(words("yes"), run_id=run.run_id)
    await until(client, run, "completed")

    run = None
    async for event in client.run_stream("/write stream.txt three", agent="echo"):
        run = getattr(event, "run", run)
    check(run.status == "awaiting", run)
    kinds = [event.type async for event in client.run_resume_stream(words("yes"), run_id=run.run_id)]
    check(kinds[-1] == "run.completed", kinds)

    run = await client.run_sync("/write denied.txt four", agent="echo")
    run = await client.run_resume_sync(words("no"), run_id=run.run_id)
    check(run.status == "completed", run)


async def runs_are_cancelled(client):
    run = await client.run_async("/hang", agent="echo")
    await until(client, run, "in-progress")
    cancelled = await client.run_cancel(run_id=run.run_id)
    check(cancelled.status in ("cancelling", "cancelled"), cancelled)
    await until(client, run, "cancelled")
    run = await client.run_sync("/write never.txt five", agent="echo")
    await client.run_cancel(run_id=run.run_id)
    await until(client, run, "cancelled")


async def sessions_go_on(client):
    async with client.session() as session:
        first = await session.run_sync("my first words", agent="echo")
        second = await session.run_sync("my second words", agent="echo")
        check(first.session_id == second.session_id, (first, second))
        check(len((await session.refresh_session()).history) >= 4, "what was said is in the history")


async def failures_are_told(client):
    run = await client.run_sync("/fail on purpose", agent="echo")
    check(run.status == "failed" and "on purpose" in run.error.message, run)
    for act in (
        client.run_sync("hello", agent="nobody"),
        client.agent(name="nobody"),
        client.run_status(run_id="00000000-0000-4000-8000-000000000000"),
    ):
        try:
            await act
            check(False, "there is nobody of that name")
        except ACPError as error:
            check(error.error.code == "not_found" and error.error.message, error)


async def main():
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with Client(base_url=URL, headers=headers, timeout=60) as client:
        await agents_are_described(client)
        await every_mode_answers(client)
        await awaits_are_answered(client)
        await runs_are_cancelled(client)
        await sessions_go_on(client)
        await failures_are_told(client)


asyncio.run(main())
