//! The agent's side of an office: what its computers offer, and calling it.

mod transfers;

use std::time::Duration;

use platform::Tasks;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use wire::smcp::{
    CALL_PROGRESS, CallProgress, CallResult, ClientEvent, ConfigAnswer, DesktopAnswer, ErrorBody,
    Membership, Profile, ResourcesAnswer, RoomAnswer, ServerEvent, Session, Tool, ToolsAnswer,
    progress_notice,
};

pub use self::transfers::SkillFile;
use crate::{
    Listener,
    link::{Arrival, Link, LinkConfig, LinkError, Standing},
    progress::Listeners,
};

/// How long a question other than a call may take: a little more than the server itself waits for the computer.
const READ_PATIENCE: Duration = Duration::from_secs(35);

/// What is added to a call's own time before we give up: the computer and the server both answer earlier.
const CALL_GRACE: Duration = Duration::from_secs(3);

/// How long a cancelled call has to say how it ended.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// News that wait for a listener; one who is slower is told to ask for everything again.
const NEWS_MAX: usize = 256;

/// What happens in the office.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// We are in the office: whatever was known of its computers must be asked for again.
    Joined,
    /// The connection is lost; it will be taken up again.
    Away,
    Entered {
        computer: String,
    },
    Left {
        computer: String,
    },
    /// The tools or the configuration of a computer have changed.
    ToolsChanged {
        computer: String,
    },
    DesktopChanged {
        computer: String,
    },
    SkillsChanged {
        computer: String,
    },
    Cancelled {
        request: String,
    },
}

/// One tool call.
#[derive(Debug, Clone)]
pub struct Call {
    pub computer: String,
    pub tool: String,
    pub params: Map<String, Value>,
    pub timeout: Duration,
    /// Repeating a call under the same id after a loss gives the first one's answer.
    pub request: String,
    /// Hears how far the call is, where the office and the computer can say it.
    pub listener: Option<Listener>,
}

impl Call {
    /// A call with a new id.
    pub fn new(
        computer: impl Into<String>,
        tool: impl Into<String>,
        params: Map<String, Value>,
        timeout: Duration,
    ) -> Self {
        Self {
            computer: computer.into(),
            tool: tool.into(),
            params,
            timeout,
            request: uuid::Uuid::new_v4().to_string(),
            listener: None,
        }
    }
}

/// An agent in an office.
#[derive(Clone, Debug)]
pub struct Agent {
    link: Link,
    profile: Profile,
    name: String,
    office: String,
    listeners: Listeners,
}

