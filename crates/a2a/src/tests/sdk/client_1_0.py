"""The Python SDK 1.3.0 as a client: each step prints its name when it went as it should."""

import asyncio
import http.server
import json
import sys
import threading

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_artifact_text, new_data_message, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)


def said(text, **ids):
    return new_text_message(text, role=Role.ROLE_USER, **ids)


async def last_task(client, message, **configuration):
    request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))
    return [event async for event in client.send_message(request)]


class Hook(http.server.BaseHTTPRequestHandler):
    told = []
    done = threading.Event()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Hook.told.append((self.headers.get("x-a2a-notification-token"), body))
        self.send_response(200)
        self.end_headers()
        if "TASK_STATE_COMPLETED" in json.dumps(body):
            Hook.done.set()

    def log_message(self, *_):
        pass


async def main(url, binding):
    config = lambda streaming: ClientConfig(
        streaming=streaming,
        supported_protocol_bindings=[binding],
        httpx_client=httpx.AsyncClient(timeout=30),
    )
    client = await create_client(url, config(False))
    print("card")
    [event] = await last_task(client, said("say hello"))
    assert event.task.status.state == TaskState.TASK_STATE_COMPLETED, event
    assert get_artifact_text(event.task.artifacts[0]) == "hello", event
    print("send")
    got = await client.get_task(GetTaskRequest(id=event.task.id))
    assert got.id == event.task.id
    listed = await client.list_tasks(ListTasksRequest(context_id=event.task.context_id))
    assert [task.id for task in listed.tasks] == [event.task.id]
    print("get and list")
    [event] = await last_task(client, new_data_message({"awcp": {"type": "INVITE"}}, role=Role.ROLE_USER))
    assert event.message.parts[0].data.struct_value["awcp"]["code"] == "DECLINED", event
    print("extension")
    streaming = await create_client(url, config(True))
    events = await last_task(streaming, said("say a b c"))
    assert events[0].HasField("task"), events
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events
    print("stream")
    [event] = await last_task(client, said("ask colour?"))
    assert event.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    following = [event async for event in follow(streaming, event.task.id, client)]
    assert following[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, following
    print("subscribe and answer")
    [event] = await last_task(client, said("wait"), return_immediately=True)
    cancelled = await client.cancel_task(CancelTaskRequest(id=event.task.id))
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED, cancelled
    print("cancel")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hook = f"http://127.0.0.1:{server.server_address[1]}/"
    push = TaskPushNotificationConfig(url=hook, token="tok")
    [event] = await last_task(client, said("say pushed"), task_push_notification_config=push)
    assert await asyncio.to_thread(Hook.done.wait, 30), Hook.told
    assert Hook.told[0][0] == "tok"
    print("push")


async def follow(streaming, task, client):
    answered = False
    async for event in streaming.subscribe(SubscribeToTaskRequest(id=task)):
        if not answered:
            answered = True
            await last_task(client, said("blue", task_id=task))
        yield event


asyncio.run(main(*sys.argv[1:]))
