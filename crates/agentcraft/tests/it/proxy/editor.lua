-- Neovim as an editor of agents: takes the settings that `agentcraft editor neovim` printed (the file in $ENTRY), starts what they
-- name as a job, and talks to it. The plugin they are for is not here; two functions of it stand in for it.

local settings
package.preload["codecompanion"] = function()
  return { setup = function(given) settings = given end }
end
package.preload["codecompanion.adapters"] = function()
  return { extend = function(_, given) return given end }
end

local PATIENCE_MS = 60000
local answers, told, asked, rest, last_id, code = {}, {}, 0, "", 0, nil
local job

local function send(message)
  message.jsonrpc = "2.0"
  vim.fn.chansend(job, vim.fn.json_encode(message) .. "\n")
end

local function hear(line)
  local message = vim.fn.json_decode(line)
  if message.method == "session/request_permission" then
    asked = asked + 1
    for _, option in ipairs(message.params.options) do
      if option.kind == "allow_once" then
        send({ id = message.id, result = { outcome = { outcome = "selected", optionId = option.optionId } } })
      end
    end
  elseif message.method then
    table.insert(told, message.params)
  else
    answers[message.id] = message
  end
end

-- A job's output comes in pieces: all but the last end with a line.
local function on_stdout(_, pieces)
  rest = rest .. pieces[1]
  for index = 2, #pieces do
    if rest ~= "" then hear(rest) end
    rest = pieces[index]
  end
end

local function ask(method, params)
  last_id = last_id + 1
  send({ id = last_id, method = method, params = params })
  return last_id
end

local function answer(id)
  assert(vim.wait(PATIENCE_MS, function() return answers[id] ~= nil or code ~= nil end, 5), "no answer to " .. id)
  assert(answers[id] and answers[id].result, vim.inspect(answers[id] or code))
  return answers[id].result
end

local function call(method, params) return answer(ask(method, params)) end

local function prompt(session, text)
  return { sessionId = session, prompt = { { type = "text", text = text } } }
end

local function words(session)
  local all = {}
  for _, params in ipairs(told) do
    if params.sessionId == session and params.update.sessionUpdate == "agent_message_chunk" then
      table.insert(all, params.update.content.text)
    end
  end
  return table.concat(all)
end

local function talk()
  dofile(vim.env.ENTRY)
  local _, adapter = next(settings.adapters.acp)
  local command = adapter().commands.default
  job = vim.fn.jobstart(command, {
    on_stdout = on_stdout,
    on_exit = function(_, exit) code = exit end,
  })
  assert(job > 0, "could not start " .. vim.inspect(command))
  local hello = call("initialize", {
    protocolVersion = 1,
    clientCapabilities = vim.empty_dict(),
    clientInfo = { name = "neovim", version = tostring(vim.version().minor) },
  })
  assert(hello.protocolVersion == 1, vim.inspect(hello))
  local session = call("session/new", { cwd = vim.fn.getcwd(), mcpServers = {} }).sessionId
  assert(call("session/prompt", prompt(session, "hello from neovim")).stopReason == "end_turn")
  assert(words(session):find("hello from neovim", 1, true), words(session))
  call("session/prompt", prompt(session, "/write neovim.txt yes"))
  assert(asked == 1, asked)
  local hanging = ask("session/prompt", prompt(session, "/hang"))
  send({ method = "session/cancel", params = { sessionId = session } })
  assert(answer(hanging).stopReason == "cancelled")
  vim.fn.chanclose(job, "stdin")
  assert(vim.wait(PATIENCE_MS, function() return code ~= nil end, 5), "the proxy lives on")
  assert(code == 0, "the proxy failed: " .. code)
end

local fine, why = pcall(talk)
if not fine then
  io.stderr:write(tostring(why) .. "\n")
  vim.cmd("cquit")
end
vim.cmd("qall!")