impl Agent {
    /// Joins the office, and goes on doing so after every loss, until `tasks` is cancelled or all handles are gone.
    pub fn start(config: LinkConfig, tasks: &Tasks) -> (Self, mpsc::Receiver<News>) {
        let (profile, name, office) = (config.profile, config.name.clone(), config.office.clone());
        let (link, mut arriving) = Link::start(config, "agent", tasks);
        let (news, listening) = mpsc::channel(NEWS_MAX);
        let listeners = Listeners::default();
        let hearing = listeners.clone();
        tasks.spawn(|stop| async move {
            let mut has_missed = false;
            loop {
                let arrival = tokio::select! { biased;
                    () = stop.cancelled() => break,
                    arrival = arriving.recv() => arrival,
                };
                let Some(arrival) = arrival else { break };
                if let Arrival::Event { name, body, .. } = &arrival
                    && name == progress_notice()
                    && let Ok(said) = CallProgress::deserialize(body)
                {
                    hearing.tell(said);
                }
                if let Some(told) = told(arrival).await {
                    has_missed = !pass_on(&news, told, has_missed);
                }
            }
        });
        let agent = Self {
            link,
            profile,
            name,
            office,
            listeners,
        };
        (agent, listening)
    }

    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.link.standing()
    }

    /// Waits until the office has let us in, or has refused.
    pub async fn joined(&self) -> Result<(), LinkError> {
        self.link.joined().await
    }

    /// Who is in the office; only released servers can say.
    pub async fn members(&self) -> Result<Vec<Session>, LinkError> {
        let body = json!({
            "agent": self.name, "req_id": uuid::Uuid::new_v4().to_string(), "office_id": self.office
        });
        let answer = self
            .request(ServerEvent::LIST_ROOM, body, READ_PATIENCE)
            .await?;
        read::<RoomAnswer>(ServerEvent::LIST_ROOM, answer).map(|room| room.sessions)
    }

    pub async fn tools(&self, computer: &str) -> Result<Vec<Tool>, LinkError> {
        let answer: ToolsAnswer = self.ask(ClientEvent::GetTools, computer, json!({})).await?;
        Ok(answer.tools)
    }

    pub async fn config(&self, computer: &str) -> Result<ConfigAnswer, LinkError> {
        let answer: Value = self
            .ask(ClientEvent::GetConfig, computer, json!({}))
            .await?;
        Ok(ConfigAnswer::from_value(&answer).0)
    }

    /// The windows of a computer, at most `size` of them, or the one that is named.
    pub async fn desktop(
        &self,
        computer: &str,
        size: Option<usize>,
        window: Option<&str>,
    ) -> Result<Vec<String>, LinkError> {
        let mut more = json!({});
        if let Some(size) = size {
            more["desktop_size"] = json!(size);
        }
        if let Some(window) = window {
            more["window"] = json!(window);
        }
        let answer: DesktopAnswer = self.ask(ClientEvent::GetDesktop, computer, more).await?;
        Ok(answer.desktops)
    }

    pub async fn resources(
        &self,
        computer: &str,
        server: &str,
        cursor: Option<&str>,
    ) -> Result<ResourcesAnswer, LinkError> {
        let mut more = json!({ "mcp_server": server });
        if let Some(cursor) = cursor {
            more["cursor"] = json!(cursor);
        }
        self.ask(ClientEvent::GetResources, computer, more).await
    }

    /// Calls a tool. When `cancel` is cancelled, so is the call, and its end is still waited for, for a short while.
    pub async fn call(
        &self,
        call: &Call,
        cancel: &CancellationToken,
    ) -> Result<CallResult, LinkError> {
        let event = ClientEvent::ToolCall.name(self.profile);
        let _listening = call
            .listener
            .clone()
            .map(|listener| self.listeners.add(&call.request, &call.computer, listener));
        let mut body = json!({
            "agent": self.name, "req_id": call.request, "computer": call.computer,
            "tool_name": call.tool, "params": call.params,
            "timeout": call.timeout.as_secs().max(1),
        });
        if call.listener.is_some() {
            body[CALL_PROGRESS] = json!(true);
        }
        let asked = self.request(event, body, call.timeout.saturating_add(CALL_GRACE));
        tokio::pin!(asked);
        let answer = tokio::select! { biased;
            answer = &mut asked => answer,
            () = cancel.cancelled() => {
                self.cancel(&call.request).await?;
                match tokio::time::timeout(CANCEL_PATIENCE, &mut asked).await {
                    Ok(answer) => answer,
                    Err(_) => return Ok(CallResult::cancelled()),
                }
            }
        };
        match answer {
            Ok(answer) => {
                if call.listener.is_some() {
                    // What was said before the answer is about to be heard.
                    tokio::task::yield_now().await;
                }
                let result = read(event, answer)?;
                self.with_blobs(&call.computer, result).await
            }
            Err(LinkError::TimedOut) => {
                self.cancel(&call.request).await?;
                Ok(CallResult::timed_out())
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels the call of this id.
    pub async fn cancel(&self, request: &str) -> Result<(), LinkError> {
        let body = json!({ "agent": self.name, "req_id": request });
        self.link.tell(ServerEvent::TOOL_CALL_CANCEL, body).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        event: ClientEvent,
        computer: &str,
        more: Value,
    ) -> Result<T, LinkError> {
        let event = event.name(self.profile);
        let mut body = json!({
            "agent": self.name, "req_id": uuid::Uuid::new_v4().to_string(), "computer": computer
        });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        let answer = self.request(event, body, READ_PATIENCE).await?;
        read(event, answer)
    }

    async fn request(
        &self,
        event: &str,
        body: Value,
        patience: Duration,
    ) -> Result<Value, LinkError> {
        let args = self.link.request(event, body, patience).await?;
        let answer = args.into_iter().next().unwrap_or_default();
        match ErrorBody::from_value(&answer) {
            Some(error) => Err(LinkError::Refused(error)),
            None => Ok(answer),
        }
    }
}

/// Never waits for the listener, since the answers to calls come the same way. One who has missed something is told to
/// ask for everything again.
fn pass_on(news: &mpsc::Sender<News>, told: News, has_missed: bool) -> bool {
    if has_missed && news.try_send(News::Joined).is_err() {
        return false;
    }
    news.try_send(told).is_ok()
}

fn read<T: DeserializeOwned>(event: &str, answer: Value) -> Result<T, LinkError> {
    serde_json::from_value(answer).map_err(|_| LinkError::Unreadable {
        event: event.to_owned(),
    })
}

/// What an arrival means for an agent. Whatever asks for an answer gets one, because servers ask whether we live.
async fn told(arrival: Arrival) -> Option<News> {
    let (name, body) = match arrival {
        Arrival::Joined => return Some(News::Joined),
        Arrival::Away => return Some(News::Away),
        Arrival::Event { name, body, reply } => {
            if let Some(reply) = reply {
                reply.send(Value::Null).await;
            }
            (name, body)
        }
    };
    let computer = || body["computer"].as_str().map(str::to_owned);
    match name.as_str() {
        "notify:enter_office" => {
            let entered: Membership = serde_json::from_value(body.clone()).ok()?;
            Some(News::Entered {
                computer: entered.computer?,
            })
        }
        "notify:leave_office" => {
            let left: Membership = serde_json::from_value(body.clone()).ok()?;
            Some(News::Left {
                computer: left.computer?,
            })
        }
        "notify:update_mcp_config" | "notify:update_config" | "notify:update_tool_list" => {
            Some(News::ToolsChanged {
                computer: computer()?,
            })
        }
        "notify:desktop_refresh" | "notify:update_desktop" => Some(News::DesktopChanged {
            computer: computer()?,
        }),
        "notify:update_skills" => Some(News::SkillsChanged {
            computer: computer()?,
        }),
        "notify:tool_call_cancel" => Some(News::Cancelled {
            request: body["req_id"].as_str()?.to_owned(),
        }),
        _ => None, // Notices that we do not know are ignored.
    }
}
