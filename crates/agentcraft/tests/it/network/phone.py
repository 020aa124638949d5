"""An agent on a phone, as the design of the local network imagines it: radio, news that it asks about, a calendar."""
import json
import sys

WHICH = "找到5条：\n1. 泽连斯基讲话\n2. 前线更新\n3. 欧盟援助\n4. 难民安置\n5. 和谈前景\n\n要整理哪几条？"
DELETE = "即将删除3月1日到3月7日的所有日程（共5条），确认执行？"
OPTIONS = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
sessions, turns, asked = 0, {}, {}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def end(turn, text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": turns[turn], "update": update})
    send(id=turn, result={"stopReason": "end_turn"})


def request(turn, method, params):
    id = f"ask {len(asked)}"
    asked[id] = turn
    send(id=id, method=method, params=params)


def ask(turn, question):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    params = {"sessionId": turns[turn], "mode": "form", "message": question, "requestedSchema": schema}
    request(turn, "elicitation/create", params)


def prompted(turn, text):
    if "one line of JSON" in text:
        end(turn, json.dumps({"echo": "复述任何一句话", "money": "is not there"}))
    elif "电台" in text:
        end(turn, "正在播放：FM96.4 轻音乐频道")
    elif "删除" in text:
        call = {"toolCallId": "calendar", "title": DELETE, "kind": "delete"}
        params = {"sessionId": turns[turn], "toolCall": call, "options": OPTIONS}
        request(turn, "session/request_permission", params)
    elif "前三条" in text:
        ask(turn, "请问PDF需要什么纸张大小？")
    elif "乌克兰" in text:
        ask(turn, WHICH)
    else:
        end(turn, text)


def answered(turn, result):
    if result.get("action") == "accept":
        with open("ukraine-news-0227.pdf", "w") as pdf:
            pdf.write(result["content"]["answer"])
        end(turn, "搞定了")
    else:
        end(turn, json.dumps(result))


for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params")
    if method == "initialize":
        send(id=id, result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        sessions += 1
        send(id=id, result={"sessionId": f"phone-{sessions}"})
    elif method == "session/prompt":
        turns[id] = params["sessionId"]
        prompted(id, params["prompt"][0]["text"])
    elif method is None:
        answered(asked[id], message.get("result") or {})
    elif id is not None:
        send(id=id, result={})
