"""An MCP server with one window that its one tool writes; whoever has subscribed to the window is told."""

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

WINDOW = "window://board"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
board = "empty"
followed = set()


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="write", input_schema=SCHEMA)])


async def call_tool(ctx, params):
    global board
    board = params.arguments["text"]
    if WINDOW in followed:
        await ctx.session.send_resource_updated(WINDOW)
    return types.CallToolResult(content=[types.TextContent(type="text", text="written")])


async def list_resources(ctx, params):
    return types.ListResourcesResult(resources=[types.Resource(uri=WINDOW, name="board")])


async def read_resource(ctx, params):
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=board)])


async def subscribe(ctx, params):
    followed.add(str(params.uri))
    return types.EmptyResult()


server = Server(
    "board",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
)


async def main():
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


anyio.run(main)
