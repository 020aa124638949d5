"""The SDK's client finds an agent by its card, reads there that a token is needed, and brings it."""

import asyncio
import sys

import httpx
from a2a.client import ClientConfig, create_client
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.helpers import get_artifact_text, new_text_message
from a2a.types import GetExtendedAgentCardRequest, Role, SendMessageRequest, TaskState


class Token(CredentialService):
    async def get_credentials(self, name, _):
        assert name == "bearer", name
        return sys.argv[2]


async def said(client, text):
    request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
    return [event async for event in client.send_message(request)]


async def main(url):
    for binding in ["JSONRPC", "HTTP+JSON"]:
        config = lambda: ClientConfig(
            streaming=False,
            supported_protocol_bindings=[binding],
            httpx_client=httpx.AsyncClient(timeout=30),
        )
        stranger = await create_client(f"{url}/a2a/echo", config())
        try:
            raise SystemExit(f"a stranger was served: {await said(stranger, 'hello')}")
        except Exception as refused:
            assert "401" in str(refused) or "token" in str(refused), refused
        client = await create_client(f"{url}/a2a/echo", config(), interceptors=[AuthInterceptor(Token())])
        [event] = await said(client, "hello from the SDK")
        assert event.task.status.state == TaskState.TASK_STATE_COMPLETED, event
        assert "hello from the SDK" in get_artifact_text(event.task.artifacts[0]), event
        extended = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert any(tag.startswith("backend:") for tag in extended.skills[0].tags), extended


asyncio.run(main(sys.argv[1]))
