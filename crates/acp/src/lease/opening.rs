//! Sessions of the editor: new ones, ours that it takes up again, and those that only the agent knows.

use std::{path::Path, sync::Arc};

use domain::{session::Lease, turn::Raw};
use engine::{
    About, Clash, CreateSession, EngineError, Lent, NativeOpen, NativeSession, OpenConversation,
};
use jsonrpc::{ErrorObject, Responder};
use serde_json::{Value, value::RawValue};

use super::{
    error,
    face::{Asks, Face, Folder, empty, reply},
    room::{self, Beginning, Inbox, Replay, Room},
    servers,
};
use crate::{
    convert, failure::RESOURCE_NOT_FOUND, members::Members, requests::parsed,
    sessions::named_session,
};

/// The longest prompt in words: what is larger belongs into a file of the workspace.
const PROMPT_MAX: usize = 1024 * 1024;

/// How an earlier session is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// With everything that was said in it.
    Load,
    Resume,
}

impl Way {
    fn method(self) -> &'static str {
        match self {
            Way::Load => "session/load",
            Way::Resume => "session/resume",
        }
    }
}

/// `session/new`. What the agent announces in the session comes after the answer, which tells the editor its id.
pub(super) async fn begin(face: &Arc<Face>, params: Option<&RawValue>, responder: Responder) {
    match new_session(face, params).await {
        Ok((room, inbox, answer)) => {
            let shown = room.id.clone();
            face.enter(shown.clone(), room);
            reply(responder, Ok(answer)).await;
            room::spawn(face, shown, inbox, Beginning::After(0));
        }
        Err(error) => reply(responder, Err(error)).await,
    }
}

/// `session/load` and `session/resume`; the room answers once the editor has seen what it wants to see.
pub(super) async fn take_up(
    face: &Arc<Face>,
    way: Way,
    params: Option<&RawValue>,
    responder: Responder,
) {
    let taken_up = earlier_session(face, way, params).await;
    let (room, inbox, answer) = match taken_up {
        Ok(taken_up) => taken_up,
        Err(error) => return reply(responder, Err(error)).await,
    };
    let view = match face.engine.sessions().get(&room.id).await {
        Ok(view) => view,
        Err(error) => {
            face.turn_back(&room.id).await;
            return reply(responder, Err(error::of_engine(&error))).await;
        }
    };
    let beginning = match (way, view.asks) {
        (Way::Resume, 0) => {
            reply(responder, Ok(answer)).await;
            Beginning::After(view.last_seq)
        }
        // What waits for an answer is in the history, which is read for that alone.
        (Way::Load | Way::Resume, _) => Beginning::Replay(Replay {
            until: view.last_seq,
            told: way == Way::Load,
            responder,
            answer,
        }),
    };
    let shown = named_session(params).unwrap_or_default();
    face.enter(shown.clone(), room);
    room::spawn(face, shown, inbox, beginning);
}

/// Why the editor needs a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// To follow it, or to say something that is no prompt.
    Looking,
    /// To have a turn in it.
    Working,
}

/// The conversation of a room in its agent, with the editor standing in for this machine as far as it does.
pub(super) async fn open(
    face: &Face,
    room: &Room,
    wanted: For,
) -> Result<OpenConversation, ErrorObject> {
    let opened = face.engine.sessions().open(&room.id).await;
    let open = opened.map_err(|error| error::of_opening(&error))?;
    if face.asks == Asks::Relayed {
        let client = Lent {
            to: room.native.clone(),
            backlog: room.backlog.clone(),
            instead: room.instead.clone(),
            client: face.number,
            at_work: wanted == For::Working,
        };
        open.driver.lend(&open.conversation, client);
    }
    Ok(open)
}

