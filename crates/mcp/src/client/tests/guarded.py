"""A server of one tool that wants a login, and the authorization server that gives it; prints its port.

Everybody who asks is agreed with, unless DENY is set. Tokens live for LIFETIME seconds. What happens is written as words
into the file JOURNAL: register, agree, code, refresh.
"""

import os
import secrets
import socket
import time

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

LIFETIME = int(os.environ.get("LIFETIME", "3600"))
SCOPES = ["tools"]


def note(word):
    with open(os.environ["JOURNAL"], "a") as journal:
        journal.write(word + "\n")


class Provider:
    def __init__(self):
        self.clients, self.codes, self.access, self.renewals = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        note("register")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params: AuthorizationParams):
        if "DENY" in os.environ:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        note("agree")
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or SCOPES,
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    def give(self, client_id, scopes, resource):
        access, renewal = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        expires = int(time.time()) + LIFETIME
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=expires, resource=resource
        )
        self.renewals[renewal] = RefreshToken(token=renewal, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=LIFETIME, scope=" ".join(scopes), refresh_token=renewal)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        note("code")
        del self.codes[authorization_code.code]
        return self.give(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        note("refresh")
        del self.renewals[refresh_token.token]
        return self.give(client.client_id, scopes or refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token):
        return self.access.get(token)

    async def revoke_token(self, token):
        self.access.pop(token.token, None)
        self.renewals.pop(token.token, None)


with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
here = f"http://127.0.0.1:{port}"
server = MCPServer(
    "guarded",
    auth_server_provider=Provider(),
    auth=AuthSettings(
        issuer_url=here,
        resource_server_url=f"{here}/mcp",
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES),
        required_scopes=SCOPES,
        validate_token_resource=True,
    ),
)


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


print(port, flush=True)
server.run("streamable-http", port=port)
