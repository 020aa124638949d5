//! The methods of the protocol: which sessions there are, and what each request does to them.

mod greeting;
mod listing;
mod params;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::SystemTime};

use agent_client_protocol_schema::v1::{
    CancelNotification, ClientCapabilities, CloseSessionRequest, CloseSessionResponse,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse,
    LoadSessionRequest, LoadSessionResponse, McpServer, NewSessionRequest, NewSessionResponse,
    PromptRequest, ResumeSessionRequest, ResumeSessionResponse, SessionId, SessionNotification,
    SessionUpdate, SetSessionModeRequest, SetSessionModeResponse,
};
use jsonrpc::{ErrorObject, Id, Request, Responder, SendError};
use params::{absolute, answer, parse, unknown};
use platform::Tasks;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    archive::{Glance, Header},
    history::History,
    session::{Mode, Session, Stop, mode_update},
    turn::{Surroundings, Turn},
    updates, words,
};

/// Sessions open at a time: far more than clients open, and each may hold a history.
const SESSIONS_MAX: usize = 256;

/// The agent as one connection sees it.
#[derive(Debug)]
pub(crate) struct Agent {
    surroundings: Arc<Surroundings>,
    tasks: Tasks,
    client: ClientCapabilities,
    sessions: BTreeMap<String, Arc<Session>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelRequest {
    request_id: Id,
}

/// An update of a history, sent as it was written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replayed<'a> {
    session_id: &'a SessionId,
    update: &'a RawValue,
}

impl Agent {
    pub(crate) fn new(surroundings: Arc<Surroundings>, tasks: Tasks) -> Agent {
        Agent {
            surroundings,
            tasks,
            client: ClientCapabilities::default(),
            sessions: BTreeMap::new(),
        }
    }

    /// Answers a request, or lets its turn do so.
    pub(crate) async fn handle(&mut self, request: Request) {
        let Request {
            method,
            params,
            responder,
            ..
        } = request;
        let params = params.as_deref();
        let answered = match method.as_str() {
            "initialize" => {
                answer(
                    responder,
                    parse(params).map(|request| self.initialize(request)),
                )
                .await
            }
            // There is nothing to sign in to, so every method is as good as any.
            "authenticate" => answer(responder, Ok(serde_json::json!({}))).await,
            "session/new" => self.new_session(params, responder).await,
            "session/load" => self.load(params, responder).await,
            "session/resume" => self.resume(params, responder).await,
            "session/list" => {
                answer(
                    responder,
                    parse(params).and_then(|request| self.list(&request)),
                )
                .await
            }
            "session/close" => {
                answer(
                    responder,
                    parse(params).and_then(|request| self.close(request)),
                )
                .await
            }
            "session/set_mode" => self.set_mode(params, responder).await,
            "session/prompt" => self.prompt(params, responder).await,
            method => responder.fail(ErrorObject::method_not_found(method)).await,
        };
        let _ = answered; // A client that has left needs no answer; the loop sees the end by itself.
    }

