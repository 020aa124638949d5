"""A session that changes between the server of PyPI's acp-sdk and ours, with that SDK's client: A B A B B A.

Prints the address of its own server, reads ours, prints what each agent was told and how long the histories are.
"""

import asyncio
import json
import socket
import sys
import threading

import uvicorn
from acp_sdk.client import Client
from acp_sdk.server import Context, agent, create_app


@agent(name="echo", description="counts what was said")
async def echo(input, context: Context):
    said = [message async for message in context.session.load_history()]
    yield "there %d" % len(said)


bound = socket.create_server(("127.0.0.1", 0))
there = "http://127.0.0.1:%d" % bound.getsockname()[1]
server = uvicorn.Server(uvicorn.Config(create_app(echo), log_level="error"))
threading.Thread(target=lambda: server.run(sockets=[bound]), daemon=True).start()
print(there, flush=True)
here = sys.stdin.readline().strip()


async def main():
    outputs = []
    # Servers of this SDK take a body only with its kind, and its client does not say it.
    headers = {"content-type": "application/json"}
    async with Client(base_url=here, headers=headers) as client, client.session() as session:
        for number, place in enumerate([here, there, here, there, there, here]):
            run = await session.run_sync("say number %d" % number, agent="echo", base_url=place)
            assert run.status == "completed", run
            outputs.append("".join(part.content or "" for message in run.output for part in message.parts))
        last = await session.refresh_session(base_url=here)
    urls = [str(url) for url in last.history]
    print(json.dumps({"outputs": outputs, "here": sum(url.startswith(here) for url in urls), "there": sum(url.startswith(there) for url in urls)}))


asyncio.run(main())