/// A prompt in plain words, for the history and for agents that take nothing else.
pub(super) fn prompt_text(prompt: &Value) -> Result<String, ErrorObject> {
    let blocks = prompt
        .as_array()
        .ok_or_else(|| ErrorObject::invalid_params("prompt: it is missing"))?;
    let is_empty = |block: &Value| {
        convert::text(block, "type") == Some("text") && convert::text(block, "text").is_none()
    };
    if blocks.iter().any(is_empty) {
        return Err(ErrorObject::invalid_params(
            "prompt: the text of a block is missing, or no text",
        ));
    }
    let words = |block: &Value| {
        let kind = || convert::text(block, "type").unwrap_or("something");
        convert::content_text(block).unwrap_or_else(|| format!("[{}]", kind()))
    };
    let text = blocks.iter().map(words).collect::<Vec<_>>().join("\n");
    if text.len() > PROMPT_MAX {
        let length = text.len();
        return Err(ErrorObject::invalid_params(format!(
            "prompt: it has {length} bytes of text, and a prompt has at most {PROMPT_MAX}"
        )));
    }
    Ok(text)
}

type Entered = (Room, Inbox, Box<RawValue>);

async fn new_session(face: &Face, params: Option<&RawValue>) -> Result<Entered, ErrorObject> {
    let wanted = Wanted::read(face, "session/new", params)?;
    let id = create(face, &wanted, None).await?;
    let (room, inbox) = Room::new(id.clone(), wanted.acts(face));
    let opened = attach_and_open(face, &room, For::Working, None).await;
    let open = match opened {
        Ok(open) => open,
        Err(error) => {
            face.turn_back(&id).await;
            let _ = face.engine.sessions().close(&id).await; // Nobody has seen it.
            return Err(error);
        }
    };
    wanted.tell_refusals(face, &id);
    let said = open.driver.said(About::Conversation(&open.conversation));
    Ok((room, inbox, answer(said.as_ref(), Some(&id))))
}

async fn earlier_session(
    face: &Face,
    way: Way,
    params: Option<&RawValue>,
) -> Result<Entered, ErrorObject> {
    let wanted = Wanted::read(face, way.method(), params)?;
    let shown = required_session(params)?;
    let (id, foreign) = match find(face, &shown).await? {
        Some(id) => {
            reopen(face, &id).await?;
            (id, false)
        }
        None => (create(face, &wanted, Some(shown.clone())).await?, true),
    };
    let (room, inbox) = Room::new(id.clone(), wanted.acts(face));
    // Whoever takes it up brings servers and settings, as one who begins does.
    let reworded = (!foreign).then(|| wanted.open.clone());
    let opened = attach_and_open(face, &room, For::Looking, reworded).await;
    let opened = match opened {
        Ok(open) if foreign && open.conversation != shown => Err(error::unknown_session(&shown)),
        Err(error) if foreign && error.code == RESOURCE_NOT_FOUND => {
            Err(error::unknown_session(&shown))
        }
        opened => opened,
    };
    let open = match opened {
        Ok(open) => open,
        Err(error) => {
            face.turn_back(&id).await;
            if foreign {
                let _ = face.engine.sessions().close(&id).await; // The agent does not know it, and neither do we.
            }
            return Err(error);
        }
    };
    wanted.tell_refusals(face, &id);
    let said = open.driver.said(About::Conversation(&open.conversation));
    Ok((room, inbox, answer(said.as_ref(), None)))
}

/// The conversation of a room that the editor is about to enter.
async fn attach_and_open(
    face: &Face,
    room: &Room,
    wanted: For,
    reworded: Option<NativeOpen>,
) -> Result<OpenConversation, ErrorObject> {
    face.attach(&room.id).await?;
    if let Some(open) = reworded {
        face.engine.sessions().reword(&room.id, open).await;
    }
    open(face, room, wanted).await
}

/// The session of ours that the editor means: by our id, or by the one it has in the agent.
pub(super) async fn find(face: &Face, shown: &str) -> Result<Option<String>, ErrorObject> {
    let sessions = face.engine.sessions();
    match sessions.check_owner(shown, &face.agent).await {
        Ok(()) => return Ok(Some(shown.to_owned())),
        Err(EngineError::SessionNotFound { .. }) => {}
        Err(error) => return Err(error::of_engine(&error)),
    }
    let known = sessions.threads(&face.agent).into_iter();
    let mut known = known.filter(|thread| thread.conversation.as_deref() == Some(shown));
    if let Some(thread) = known.next() {
        return Ok(Some(thread.view.session_id));
    }
    match hello(face)? {
        Some(hello) if takes_up(&hello) => {
            // One of ours that is over goes on as what it was.
            let past = sessions.past_threads(&face.agent).await;
            let past = past.map_err(|error| error::of_engine(&error))?;
            let mut past = past.into_iter();
            let known = past.find(|thread| thread.conversation.as_deref() == Some(shown));
            Ok(known.map(|thread| thread.view.session_id))
        }
        Some(_) | None => Err(error::unknown_session(shown)),
    }
}

