"""The Python SDK 1.3.0 as a server whose agent echoes, asks or waits. Prints its address; ends with its standard input."""

import asyncio
import socket
import sys
import threading

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette


class Echo(AgentExecutor):
    async def execute(self, context, events):
        words = context.get_user_input()
        updater = TaskUpdater(events, context.task_id, context.context_id)
        if context.current_task is None:
            await events.enqueue_event(new_task_from_user_message(context.message))
            await updater.start_work()
            if words == "ask":
                question = updater.new_agent_message([Part(text="which?")])
                await updater.requires_input(question)
                return
            if words == "wait":
                await asyncio.sleep(3600)
        await updater.add_artifact([Part(text=f"echo {words}")])
        await updater.complete()

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


def main(binding):
    bound = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    card = AgentCard(
        name="echo",
        description="echoes",
        version="1",
        supported_interfaces=[AgentInterface(url=f"{url}/agent", protocol_binding=binding, protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="echo", description="echoes", tags=["echo"])],
    )
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_agent_card_routes(card)
    if binding == "JSONRPC":
        routes += create_jsonrpc_routes(handler, "/agent")
    else:
        routes += create_rest_routes(handler, path_prefix="/agent")
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
    threading.Thread(target=lambda: (sys.stdin.read(), setattr(server, "force_exit", True), setattr(server, "should_exit", True)), daemon=True).start()
    print(url, flush=True)
    server.run(sockets=[bound])


main(*sys.argv[1:])
