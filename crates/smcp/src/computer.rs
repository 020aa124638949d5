//! The computer's side of an office: it offers the tools of its MCP servers, and carries out what the agent asks.

mod answers;
mod blobs;
mod calls;
mod checking;
mod desktop;
mod inputs;
mod masking;
mod naming;
mod port;
mod skills;
mod uploads;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use domain::office::Allowance;
use platform::Tasks;
use serde_json::{Map, Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::MissedTickBehavior,
};
use wire::smcp::{Change, ClientEvent, ErrorBody, Event, Profile, cancel_notice};

use self::{blobs::Blobs, calls::Calls, desktop::History, naming::Shown, uploads::Uploads};
pub use self::{
    checking::{Unusable, read_config},
    inputs::{InputError, Values, inputs_of, render, render_transport},
    naming::bundle_id,
    port::{Answering, CallFailure, ResourceFailure, ResourcePage, ServerTool, Tools},
};
use crate::{
    clock,
    convert::{code, error_value},
    link::{Arrival, Link, LinkConfig, LinkError, Reply, Standing, Teller},
};

/// How often answers that are old are given up, also when nobody calls any more.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Words of progress that are said in a second, over time and at once, for all calls: well within what an office hears
/// of one member. What is beyond is not said.
const NEWS_PER_SECOND: u32 = 100;
const NEWS_BURST: u32 = 200;

/// A call that is about to be carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Confirmation {
    pub agent: String,
    pub server: String,
    pub tool: String,
    /// The tool under the name that the office shows.
    pub shown: String,
    pub params: Map<String, Value>,
    /// The configuration says that its tool is applied by itself.
    pub is_applied: bool,
}

/// Says whether a call may happen, or why it may not.
pub type Confirm =
    Arc<dyn Fn(Confirmation) -> Answering<'static, Result<(), String>> + Send + Sync>;

/// What a computer is told beside where to join.
#[derive(Clone)]
pub struct ComputerConfig {
    pub link: LinkConfig,
    /// Without it, only tools that are applied by themselves can be called.
    pub confirm: Option<Confirm>,
    /// How long a call may take when its agent does not say.
    pub call_timeout: Duration,
    /// The folder that files of the agent go to; without it none are taken.
    pub uploads: Option<PathBuf>,
    /// The folder whose skills are lent.
    pub skills: Option<PathBuf>,
}

impl ComputerConfig {
    pub fn new(link: LinkConfig) -> Self {
        Self {
            link,
            confirm: None,
            call_timeout: Duration::from_secs(60),
            uploads: None,
            skills: None,
        }
    }
}

impl fmt::Debug for ComputerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComputerConfig")
            .field("link", &self.link)
            .field("confirm", &self.confirm.is_some())
            .field("call_timeout", &self.call_timeout)
            .field("uploads", &self.uploads)
            .field("skills", &self.skills)
            .finish()
    }
}

/// A computer in an office.
#[derive(Clone, Debug)]
pub struct Computer {
    link: Link,
    profile: Profile,
    name: String,
}

/// What every answer needs.
pub(crate) struct Desk {
    pub(crate) tools: Arc<dyn Tools>,
    pub(crate) config: ComputerConfig,
    pub(crate) calls: Arc<Calls>,
    pub(crate) blobs: Arc<Blobs>,
    pub(crate) uploads: Arc<Uploads>,
    /// Where files are read and written.
    pub(crate) tasks: Tasks,
    pub(crate) history: Mutex<History>,
    /// The tools under their names, as of a revision.
    pub(crate) shown: Mutex<Option<(u64, Arc<Shown>)>>,
    /// Words of progress that may be said: the office counts what we say.
    pub(crate) news: Mutex<Allowance>,
}

impl Computer {
    /// Joins the office, and goes on doing so after every loss, until `tasks` is cancelled or all handles are gone.
    pub fn start(config: ComputerConfig, tools: Arc<dyn Tools>, tasks: &Tasks) -> Self {
        let (profile, name) = (config.link.profile, config.link.name.clone());
        let (link, arriving) = Link::start(config.link.clone(), "computer", tasks);
        let desk = Arc::new(Desk {
            tools,
            config,
            calls: Arc::default(),
            blobs: Arc::default(),
            uploads: Arc::default(),
            tasks: tasks.child(),
            history: Mutex::default(),
            shown: Mutex::default(),
            news: Mutex::new(Allowance::new(NEWS_PER_SECOND, NEWS_BURST, clock::now())),
        });
        let working = tasks.child();
        let work = working.clone();
        tasks.spawn(|_| serve(desk, arriving, work));
        Self {
            link,
            profile,
            name,
        }
    }

    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.link.standing()
    }

    /// Waits until the office has let us in, or has refused.
    pub async fn joined(&self) -> Result<(), LinkError> {
        self.link.joined().await
    }

    /// Tells the office that something has changed; what the profile has no word for is not told.
    pub async fn announce(&self, change: Change) -> Result<(), LinkError> {
        match change.announcement(self.profile) {
            Some(event) => {
                self.link
                    .tell(&event, json!({ "computer": self.name }))
                    .await
            }
            None => Ok(()),
        }
    }
}

