"""The released SDK's agent: calls, cancels and lists what the released computer `pc` offers, wherever that is."""

import asyncio
import json
import sys

from a2c_smcp.agent import AsyncSMCPAgentClient, DefaultAgentAuthProvider


async def main(url: str) -> None:
    auth = DefaultAgentAuthProvider(agent_id="ann", office_id="o", api_key="t-ann")
    agent = AsyncSMCPAgentClient(auth_provider=auth)
    await agent.connect_to_server(url)
    await agent.join_office("o", "ann", namespace="/smcp")
    computers = await agent.get_computers_in_office("o")
    tools = await agent.get_tools_from_computer("pc")
    sums = await asyncio.gather(*(
        agent.emit_tool_call("pc", "adder__add", {"a": n, "b": 1}, 30) for n in range(20)
    ))
    forbidden = await agent.emit_tool_call("pc", "adder__secret", {}, 10)
    late = await agent.emit_tool_call("pc", "adder__wait", {}, 1)
    config = await agent.get_config_from_computer("pc")
    desktop = await agent.get_desktop_from_computer("pc")
    print(json.dumps({
        "computers": [computer["name"] for computer in computers],
        "tools": sorted(tool["name"] for tool in tools["tools"]),
        "sums": [int(result.content[0].text) for result in sums],
        "errors": [result.isError for result in (forbidden, late)],
        "servers": sorted(config["servers"]),
        "desktop": desktop["desktops"],
    }))
    await agent.disconnect()


asyncio.run(main(sys.argv[1]))
