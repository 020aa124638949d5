"""The released SDK's agent: sends a file to the computer `pc`, and reads its skills."""

import asyncio
import hashlib
import json
import sys

from a2c_smcp.agent import AsyncSMCPAgentClient, DefaultAgentAuthProvider
from a2c_smcp.utils.blob import drain_blob


async def main(url: str) -> None:
    auth = DefaultAgentAuthProvider(agent_id="another-name", office_id="o", api_key="t-ann")
    agent = AsyncSMCPAgentClient(auth_provider=auth)
    await agent.connect_to_server(url)
    await agent.join_office("o", "ann", namespace="/smcp")
    data = bytes(range(256)) * 2500
    sent = await agent.put_blob("pc", data, name_hint="../a file.bin")
    with open(sent.landing_path, "rb") as landed:
        is_whole = landed.read() == data
    refused = []
    for computer, payload in (("nobody", b"x"), ("pc", b"")):
        try:
            await agent.put_blob(computer, payload)
        except Exception as error:
            refused.append(type(error).__name__)
    skills = (await agent.get_skills("pc"))["skills"]
    entry = await agent.get_skill("pc", "tidy")
    long = await agent.get_skill("pc", "tidy", "long.txt")
    picture = await agent.get_skill("pc", "tidy", "picture.png")
    drained, _ = await drain_blob(agent._make_blob_call(), "pc", picture["blob_handle"])
    for name, path in (("none", None), ("tidy", "../secret.txt")):
        try:
            await agent.get_skill("pc", name, path)
        except Exception as error:
            refused.append(getattr(error, "code", None) or str(error))
    print(json.dumps({
        "whole": is_whole,
        "size": sent.total_size,
        "sum": sent.sha256 == hashlib.sha256(data).hexdigest(),
        "path": sent.landing_path,
        "skills": [[skill["name"], skill["description"]] for skill in skills],
        "entry": entry["body"],
        "long": len(long["body"]),
        "picture": list(drained),
        "refused": refused,
    }))
    await agent.disconnect()


asyncio.run(main(sys.argv[1]))