/// What the agent said when it was connected.
fn hello(face: &Face) -> Result<Option<Raw>, ErrorObject> {
    let driver = face.engine.sessions().driver(&face.agent);
    let driver = driver.map_err(|error| error::of_engine(&error))?;
    Ok(driver.said(About::Agent))
}

/// Whether a session that is over may go on; of an agent that does not say, it may.
pub(super) fn may_reopen(face: &Face) -> Result<bool, ErrorObject> {
    Ok(hello(face)?.is_none_or(|hello| takes_up(&hello) || reopens(&hello)))
}

/// A session that was closed is not deleted: it goes on, if its agent can take up the conversation.
async fn reopen(face: &Face, id: &str) -> Result<(), ErrorObject> {
    let sessions = face.engine.sessions();
    let view = sessions.get(id).await;
    let view = view.map_err(|error| error::of_engine(&error))?;
    if matches!(view.state, Lease::Active | Lease::Idle) {
        return Ok(());
    }
    if !may_reopen(face)? {
        return Err(error::over_for_good(id));
    }
    let reopened = sessions.reopen(id).await;
    reopened.map_err(|error| error::of_engine(&error))
}

/// The session that a request must name.
pub(super) fn required_session(params: Option<&RawValue>) -> Result<String, ErrorObject> {
    named_session(params)
        .ok_or_else(|| ErrorObject::invalid_params("sessionId: it is missing, or no text"))
}

/// Whether the agent has sessions of its own that outlive a conversation; one that has not would take any id for a new one.
fn takes_up(hello: &Raw) -> bool {
    let said: Value = serde_json::from_str(&hello.frame).unwrap_or_default();
    let capabilities = &said["agentCapabilities"];
    let resumes = &capabilities["sessionCapabilities"]["resume"];
    capabilities["loadSession"] == true || resumes.is_object() || *resumes == true
}

/// Whether the agent goes on with conversations that it has had with us, and knows no others.
fn reopens(hello: &Raw) -> bool {
    let said: Value = serde_json::from_str(&hello.frame).unwrap_or_default();
    said["_meta"]["agentcraft"]["reopens"] == true
}

async fn create(
    face: &Face,
    wanted: &Wanted,
    resume: Option<String>,
) -> Result<String, ErrorObject> {
    let session = NativeSession {
        create: CreateSession {
            agent: face.agent.clone(),
            client: Some(face.abilities().name),
            idle_ttl: None,
        },
        cwd: (face.folder == Folder::Client).then(|| wanted.cwd.clone().into()),
        open: wanted.open.clone(),
        resume,
    };
    let created = face.engine.sessions().create_native(session).await;
    Ok(created
        .map_err(|error| error::of_engine(&error))?
        .session_id)
}

/// The agent's answer to the request that opened its conversation, for the editor's own session.
fn answer(said: Option<&Raw>, id: Option<&str>) -> Box<RawValue> {
    let Some(mut members) = Members::read(said.map_or("{}", |said| &said.frame)) else {
        return empty();
    };
    match id {
        Some(id) => members.set("sessionId", id),
        None => members.remove("sessionId"),
    }
    members.write()
}

/// Params that can be read whole; one that is nested without end is told so, and not that what is in it is missing.
pub(super) fn legible(params: &RawValue) -> Result<Value, ErrorObject> {
    let value = parsed(Some(params));
    match value.is_null() && params.get() != "null" {
        true => Err(ErrorObject::invalid_params(
            "params: they cannot be read; they may be nested too deep",
        )),
        false => Ok(value),
    }
}

