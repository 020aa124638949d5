"""The Python SDK 1.3.0 invites a node to take a workspace: prints the data of the answer."""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, SendMessageRequest
from google.protobuf import json_format

EXTENSION = "https://awcp-protocol.org/v1"


async def main(url, token, data):
    headers = {"authorization": f"Bearer {token}", "A2A-Extensions": EXTENSION}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        assert EXTENSION in [it.uri for it in card.capabilities.extensions], card
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"data": data}], "extensions": [EXTENSION]}
        request = SendMessageRequest(message=json_format.ParseDict(message, Message()))
        [answer] = [event async for event in client.send_message(request)]
        print(json.dumps(json_format.MessageToDict(answer.message.parts[0].data)))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
