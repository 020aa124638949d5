"""The Python SDK 0.3.26 invites a node to take a workspace: prints the data of the answer."""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import DataPart, Message, Part, Role

EXTENSION = "https://awcp-protocol.org/v1"


async def main(url, token, data):
    headers = {"authorization": f"Bearer {token}", "X-A2A-Extensions": EXTENSION}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        assert EXTENSION in [it.uri for it in card.capabilities.extensions], card
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        parts = [Part(root=DataPart(data=data))]
        message = Message(message_id="1", role=Role.user, parts=parts, extensions=[EXTENSION])
        [answer] = [event async for event in client.send_message(message)]
        print(json.dumps(answer.parts[0].root.data))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
