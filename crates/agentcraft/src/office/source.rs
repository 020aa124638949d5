//! An office as a source of tools: every computer is a server, its tools are fetched when it enters or changes, and
//! dropped when it leaves.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::{
    DriverFuture, ServerState, ServerStatus, Tool, ToolCall, ToolError, ToolOutput, ToolProgress,
    ToolSource,
};
use platform::Tasks;
use serde_json::{Value, json};
use smcp::{
    LinkConfig, LinkError, Listener, Standing,
    agent::{Agent, Call, News},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use wire::smcp::CallResult;

/// The first pause before a computer that did not answer is asked again, which doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// The pause before a call is repeated for a computer that seems to be there and is not found.
const REPEAT_PAUSE: Duration = Duration::from_millis(200);

/// The tool that is there instead of the others while the office does not let us in.
const WAIT: &str = "wait";

/// The tools of an office, for as long as this lives.
#[derive(Debug)]
pub(crate) struct OfficeTools {
    agent: Agent,
    call_timeout: Duration,
    desk: Arc<Desk>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Desk {
    office: String,
    known: Mutex<Known>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Known {
    /// How we stand with the office itself.
    office: ServerStatus,
    /// Why the office does not let us in, while it does not.
    refused: Option<String>,
    computers: BTreeMap<String, Computer>,
    /// Counts what was asked, so that a late answer changes nothing.
    asked: u64,
}

#[derive(Debug)]
struct Computer {
    status: ServerStatus,
    tools: Vec<Tool>,
    asked: u64,
    /// Grows with what it says of its windows.
    news: u64,
}

impl OfficeTools {
    /// Joins the office, and goes on doing so after every loss.
    pub(crate) fn start(link: LinkConfig, call_timeout: Duration, tasks: &Tasks) -> Self {
        let tasks = tasks.child();
        let desk = Arc::new(Desk {
            office: link.office.clone(),
            known: Mutex::new(Known {
                office: ServerStatus::Starting,
                refused: None,
                computers: BTreeMap::new(),
                asked: 0,
            }),
            changes: watch::channel(0).0,
        });
        let (agent, news) = Agent::start(link, &tasks);
        let follower = Follower {
            agent: agent.clone(),
            desk: desk.clone(),
            tasks: tasks.child(),
        };
        tasks.spawn(|_| follower.follow(news));
        Self {
            agent,
            call_timeout,
            desk,
            tasks,
        }
    }

    /// Waits until the office has let us in, or has refused.
    pub(crate) async fn joined(&self) -> Result<(), LinkError> {
        self.agent.joined().await
    }

    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolError> {
        if call.server == self.desk.office && call.tool == WAIT {
            return self.wait_for_place(&call.cancel).await;
        }
        if !self.desk.known().computers.contains_key(&call.server) {
            return Err(ToolError::NoServer {
                server: call.server,
            });
        }
        let mut request = Call::new(&call.server, &call.tool, call.arguments, self.call_timeout);
        request.listener = call.progress.map(|telling| {
            Listener::new(move |said| {
                // Progress that nobody reads in time is stale.
                let _ = telling.try_send(ToolProgress {
                    progress: said.progress,
                    total: said.total,
                    message: said.message,
                });
            })
        });
        let result = self.carry(request, &call.cancel).await?;
        let result = result.map_err(|error| failure(&call.server, &error))?;
        let mut raw = json!({ "content": result.content, "isError": result.is_error });
        if let Some(structured) = result.structured_content {
            raw["structuredContent"] = structured;
        }
        if let Some(meta) = result.meta {
            raw["_meta"] = Value::Object(meta);
        }
        Ok(ToolOutput {
            raw,
            is_error: result.is_error,
        })
    }
}

/// Whether it was the computer that went with the call: then asking again gets the same answer.
fn has_vanished(refused: &wire::smcp::ErrorBody) -> bool {
    refused.details.get("reason").and_then(Value::as_str) == Some("vanished")
}

impl OfficeTools {
    /// Calls, and repeats the call under its id after the connection was lost below it, for as long as it has time: the
    /// computer answers a repeated id with the first answer, so nothing is done twice.
    async fn carry(
        &self,
        mut request: Call,
        cancel: &CancellationToken,
    ) -> Result<Result<CallResult, LinkError>, ToolError> {
        let until = Instant::now() + self.call_timeout;
        let mut was_lost = false;
        loop {
            let answer = self.agent.call(&request, cancel).await;
            match &answer {
                Err(LinkError::Lost) => was_lost = true,
                // We are back before the computer is.
                Err(LinkError::Refused(body))
                    if was_lost && body.code == 404 && !has_vanished(body) => {}
                _ => return Ok(answer),
            }
            tokio::select! { biased;
                () = cancel.cancelled() => return Err(ToolError::Cancelled),
                back = timeout_at(until, self.back(&request.computer)) => if back.is_err() {
                    return Ok(answer);
                },
            }
            request.timeout = until.saturating_duration_since(Instant::now());
        }
    }

    /// Waits until we and the computer are in the office.
    async fn back(&self, computer: &str) {
        tokio::time::sleep(REPEAT_PAUSE).await;
        let mut standing = self.agent.standing();
        let joined = standing.wait_for(|standing| *standing == Standing::Joined);
        if joined.await.is_err() {
            return; // It will not come back; the next attempt says so.
        }
        let mut changes = self.desk.changes.subscribe();
        while !self.desk.known().computers.contains_key(computer) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// What whoever finds no tools can do about it.
    async fn wait_for_place(&self, cancel: &CancellationToken) -> Result<ToolOutput, ToolError> {
        let mut changes = self.desk.changes.subscribe();
        let is_ready = || self.desk.known().office == ServerStatus::Ready;
        let ready = async { while !is_ready() && changes.changed().await.is_ok() {} };
        let waited = tokio::select! { biased;
            () = cancel.cancelled() => return Err(ToolError::Cancelled),
            waited = timeout(self.call_timeout, ready) => waited,
        };
        let office = &self.desk.office;
        let words = match waited {
            Ok(()) => format!("The office {office} has let us in: its tools can be used now."),
            Err(_) => format!("The office {office} has still not let us in."),
        };
        let is_error = waited.is_err();
        let content = json!([{ "type": "text", "text": words }]);
        Ok(ToolOutput {
            raw: json!({ "content": content, "isError": is_error }),
            is_error,
        })
    }
}

impl Drop for OfficeTools {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

impl ToolSource for OfficeTools {
    fn tools(&self) -> Vec<Tool> {
        self.desk.tools()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.desk.changes.subscribe()
    }

    fn resource_news(&self, server: &str) -> u64 {
        let known = self.desk.known();
        known.computers.get(server).map_or(0, |found| found.news)
    }

    fn servers(&self) -> Vec<ServerState> {
        let known = self.desk.known();
        let state = |name: &String, status: &ServerStatus| ServerState {
            name: name.clone(),
            status: status.clone(),
        };
        if known.office != ServerStatus::Ready {
            return vec![state(&self.desk.office, &known.office)];
        }
        let computers = known.computers.iter();
        computers
            .map(|(name, computer)| state(name, &computer.status))
            .collect()
    }

    fn call(&self, call: ToolCall) -> DriverFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(call))
    }

    /// A computer's resources are seen as its desktop.
    fn resources<'a>(&'a self, server: &'a str) -> DriverFuture<'a, Result<Vec<Value>, ToolError>> {
        Box::pin(async move {
            let windows = self.agent.desktop(server, None, None).await;
            let windows = windows.map_err(|error| failure(server, &error))?;
            let uri = |window: &String| window.lines().next().map(str::to_owned);
            Ok(windows
                .iter()
                .filter_map(uri)
                .map(|uri| json!({ "uri": uri, "name": uri }))
                .collect())
        })
    }

    fn read<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
    ) -> DriverFuture<'a, Result<Vec<Value>, ToolError>> {
        Box::pin(async move {
            let windows = self.agent.desktop(server, None, Some(uri)).await;
            let windows = windows.map_err(|error| failure(server, &error))?;
            Ok(windows
                .iter()
                .map(|text| json!({ "uri": uri, "text": text }))
                .collect())
        })
    }
}

/// Follows the news of the office.
struct Follower {
    agent: Agent,
    desk: Arc<Desk>,
    tasks: Tasks,
}

impl Follower {
    async fn follow(self, mut news: mpsc::Receiver<News>) {
        let stop = self.tasks.stop();
        let mut standing = self.agent.standing();
        loop {
            let told = tokio::select! { biased;
                () = stop.cancelled() => break,
                told = news.recv() => told,
                changed = standing.changed() => {
                    if changed.is_err() {
                        break; // The connection will not come back.
                    }
                    let now = standing.borrow_and_update().clone();
                    if let Standing::Waiting { refused: Some(refused) } = now {
                        self.desk.refused(&refused.message);
                    }
                    continue;
                }
            };
            match told {
                None => break,
                Some(News::Joined) => self.look_around().await,
                Some(News::Away) => self.desk.change(|known| {
                    known.computers.clear();
                    known.office = ServerStatus::Down {
                        why: "the connection to the office is lost".to_owned(),
                    };
                }),
                Some(News::Entered { computer } | News::ToolsChanged { computer }) => {
                    self.ask(computer);
                }
                Some(News::Left { computer }) => self.desk.change(|known| {
                    known.computers.remove(&computer);
                }),
                Some(News::DesktopChanged { computer }) => self.desk.change(|known| {
                    if let Some(found) = known.computers.get_mut(&computer) {
                        found.news += 1;
                    }
                }),
                Some(News::SkillsChanged { .. } | News::Cancelled { .. }) => {}
            }
        }
    }

    /// Asks everybody anew. A server that cannot say who is there tells of those who enter later.
    async fn look_around(&self) {
        let stop = self.tasks.stop();
        let members = tokio::select! { biased;
            () = stop.cancelled() => return,
            members = self.agent.members() => members,
        };
        if let Err(error) = &members {
            tracing::warn!(%error, "the office does not say who is there");
        }
        let members = members.unwrap_or_default();
        let computers = members.iter().filter(|member| member.role == "computer");
        let names: Vec<String> = computers.map(|member| member.name.clone()).collect();
        self.desk.change(|known| {
            known.computers.retain(|name, _| names.contains(name));
            for name in &names {
                known
                    .computers
                    .entry(name.clone())
                    .or_insert(Computer::new());
            }
            known.office = ServerStatus::Ready;
            known.refused = None;
        });
        for name in names {
            self.ask(name);
        }
    }

    /// Asks a computer for its tools, again and again until it answers, leaves, or is asked anew.
    fn ask(&self, computer: String) {
        let asked = self.desk.begin(&computer);
        let (agent, desk) = (self.agent.clone(), self.desk.clone());
        self.tasks.spawn(|stop| async move {
            let mut pause = RETRY_FIRST;
            loop {
                let answer = tokio::select! { biased;
                    () = stop.cancelled() => return,
                    answer = agent.tools(&computer) => answer,
                };
                let is_answered = answer.is_ok();
                if desk.settle(&computer, asked, answer).is_none() || is_answered {
                    return;
                }
                tokio::select! { biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(RETRY_LAST);
            }
        });
    }
}

impl Computer {
    fn new() -> Self {
        Self {
            status: ServerStatus::Starting,
            tools: Vec::new(),
            asked: 0,
            news: 0,
        }
    }
}

impl Desk {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn tools(&self) -> Vec<Tool> {
        let known = self.known();
        if let Some(why) = &known.refused {
            return vec![waiting(&self.office, why)];
        }
        let computers = known.computers.values();
        computers
            .flat_map(|computer| computer.tools.clone())
            .collect()
    }

    /// The office does not let us in; we go on asking.
    fn refused(&self, why: &str) {
        let why = why.trim_end_matches('.').to_owned();
        if self.known().refused.as_ref() != Some(&why) {
            self.change(|known| {
                known.refused = Some(why.clone());
                known.office = ServerStatus::Down { why };
            });
        }
    }

    /// The number of a new question; answers to older ones are void.
    fn begin(&self, computer: &str) -> u64 {
        let mut asked = 0;
        self.change(|known| {
            known.asked += 1;
            asked = known.asked;
            let name = computer.to_owned();
            let computer = known.computers.entry(name).or_insert(Computer::new());
            computer.asked = asked;
        });
        asked
    }

    /// Takes an answer; nothing if nobody waits for it any more.
    fn settle(
        &self,
        computer: &str,
        asked: u64,
        answer: Result<Vec<wire::smcp::Tool>, LinkError>,
    ) -> Option<()> {
        let mut known = self.known();
        let found = known.computers.get_mut(computer);
        let found = found.filter(|found| found.asked == asked)?;
        match answer {
            Ok(tools) => {
                found.status = ServerStatus::Ready;
                let tools = tools.into_iter();
                found.tools = tools.map(|tool| described(computer, tool)).collect();
            }
            Err(error) => {
                found.tools.clear();
                found.status = ServerStatus::Down {
                    why: error.to_string(),
                };
            }
        }
        drop(known);
        self.changes.send_modify(|changes| *changes += 1);
        Some(())
    }
}

/// Stands for the tools of an office that does not let us in, so that whoever looks for them learns why.
fn waiting(office: &str, why: &str) -> Tool {
    let description = format!(
        "The tools of the office {office} cannot be used at the moment: {why}. They appear when it lets us in; calling \
         this waits for that."
    );
    let schema = json!({ "type": "object", "properties": {} });
    let raw = json!({ "name": WAIT, "description": description, "inputSchema": schema });
    Tool {
        server: office.to_owned(),
        name: WAIT.to_owned(),
        description: Some(description),
        input_schema: schema.as_object().cloned().unwrap_or_default(),
        raw,
    }
}

/// A tool of the office in MCP's words.
fn described(computer: &str, tool: wire::smcp::Tool) -> Tool {
    let input_schema = match tool.params_schema {
        Value::Object(schema) => schema,
        // A schema of any object, since MCP wants one.
        _ => [("type".to_owned(), json!("object"))].into_iter().collect(),
    };
    let mut raw = json!({
        "name": tool.name, "description": tool.description, "inputSchema": input_schema
    });
    if let Some(schema @ Value::Object(_)) = tool.return_schema {
        raw["outputSchema"] = schema;
    }
    let annotations = tool.meta.as_ref().and_then(|meta| {
        let annotations = meta.get("MCP_TOOL_ANNOTATION")?;
        match annotations {
            Value::String(text) => serde_json::from_str::<Value>(text).ok(),
            other => Some(other.clone()),
        }
    });
    if let Some(annotations @ Value::Object(_)) = annotations {
        raw["annotations"] = annotations;
    }
    Tool {
        server: computer.to_owned(),
        name: tool.name,
        description: Some(tool.description).filter(|description| !description.is_empty()),
        input_schema,
        raw,
    }
}

fn failure(computer: &str, error: &LinkError) -> ToolError {
    let server = computer.to_owned();
    match error {
        LinkError::Refused(body) => ToolError::Refused {
            server,
            code: body.code,
            message: body.message.clone(),
        },
        LinkError::Unreachable(_)
        | LinkError::NotAnOffice
        | LinkError::Lost
        | LinkError::TimedOut
        | LinkError::Unreadable { .. } => ToolError::Down {
            server,
            why: error.to_string(),
        },
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
