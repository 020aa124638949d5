// The JavaScript SDK 1.3.0 as a server whose agent echoes, asks or waits. Prints its address; ends with its standard input.
import { createRequire } from "node:module";

const [modules, binding] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const express = require("express");
const { AGENT_CARD_PATH, Role, TaskState } = require("@a2a-js/sdk");
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = require("@a2a-js/sdk/server");
const { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } = require("@a2a-js/sdk/server/express");

const part = (text) => ({ content: { $case: "text", value: text }, mediaType: "text/plain", filename: "", metadata: {} });
const cancels = new Map();

class Echo {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const words = userMessage.parts[0].content.value;
    const said = (text) => ({
      messageId: crypto.randomUUID(), contextId, taskId, role: Role.ROLE_AGENT, parts: [part(text)],
      metadata: {}, extensions: [], referenceTaskIds: [],
    });
    const status = (state, message) => ({ state, message, timestamp: new Date().toISOString() });
    const tell = (state, message) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, message), metadata: {} }));
    const known = task ?? { id: taskId, contextId, artifacts: [], history: [userMessage], metadata: {} };
    bus.publish(AgentEvent.task({ ...known, status: status(TaskState.TASK_STATE_WORKING) }));
    if (!task && words === "ask") {
      tell(TaskState.TASK_STATE_INPUT_REQUIRED, said("which?"));
    } else if (!task && words === "wait") {
      await new Promise((resolve) => cancels.set(taskId, resolve));
      tell(TaskState.TASK_STATE_CANCELED);
    } else {
      const artifact = { artifactId: "a", name: "a", description: "", parts: [part(`echo ${words}`)], metadata: {}, extensions: [] };
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: {} }));
      tell(TaskState.TASK_STATE_COMPLETED);
    }
    bus.finished();
  }

  async cancelTask(taskId) {
    cancels.get(taskId)?.();
  }
}

const app = express();
const server = app.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = {
    name: "echo", description: "echoes", version: "1", provider: undefined,
    supportedInterfaces: [{ url: `${url}/agent`, protocolBinding: binding, tenant: "", protocolVersion: "1.0" }],
    capabilities: { streaming: true, pushNotifications: false, extensions: [] },
    securitySchemes: {}, securityRequirements: [], signatures: [],
    defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
    skills: [{ id: "echo", name: "echo", description: "echoes", tags: ["echo"], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Echo());
  const handler = binding === "JSONRPC" ? jsonRpcHandler : restHandler;
  app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/agent", handler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
  console.log(url);
});
process.stdin.resume().on("end", () => process.exit(0));
