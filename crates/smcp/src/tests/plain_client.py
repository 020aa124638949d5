"""A plain Socket.IO client in both roles: joins, calls many times at once, is refused, and hears what it should."""

import asyncio
import json
import sys

import socketio

NAMESPACE = "/smcp"


class Member:
    def __init__(self) -> None:
        self.client = socketio.AsyncClient()
        self.heard: asyncio.Queue = asyncio.Queue()
        self.client.on("*", self.hear, namespace=NAMESPACE)

    async def hear(self, event: str, body: dict) -> object:
        if event == "client:tool_call":
            return {"content": [{"type": "text", "text": body["req_id"]}], "isError": False}
        if event in ("client:get_config", "client:get_mcp_config"):
            return {"servers": {}}
        if event.startswith("notify:") and event != "notify:still_there":
            await self.heard.put([event, body])
        return None

    async def connect(self, url: str, token: str, transports: list[str]) -> None:
        auth = {"token": token}
        await self.client.connect(url, auth=auth, namespaces=[NAMESPACE], transports=transports)

    async def ask(self, event: str, body: object) -> object:
        return await self.client.call(event, body, namespace=NAMESPACE, timeout=20)


async def main(url: str, query: str, transports: list[str], calls: int) -> None:
    agent, computer = Member(), Member()
    await agent.connect(url + query, "t-ann", transports)
    await computer.connect(url + query, "t-pc", transports)
    joined = [
        await agent.ask("server:join_office", {"role": "agent", "name": "ann", "office_id": "o"}),
        await computer.ask("server:join_office", {"role": "computer", "name": "pc", "office_id": "o"}),
    ]
    entered = await asyncio.wait_for(agent.heard.get(), 10)
    call = {"agent": "ann", "computer": "pc", "tool_name": "t", "params": {}, "timeout": 20}
    answers = await asyncio.gather(
        *(agent.ask("client:tool_call", {**call, "req_id": f"r{n}"}) for n in range(calls))
    )
    right = sum(answer["content"][0]["text"] == f"r{n}" for n, answer in enumerate(answers))
    refused = await agent.ask("client:tool_call", {**call, "req_id": "x", "computer": "nobody"})
    binary = await agent.ask("client:tool_call", {**call, "req_id": "y", "computer": b"bytes"})
    malformed = await agent.ask("client:tool_call", "text")
    await computer.client.disconnect()
    left = await asyncio.wait_for(agent.heard.get(), 10)
    print(json.dumps({
        "transport": agent.client.transport(),
        "joined": joined,
        "entered": entered,
        "right": right,
        "refused": refused,
        "binary": binary,
        "malformed": malformed,
        "left": left,
    }))
    await agent.client.disconnect()


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3].split(","), int(sys.argv[4])))
