// A small agent that speaks ACP as real ones do: it asks before it acts, with forms, and writes Markdown.

import { createInterface } from "node:readline";

const calls = new Map();
let last = 0;
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const call = (method, params) => new Promise((resolve) => {
  last += 1;
  calls.set(last, resolve);
  send({ id: last, method, params });
});

const YES_NO = [{ optionId: "yes", name: "Yes", kind: "allow_once" }, { optionId: "no", name: "No", kind: "reject_once" }];
const TRANSFER = { to: "DE44 5001 0517", amount: 9999, note: "<b>bold</b> \u202Ereversed", more: "m".repeat(30000) };
const DEPLOY = { type: "object", required: ["target", "replicas"], properties: {
  target: { type: "string", title: "Target", oneOf: [{ const: "staging", title: "Staging" }, { const: "production", title: "Production" }] },
  replicas: { type: "integer", minimum: 1, maximum: 9 }, force: { type: "boolean", description: "Even if somebody is there" } } };

const MARKDOWN = `1. First, read it:

   \`\`\`js
   const a = 1;
   \`\`\`

2. Then change it:
   - rename \`a\`
   - keep the rest

3. Run __all__ of the _tests_.

- [x] done
- [ ] open

\`\`\`\`md
\`\`\`
inside

still inside
\`\`\`
\`\`\`\`

![a chart](https://example.org/chart.png) and [a file](file:///tmp/report.pdf), snake_case_name.

| a | b |
|---|---|
| 1 \\| 2 | 3 |
`;

const long = (changed) => Array.from({ length: 1200 }, (_, line) => `line ${line}${line === changed ? " is another" : ""}`).join("\n");
const WIDE = `run --config=${"a-name-without-any-space".repeat(12)}`;
const FORMS = {
  /** Nothing to fill in. */
  go: { type: "object", properties: {} },
  force: { type: "object", properties: { force: { type: "boolean" } } },
  version: { type: "object", required: ["version", "why"], properties: { version: { type: "string", pattern: "^v[0-9]" }, why: { type: "string" } } },
  checks: { type: "object", required: ["checks"], properties: { checks: { type: "array", title: "Checks", minItems: 1, items: { type: "string", enum: ["lint", "test", "build"] } } } },
};

const prompts = {
  /** Tells the call first, and what it would do only when it asks. */
  async split(say, sessionId) {
    send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "tool_call", toolCallId: "p1", title: "Edit file", kind: "edit", status: "pending" } } });
    const toolCall = { toolCallId: "p1", content: [{ type: "diff", path: "/etc/cron.d/\u200Bbackup", oldText: "a\nb\n", newText: "a\nrm -rf / \u202E# safe\n" }] };
    const options = [...YES_NO, { optionId: "trick", name: "Deny \u202Ewolla", kind: "allow_always" }];
    const { result } = await call("session/request_permission", { sessionId, toolCall, options });
    say(`told ${JSON.stringify(result)}`);
  },
  async long(say, sessionId) {
    const toolCall = { toolCallId: "l1", title: WIDE, kind: "edit", status: "pending", content: [{ type: "diff", path: "/srv/long.txt", oldText: long(-1), newText: long(600) }] };
    const { result } = await call("session/request_permission", { sessionId, toolCall, options: YES_NO });
    say(`told ${JSON.stringify(result)}`);
  },
  /** Signs that are never closed, and quotes in quotes beyond all measure. */
  async deep(say) {
    say(`${">".repeat(4000)} deep\n\n${"**kw, ".repeat(2000)}\n\nafter it`);
  },
  async transfer(say, sessionId) {
    const toolCall = { toolCallId: "t1", title: "mcp__bank__transfer", kind: "other", status: "pending", rawInput: TRANSFER, locations: [{ path: "/etc/passwd", line: 3 }] };
    const { result } = await call("session/request_permission", { sessionId, toolCall, options: YES_NO });
    send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "tool_call", toolCallId: "t1", title: "mcp__bank__transfer", kind: "other", status: "completed", rawInput: TRANSFER, rawOutput: { receipt: "r-77" } } } });
    say(`told ${JSON.stringify(result)}`);
  },
  async deploy(say, sessionId) {
    const { result } = await call("elicitation/create", { sessionId, mode: "form", message: "Where to?", requestedSchema: DEPLOY });
    say(`told ${JSON.stringify(result)}`);
  },
  /** Asks, and goes on with something else meanwhile. */
  async busy(say, sessionId) {
    const toolCall = { toolCallId: "b1", title: "Delete the old logs", kind: "delete", status: "pending" };
    const answer = call("session/request_permission", { sessionId, toolCall, options: YES_NO });
    for (let count = 0; count < 1500; count += 1) {
      send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "tool_call_update", toolCallId: "b2", title: `building ${count}`, status: "in_progress" } } });
    }
    send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "tool_call_update", toolCallId: "b2", title: "built", status: "completed" } } });
    say(`told ${JSON.stringify((await answer).result)}`);
  },
  async markdown(say) {
    for (let at = 0; at < MARKDOWN.length; at += 5) say(MARKDOWN.slice(at, at + 5));
  },
};

const answers = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: { loadSession: false } }),
  "session/new": () => ({ sessionId: `s${last += 1}` }),
  async "session/prompt"({ sessionId, prompt }) {
    const say = (text) => send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } } } });
    const words = prompt.map(({ text }) => text ?? "").join("");
    const form = FORMS[words];
    if (form) {
      const { result } = await call("elicitation/create", { sessionId, mode: "form", message: `Form ${words}`, requestedSchema: form });
      say(`told ${JSON.stringify(result)}`);
    } else {
      await (prompts[words] ?? (async () => say(`you said ${words}`)))(say, sessionId);
    }
    return { stopReason: "end_turn", usage: { inputTokens: 1200, outputTokens: 345, totalTokens: 1545 } };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, ...said } = JSON.parse(line);
  if (method === undefined) calls.get(id)?.(said);
  else if (id !== undefined && answers[method]) Promise.resolve(answers[method](params)).then((result) => send({ id, result }));
  else if (id !== undefined) send({ id, error: { code: -32601, message: `there is no ${method}` } });
}
