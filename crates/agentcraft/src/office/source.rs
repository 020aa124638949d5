//! An office as a source of tools: every computer is a server, its tools are fetched when it enters or changes, and
//! dropped when it leaves.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::{
    DriverFuture, ServerState, ServerStatus, Tool, ToolCall, ToolError, ToolOutput, ToolSource,
};
use platform::Tasks;
use serde_json::{Value, json};
use smcp::{
    LinkConfig, LinkError,
    agent::{Agent, Call, News},
};
use tokio::sync::{mpsc, watch};

/// The first pause before a computer that did not answer is asked again, which doubles up to the last.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// How often a call is repeated, under the same id, after the connection was lost below it.
const REPEATS_MAX: usize = 3;

/// How long a call waits for the office to be back.
const BACK_MAX: Duration = Duration::from_secs(60);

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
    computers: BTreeMap<String, Computer>,
    /// Counts what was asked, so that a late answer changes nothing.
    asked: u64,
}

#[derive(Debug)]
struct Computer {
    status: ServerStatus,
    tools: Vec<Tool>,
    asked: u64,
}

impl OfficeTools {
    /// Joins the office, and goes on doing so after every loss.
    pub(crate) fn start(link: LinkConfig, call_timeout: Duration, tasks: &Tasks) -> Self {
        let tasks = tasks.child();
        let desk = Arc::new(Desk {
            office: link.office.clone(),
            known: Mutex::new(Known {
                office: ServerStatus::Starting,
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
        if !self.desk.known().computers.contains_key(&call.server) {
            return Err(ToolError::NoServer {
                server: call.server,
            });
        }
        let request = Call::new(&call.server, &call.tool, call.arguments, self.call_timeout);
        let mut repeats = 0;
        let result = loop {
            match self.agent.call(&request, &call.cancel).await {
                // The computer answers a repeated id with the first answer, so nothing is done twice.
                Err(LinkError::Lost) if repeats < REPEATS_MAX => {
                    repeats += 1;
                    tokio::select! { biased;
                        () = call.cancel.cancelled() => return Err(ToolError::Cancelled),
                        _ = tokio::time::timeout(BACK_MAX, self.agent.joined()) => {}
                    }
                }
                answer => break answer,
            }
        };
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

impl Drop for OfficeTools {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

impl ToolSource for OfficeTools {
    fn tools(&self) -> Vec<Tool> {
        let known = self.desk.known();
        let computers = known.computers.values();
        computers
            .flat_map(|computer| computer.tools.clone())
            .collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.desk.changes.subscribe()
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
        loop {
            let told = tokio::select! { biased;
                () = stop.cancelled() => break,
                told = news.recv() => told,
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
                Some(
                    News::DesktopChanged { .. }
                    | News::SkillsChanged { .. }
                    | News::Cancelled { .. },
                ) => {}
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
