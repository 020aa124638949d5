"""The Python SDK 0.3.26 as a client: each step prints its name when it went as it should."""

import asyncio
import http.server
import json
import sys
import threading
import uuid

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    DataPart,
    Message,
    MessageSendConfiguration,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskQueryParams,
    TaskState,
    TextPart,
)


def said(text, **ids):
    return Message(role=Role.user, parts=[Part(root=TextPart(text=text))], message_id=str(uuid.uuid4()), **ids)


async def all_of(client, message, configuration=None):
    return [event async for event in client.send_message(message, configuration=configuration)]


class Hook(http.server.BaseHTTPRequestHandler):
    told = []
    done = threading.Event()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Hook.told.append((self.headers.get("x-a2a-notification-token"), body))
        self.send_response(200)
        self.end_headers()
        if body.get("kind") == "task" and body["status"]["state"] == "completed":
            Hook.done.set()

    def log_message(self, *_):
        pass


async def main(url):
    connect = lambda streaming: ClientFactory.connect(
        url, ClientConfig(streaming=streaming, httpx_client=httpx.AsyncClient(timeout=30))
    )
    client = await connect(False)
    print("card")
    [(task, _)] = await all_of(client, said("say hello"))
    assert task.status.state == TaskState.completed, task
    assert task.artifacts[0].parts[0].root.text == "hello"
    print("send")
    assert (await client.get_task(TaskQueryParams(id=task.id))).id == task.id
    print("get")
    invite = Message(
        role=Role.user,
        parts=[Part(root=DataPart(data={"awcp": {"type": "INVITE"}}))],
        message_id="m",
    )
    [reply] = await all_of(client, invite)
    assert reply.parts[0].root.data["awcp"]["code"] == "DECLINED", reply
    print("extension")
    streaming = await connect(True)
    events = await all_of(streaming, said("say a b c"))
    assert events[-1][0].status.state == TaskState.completed, events
    print("stream")
    [(task, _)] = await all_of(client, said("ask colour?"))
    assert task.status.state == TaskState.input_required
    async for event, update in streaming.resubscribe(TaskIdParams(id=task.id)):
        assert event.id == task.id
        if update is None:
            await all_of(client, said("blue", task_id=task.id))
    assert event.status.state == TaskState.completed, event
    print("resubscribe and answer")
    [(task, _)] = await all_of(client, said("wait"), MessageSendConfiguration(blocking=False))
    cancelled = await client.cancel_task(TaskIdParams(id=task.id))
    assert cancelled.status.state == TaskState.canceled
    print("cancel")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hook = f"http://127.0.0.1:{server.server_address[1]}/"
    push = PushNotificationConfig(url=hook, token="tok")
    await all_of(client, said("say pushed"), MessageSendConfiguration(push_notification_config=push))
    assert await asyncio.to_thread(Hook.done.wait, 30), Hook.told
    assert Hook.told[0][0] == "tok"
    print("push")


asyncio.run(main(*sys.argv[1:]))