    /// Notifications have no answer: one that makes no sense is left alone.
    pub(crate) fn notice(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "session/cancel" => {
                if let Ok(cancel) = parse::<CancelNotification>(params)
                    && let Some(session) = self.sessions.get(&*cancel.session_id.0)
                {
                    session.stop_turn(Stop::Cancelled);
                }
            }
            jsonrpc::CANCEL_METHOD => {
                if let Ok(cancel) = parse::<CancelRequest>(params) {
                    let turns = self.sessions.values();
                    turns
                        .filter(|session| session.answers(&cancel.request_id))
                        .for_each(|session| session.stop_turn(Stop::Withdrawn));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn stop_all(&self) {
        for session in self.sessions.values() {
            session.stop_turn(Stop::Cancelled);
        }
    }

    fn initialize(&mut self, request: InitializeRequest) -> InitializeResponse {
        self.client = request.client_capabilities;
        greeting::greeting()
    }

    async fn new_session(
        &mut self,
        params: Option<&RawValue>,
        responder: Responder,
    ) -> Result<(), SendError> {
        let opened = parse::<NewSessionRequest>(params).and_then(|request| {
            self.check_room()?;
            let header = Header {
                session_id: uuid::Uuid::new_v4().to_string(),
                cwd: absolute(request.cwd)?,
                created_at: jiff::Timestamp::now().to_string(),
            };
            // A workspace that cannot be written to still has sessions; they end with the process.
            let _ = self.surroundings.archive.create(&header);
            Ok(self.enter(header, History::default(), &request.mcp_servers))
        });
        match opened {
            Ok(session) => {
                let response =
                    NewSessionResponse::new(session.id.clone()).modes(Mode::default().state());
                responder.reply(&response).await?;
                // A client does not know the session before it has the answer.
                self.announce_commands(&session).await
            }
            Err(error) => responder.fail(error).await,
        }
    }

    async fn load(
        &mut self,
        params: Option<&RawValue>,
        responder: Responder,
    ) -> Result<(), SendError> {
        let found = parse::<LoadSessionRequest>(params)
            .and_then(|request| self.find(&request.session_id, request.cwd, &request.mcp_servers));
        match found {
            Ok(session) => {
                let (entries, mode) = {
                    let state = session.state();
                    (state.history.entries(), state.mode)
                };
                for entry in entries.iter().filter(|entry| is_replayed(entry)) {
                    let replayed = Replayed {
                        session_id: &session.id,
                        update: entry,
                    };
                    self.surroundings
                        .peer
                        .notify("session/update", &replayed)
                        .await?;
                }
                responder
                    .reply(&LoadSessionResponse::new().modes(mode.state()))
                    .await?;
                self.announce_commands(&session).await
            }
            Err(error) => responder.fail(error).await,
        }
    }

    async fn resume(
        &mut self,
        params: Option<&RawValue>,
        responder: Responder,
    ) -> Result<(), SendError> {
        let found = parse::<ResumeSessionRequest>(params)
            .and_then(|request| self.find(&request.session_id, request.cwd, &request.mcp_servers));
        match found {
            Ok(session) => {
                let mode = session.state().mode;
                responder
                    .reply(&ResumeSessionResponse::new().modes(mode.state()))
                    .await?;
                self.announce_commands(&session).await
            }
            Err(error) => responder.fail(error).await,
        }
    }

    fn list(&self, request: &ListSessionsRequest) -> Result<ListSessionsResponse, ErrorObject> {
        let mut glances = self.surroundings.archive.list();
        // Sessions without a file: the workspace cannot be written to, or it was cleaned up.
        for session in self.sessions.values() {
            let state = session.state();
            let id = &state.header.session_id;
            if !glances.iter().any(|glance| glance.header.session_id == *id) {
                glances.push(Glance {
                    header: state.header.clone(),
                    title: state.history.title().map(str::to_owned),
                    updated_at: SystemTime::now(),
                });
            }
        }
        listing::page(glances, request)
    }

    fn close(&mut self, request: CloseSessionRequest) -> Result<CloseSessionResponse, ErrorObject> {
        let session = self.sessions.remove(&*request.session_id.0);
        let session = session.ok_or_else(|| unknown(&request.session_id))?;
        session.stop_turn(Stop::Cancelled);
        Ok(CloseSessionResponse::default())
    }

    async fn set_mode(
        &self,
        params: Option<&RawValue>,
        responder: Responder,
    ) -> Result<(), SendError> {
        let found = parse::<SetSessionModeRequest>(params).and_then(|request| {
            let session = self.session(&request.session_id)?;
            let mode = Mode::parse(&request.mode_id.0).ok_or_else(|| {
                let words = format!(
                    "there is no mode {:?}: use ask, auto or plan",
                    request.mode_id.0
                );
                ErrorObject::invalid_params(words)
            })?;
            Ok((session, mode))
        });
        match found {
            Ok((session, mode)) => {
                session.set_mode(mode);
                responder.reply(&SetSessionModeResponse::default()).await?;
                self.send(&session, mode_update(mode)).await
            }
            Err(error) => responder.fail(error).await,
        }
    }

    async fn prompt(
        &self,
        params: Option<&RawValue>,
        responder: Responder,
    ) -> Result<(), SendError> {
        let started = parse::<PromptRequest>(params).and_then(|request| {
            if request.prompt.is_empty() {
                return Err(ErrorObject::invalid_params(
                    "the prompt is empty: send at least one block",
                ));
            }
            let session = self.session(&request.session_id)?;
            let stopped = session.begin_turn(responder.id()).ok_or_else(|| {
                ErrorObject::invalid_request(
                    "a turn of this session is still running: wait for its end or cancel it",
                )
            })?;
            Ok((session, stopped, request.prompt))
        });
        match started {
            Ok((session, stopped, prompt)) => {
                let tasks = self.tasks.child();
                let surroundings = Arc::clone(&self.surroundings);
                let turn = Turn::new(surroundings, session, self.client.clone(), tasks.clone());
                // The turn has its own way to be stopped, which also answers the prompt.
                tasks.spawn(|_| turn.run(prompt, responder, stopped));
                Ok(())
            }
            Err(error) => responder.fail(error).await,
        }
    }

    fn session(&self, id: &SessionId) -> Result<Arc<Session>, ErrorObject> {
        self.sessions
            .get(&*id.0)
            .cloned()
            .ok_or_else(|| unknown(id))
    }

    /// A session that is open, or was kept.
    fn find(
        &mut self,
        id: &SessionId,
        cwd: PathBuf,
        mcp: &[McpServer],
    ) -> Result<Arc<Session>, ErrorObject> {
        let cwd = absolute(cwd)?;
        if let Some(session) = self.sessions.get(&*id.0) {
            if session.is_busy() {
                let words =
                    "a turn of this session is still running: wait for its end or cancel it";
                return Err(ErrorObject::invalid_request(words));
            }
            let mut state = session.state();
            state.folder = self.surroundings.workspace.folder_of(&cwd);
            state.header.cwd = cwd;
            state.mcp = names(mcp);
            drop(state);
            return Ok(Arc::clone(session));
        }
        self.check_room()?;
        let kept = self.surroundings.archive.read(&id.0);
        let kept = kept.map_err(|error| ErrorObject::internal(words::chain(&error)))?;
        let (mut header, history) = kept.ok_or_else(|| unknown(id))?;
        header.session_id = id.0.to_string();
        header.cwd = cwd;
        Ok(self.enter(header, history, mcp))
    }

    fn enter(&mut self, header: Header, history: History, mcp: &[McpServer]) -> Arc<Session> {
        let folder = self.surroundings.workspace.folder_of(&header.cwd);
        let id = header.session_id.clone();
        let session = Arc::new(Session::new(header, folder, history));
        session.state().mcp = names(mcp);
        self.sessions.insert(id, Arc::clone(&session));
        session
    }

    fn check_room(&self) -> Result<(), ErrorObject> {
        if self.sessions.len() < SESSIONS_MAX {
            return Ok(());
        }
        let words =
            format!("{SESSIONS_MAX} sessions are open, and there may not be more: close one");
        Err(ErrorObject::invalid_request(words))
    }

    async fn announce_commands(&self, session: &Session) -> Result<(), SendError> {
        self.send(session, updates::available_commands()).await
    }

    async fn send(&self, session: &Session, update: SessionUpdate) -> Result<(), SendError> {
        let notification = SessionNotification::new(session.id.clone(), update);
        self.surroundings
            .peer
            .notify("session/update", &notification)
            .await
    }
}

fn names(servers: &[McpServer]) -> Vec<String> {
    let name = |server: &McpServer| match server {
        McpServer::Http(server) => server.name.clone(),
        McpServer::Sse(server) => server.name.clone(),
        McpServer::Stdio(server) => server.name.clone(),
        _ => "(of an unknown kind)".to_owned(),
    };
    servers.iter().map(name).collect()
}

/// The mode is told in the answer, not in the replay.
fn is_replayed(entry: &RawValue) -> bool {
    !matches!(
        serde_json::from_str(entry.get()),
        Ok(SessionUpdate::CurrentModeUpdate(_))
    )
}
