"""The released SDK's agent: joins an office and uses everything that the computer `pc` offers."""

import asyncio
import json
import sys

from a2c_smcp.agent import AsyncSMCPAgentClient, DefaultAgentAuthProvider


async def main(url: str) -> None:
    auth = DefaultAgentAuthProvider(agent_id="another-name", office_id="o", api_key="t-ann")
    agent = AsyncSMCPAgentClient(auth_provider=auth)
    await agent.connect_to_server(url)
    early = await agent.emit_tool_call("pc", "one__say", {}, 10)
    await agent.join_office("o", "ann", namespace="/smcp")
    computers = await agent.get_computers_in_office("o")
    tools = await agent.get_tools_from_computer("pc")
    said = await agent.emit_tool_call("pc", "one__say", {"k": "é"}, 10)
    image = await agent.emit_tool_call("pc", "one__image", {}, 20)
    unknown = await agent.emit_tool_call("pc", "one__unknown", {}, 10)
    forbidden = await agent.emit_tool_call("pc", "one__burn", {}, 10)
    disabled = await agent.emit_tool_call("pc", "off__any", {}, 10)
    wrong = await agent.emit_tool_call("", "one__say", {}, 10)
    nobody = await agent.emit_tool_call("nobody", "one__say", {}, 10)
    config = await agent.get_config_from_computer("pc")
    desktop = await agent.get_desktop_from_computer("pc", size=1)
    hung = await agent.emit_tool_call("pc", "one__hang", {}, 1)
    print(json.dumps({
        "computers": [computer["name"] for computer in computers],
        "tools": [tool["name"] for tool in tools["tools"]],
        "said": said.content[0].text,
        "image": len(image.content[0].data),
        "errors": [
            result.content[0].text if result.isError else None
            for result in (early, unknown, forbidden, disabled, wrong, nobody, hung)
        ],
        "servers": sorted(config["servers"]),
        "config": config,
        "desktop": desktop["desktops"],
    }))
    await agent.disconnect()


asyncio.run(main(sys.argv[1]))
