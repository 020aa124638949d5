"""The Python SDK 0.3.26 as a server whose agent echoes, asks or waits. Prints its address; ends with its standard input."""

import asyncio
import socket
import sys
import threading

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_task


class Echo(AgentExecutor):
    async def execute(self, context, events):
        words = context.get_user_input()
        if context.current_task is None:
            await events.enqueue_event(new_task(context.message))
        updater = TaskUpdater(events, context.task_id, context.context_id)
        if context.current_task is None:
            await updater.start_work()
            if words == "ask":
                question = updater.new_agent_message([Part(root=TextPart(text="which?"))])
                await updater.requires_input(question, final=True)
                return
            if words == "wait":
                await asyncio.sleep(3600)
        await updater.add_artifact([Part(root=TextPart(text=f"echo {words}"))])
        await updater.complete()

    async def cancel(self, context, events):
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


def main():
    bound = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    card = AgentCard(
        name="echo",
        description="echoes",
        version="1",
        url=f"{url}/",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="echo", description="echoes", tags=["echo"])],
    )
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore())
    app = A2AStarletteApplication(agent_card=card, http_handler=handler).build()
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(target=lambda: (sys.stdin.read(), setattr(server, "force_exit", True), setattr(server, "should_exit", True)), daemon=True).start()
    print(url, flush=True)
    server.run(sockets=[bound])


main()
