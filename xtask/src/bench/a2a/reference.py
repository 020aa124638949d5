"""The SDK's server with an agent that echoes. Prints its address; ends with its standard input."""

import os
import socket
import sys
import threading

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette


class Echo(AgentExecutor):
    async def execute(self, context, events):
        updater = TaskUpdater(events, context.task_id, context.context_id)
        await events.enqueue_event(new_task_from_user_message(context.message))
        await updater.start_work()
        await updater.add_artifact([Part(text=context.get_user_input())])
        await updater.complete()

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    bound = socket.create_server(("127.0.0.1", 0))
    address = "%s:%d" % bound.getsockname()
    interface = AgentInterface(url=f"http://{address}/agent", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="talker",
        description="echoes",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="echo", description="echoes", tags=["echo"])],
    )
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_agent_card_routes(card) + create_jsonrpc_routes(handler, "/agent")
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
    threading.Thread(target=end_with_input, daemon=True).start()
    print(address, flush=True)
    server.run(sockets=[bound])


main()
