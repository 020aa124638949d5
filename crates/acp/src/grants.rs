//! Acts that an agent has the client do for it: files written and commands run through us.
//!
//! An agent that has asked may go on; one that has not is asked about as if it had, so that the policy decides on every
//! act and not only on those that the agent thinks worth asking.

use std::collections::BTreeSet;

use domain::{
    permission::{Call, CallPath},
    turn::{Answer, AskKind, AskOption, Location, OptionKind, ToolCall, ToolKind, ToolStatus},
};
use jsonrpc::ErrorObject;
use serde_json::{Value, json};

use crate::{command, convert, sessions::Sessions};

/// What the ids of our own asks begin with, beside the agent's own.
pub(crate) const ACT: &str = "client-act-";

const ALLOW: &str = "allow_once";

/// What has been allowed: in this turn, and for as long as the session lasts.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    paths: BTreeSet<String>,
    commands: BTreeSet<String>,
    standing: Vec<ToolKind>,
}

impl Grants {
    /// What was allowed once is over with its turn.
    pub(crate) fn begin_turn(&mut self) {
        self.paths.clear();
        self.commands.clear();
    }

    /// Somebody allowed this call.
    pub(crate) fn allow(&mut self, tool: &ToolCall, workspace: &str, lasting: OptionKind) {
        let call = Call::of(tool, workspace);
        self.paths
            .extend(call.paths.iter().map(|path| path.as_str().to_owned()));
        self.commands.extend(call.command);
        if lasting == OptionKind::AllowAlways {
            self.standing.push(tool.kind);
        }
    }

    fn cover(&self, tool: &ToolCall, workspace: &str) -> bool {
        let call = Call::of(tool, workspace);
        let known = |path: &CallPath| self.paths.contains(path.as_str());
        let path = !call.paths.is_empty() && call.command.is_none() && call.paths.iter().all(known);
        let command = call
            .command
            .as_ref()
            .is_some_and(|command| self.commands.contains(command));
        path || command || self.standing.contains(&tool.kind)
    }
}

/// A file that the agent has us write.
pub(crate) fn write(params: &Value) -> ToolCall {
    let path = convert::text(params, "path").unwrap_or_default();
    act(
        ToolKind::Edit,
        format!("write {path}"),
        Some(path),
        json!({ "path": path }),
    )
}

/// A file that the agent has us read.
pub(crate) fn read(params: &Value) -> ToolCall {
    let path = convert::text(params, "path").unwrap_or_default();
    act(
        ToolKind::Read,
        format!("read {path}"),
        Some(path),
        json!({ "path": path }),
    )
}

/// A command that the agent has us run, with all that decides what it does.
pub(crate) fn run(params: &Value) -> ToolCall {
    let line = command::terminal_line(params);
    act(
        ToolKind::Execute,
        line.clone(),
        None,
        json!({ "command": line }),
    )
}

fn act(kind: ToolKind, title: String, path: Option<&str>, input: Value) -> ToolCall {
    let locations = path.map(|path| Location {
        path: path.to_owned(),
        line: None,
    });
    ToolCall {
        // Of its own, for whoever is asked two things at once, and never used again in the history of a session.
        id: format!("{ACT}{}", platform::owner::fresh_id()),
        title,
        name: None,
        kind,
        status: ToolStatus::Pending,
        locations: locations.into_iter().collect(),
        content: Vec::new(),
        input: Some(input.to_string()),
        output: None,
    }
}

/// Refuses what a rule denies. Reading is not asked about: an agent that may work in a folder may look at it.
pub(crate) fn check(
    sessions: &Sessions,
    params: &Value,
    tool: &ToolCall,
) -> Result<(), ErrorObject> {
    let session = convert::text(params, "sessionId").unwrap_or_default();
    // Rules are those of a session: what names none that is open has none to be allowed by.
    let asking = sessions
        .questions(session)
        .ok_or_else(|| unknown(session))?;
    match asking.sink.denied(tool) {
        Some(why) => Err(ErrorObject::new(-32000, format!("{}: {why}", tool.title))),
        None => Ok(()),
    }
}

/// Waits until the act is allowed, or refuses it in words that the agent can tell its user.
pub(crate) async fn permit(
    sessions: &Sessions,
    params: &Value,
    tool: ToolCall,
) -> Result<(), ErrorObject> {
    let session = convert::text(params, "sessionId").unwrap_or_default();
    let asking = sessions
        .questions(session)
        .ok_or_else(|| unknown(session))?;
    // What somebody allows for good is allowed within the rules: what they deny is asked about, and so denied and told of.
    let is_granted =
        || sessions.is_granted(session, |grants, workspace| grants.cover(&tool, workspace));
    if asking.sink.denied(&tool).is_none() && is_granted() {
        return Ok(());
    }
    let option = |id: &str, name: &str, kind| AskOption {
        id: id.to_owned(),
        name: name.to_owned(),
        kind,
    };
    let title = tool.title.clone();
    let kind = AskKind::Permission {
        tool,
        options: vec![
            option(ALLOW, "Allow once", OptionKind::AllowOnce),
            option("reject_once", "Reject", OptionKind::RejectOnce),
        ],
        destructive: false,
    };
    match asking.ask(kind, None).await.answer {
        Answer::Option { id } if id == ALLOW => Ok(()),
        Answer::Option { .. } | Answer::Text { .. } | Answer::Declined => Err(ErrorObject::new(
            -32000,
            format!("the user's policy does not allow it: {title}"),
        )),
    }
}

/// A request for a session that is not open.
pub(crate) fn unknown(session: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("there is no session {session:?}"))
}