async fn serve(desk: Arc<Desk>, mut arriving: mpsc::Receiver<Arrival>, tasks: Tasks) {
    let stop = tasks.stop();
    let mut forgetting = tokio::time::interval(FORGET_EVERY);
    forgetting.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let arrival = tokio::select! { biased;
            () = stop.cancelled() => break,
            arrival = arriving.recv() => arrival,
            _ = forgetting.tick() => {
                desk.calls.forget();
                continue;
            }
        };
        match arrival {
            None => break,
            // A call outlives the connection: its agent may ask for the answer again.
            Some(Arrival::Joined | Arrival::Away) => {}
            Some(Arrival::Event { name, body, reply }) => {
                if name == cancel_notice() {
                    let request = body["req_id"].as_str().unwrap_or_default();
                    desk.calls.cancel(body["agent"].as_str(), request);
                }
                if let Some(reply) = reply {
                    let desk = Arc::clone(&desk);
                    // A call begins in the order in which it came, so that a cancel behind it finds it.
                    let accepted = desk.accept(&name, &body);
                    tasks.spawn(|_| async move { answer(&desk, accepted, body, reply).await });
                }
            }
        }
    }
    desk.calls.cancel_all();
}

/// What has come in, as far as it is decided at once.
enum Accepted {
    Call(Box<answers::Begun>),
    Question(ClientEvent),
    Notice,
}

async fn answer(
    desk: &Arc<Desk>,
    accepted: Result<Accepted, ErrorBody>,
    body: Value,
    reply: Reply,
) {
    let profile = desk.config.link.profile;
    let said = match accepted {
        Ok(Accepted::Call(begun)) => desk.call(*begun, &body, reply.teller()).await,
        Ok(Accepted::Question(event)) => desk.answer(event, body, reply.teller()).await,
        // Notices are ignored, but whoever asks whether we live is told.
        Ok(Accepted::Notice) => Ok(Value::Null),
        Err(error) => Err(error),
    };
    let said = said.unwrap_or_else(|error| error_value(&error, profile));
    reply.send(said).await;
}

impl Desk {
    fn accept(&self, name: &str, body: &Value) -> Result<Accepted, ErrorBody> {
        match Event::parse(name) {
            Event::Client(event) => {
                self.check_name(body)?;
                match event {
                    ClientEvent::ToolCall => Ok(Accepted::Call(Box::new(self.begin(body)?))),
                    event => Ok(Accepted::Question(event)),
                }
            }
            Event::Notify => Ok(Accepted::Notice),
            Event::Server(_) | Event::Unknown => {
                Err(ErrorBody::new(code::INVALID, "There is no such event."))
            }
        }
    }

    fn check_name(&self, body: &Value) -> Result<(), ErrorBody> {
        match body.get("computer").and_then(Value::as_str) {
            Some(name) if name != self.config.link.name => {
                let words = "This request is for another computer.";
                Err(ErrorBody::new(code::NOT_FOUND, words))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        event: ClientEvent,
        body: Value,
        teller: Teller,
    ) -> Result<Value, ErrorBody> {
        match event {
            ClientEvent::ToolCall => self.call(self.begin(&body)?, &body, teller).await,
            ClientEvent::GetTools => Ok(self.list_tools(&body).await),
            ClientEvent::GetConfig => Ok(self.tell_config(&body)),
            ClientEvent::GetDesktop => self.show_desktop(&body).await,
            ClientEvent::GetResources => self.list_resources(&body).await,
            ClientEvent::GetBlob => self.give_blob(&body),
            ClientEvent::GetSkills => self.list_skills(body).await,
            ClientEvent::GetSkill => self.give_skill(body).await,
            ClientEvent::PutBlob => self.take_blob(body).await,
        }
    }

    async fn list_skills(&self, body: Value) -> Result<Value, ErrorBody> {
        let folder = self.config.skills.clone();
        let listed = self.on_disk(move || Ok(folder.map(|folder| skills::list(&folder))));
        let listed = listed.await?.unwrap_or_default();
        Ok(json!({ "skills": listed, "req_id": body["req_id"] }))
    }

    async fn give_skill(&self, body: Value) -> Result<Value, ErrorBody> {
        let (folder, blobs) = (self.config.skills.clone(), Arc::clone(&self.blobs));
        self.on_disk(move || skills::read(folder.as_deref(), &body, &blobs))
            .await
    }

    async fn take_blob(&self, body: Value) -> Result<Value, ErrorBody> {
        let (folder, uploads) = (self.config.uploads.clone(), Arc::clone(&self.uploads));
        let taken = self.on_disk(move || uploads.put(&body, folder.as_deref()));
        taken.await.map(|taken| json!(taken))
    }

    /// Does something that waits for the disk.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ErrorBody> + Send + 'static,
    ) -> Result<T, ErrorBody> {
        let worked = self.tasks.spawn_blocking(|_| work()).await;
        worked.unwrap_or_else(|_| {
            let words = "The computer failed over this request.";
            Err(ErrorBody::new(code::INTERNAL, words))
        })
    }
}