/// Refuses what the protocol does: an editor that is not told learns of its mistake from the next agent.
fn check_shape(method: &str, params: &Value) -> Result<(), ErrorObject> {
    let refuse = |words: &str| Err(ErrorObject::invalid_params(words));
    if !params["cwd"].is_string() {
        return refuse("cwd: it is missing, or no text");
    }
    match &params["mcpServers"] {
        Value::Array(servers) if servers.iter().all(Value::is_object) => {}
        Value::Array(_) => return refuse("mcpServers: each of them is an object"),
        Value::Null if method == "session/resume" || params.get("mcpServers").is_some() => {}
        Value::Null => return refuse("mcpServers: it is missing; [] stands for none"),
        _ => return refuse("mcpServers: it is a list of servers"),
    }
    match &params["additionalDirectories"] {
        Value::Null => Ok(()),
        Value::Array(folders) if folders.iter().all(Value::is_string) => Ok(()),
        _ => refuse("additionalDirectories: it is a list of folders"),
    }
}

/// Every folder that the editor names becomes the workspace: `cwd` where the agent is asked, and more folders are none.
fn in_the_workspace(params: &RawValue) -> Box<RawValue> {
    let mut members = Members::read(params.get()).unwrap_or_default();
    // Where the agent works is not the editor's to say.
    members.remove("cwd");
    if members.has("additionalDirectories") {
        members.set("additionalDirectories", &[(); 0]);
    }
    // Agents take more folders there too, under a name of their own.
    let meta = members.get("_meta").map(|meta| meta.get().to_owned());
    let meta = meta.as_deref().and_then(Members::read);
    if let Some(mut meta) = meta
        && meta.has("additionalRoots")
    {
        meta.set("additionalRoots", &[(); 0]);
        members.set("_meta", &meta);
    }
    members.write()
}

/// What an editor asks for when it opens a session.
#[derive(Debug)]
struct Wanted {
    cwd: String,
    open: NativeOpen,
    refused: Vec<String>,
}

impl Wanted {
    fn read(face: &Face, method: &str, params: Option<&RawValue>) -> Result<Self, ErrorObject> {
        let params = params.ok_or_else(|| ErrorObject::invalid_params("params are missing"))?;
        let value = legible(params)?;
        check_shape(method, &value)?;
        let cwd = convert::text(&value, "cwd").unwrap_or_default().to_owned();
        if face.folder == Folder::Client && !Path::new(&cwd).is_absolute() {
            return Err(ErrorObject::invalid_params(format!(
                "the cwd {cwd:?} is not an absolute path"
            )));
        }
        let mut admitted = servers::admit(face.engine.sessions(), &face.agent, params);
        if face.folder == Folder::Workspace {
            admitted.params = in_the_workspace(&admitted.params);
        }
        Ok(Self {
            cwd,
            open: NativeOpen {
                method: method.to_owned(),
                params: convert::raw(&admitted.params),
                clash: Clash::TemplateWins,
            },
            refused: admitted.refused,
        })
    }

    /// The acts that the editor carries out: its view of the files is the right one only where the agent works in its folder.
    fn acts(&self, face: &Face) -> Vec<&'static str> {
        let workspace = face.engine.agent(face.agent.as_str());
        let workspace = workspace
            .map(|agent| agent.workspace_dir.clone())
            .unwrap_or_default();
        let same = Path::new(&self.cwd) == Path::new(&workspace);
        match face.folder == Folder::Client || same {
            true => face.abilities().acts(),
            false => Vec::new(),
        }
    }

    fn tell_refusals(&self, face: &Face, id: &str) {
        for words in &self.refused {
            face.engine.sessions().notice(id, words.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_block_of_text_without_a_text_is_no_empty_one() {
        for block in [
            json!({ "type": "text" }),
            json!({ "type": "text", "text": 5 }),
        ] {
            let prompt = json!([{ "type": "text", "text": "a" }, block]);
            let error = prompt_text(&prompt).unwrap_err();
            assert_eq!(error.code, -32602, "{prompt}");
        }
        let empty = json!([{ "type": "text", "text": "" }]);
        assert_eq!(prompt_text(&empty).unwrap(), "");
    }
}
