//! One tool call of a turn: shown, perhaps asked about, brought to its end.

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionUpdate, ToolCall, ToolCallContent, ToolCallId,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use jsonrpc::CallError;

use crate::{
    session::{Mode, Standing},
    turn::{Interrupted, Turn},
    words,
};

/// The options in the order a client shows them; their ids are the protocol's own names for the kinds.
const OPTIONS: [(&str, &str, PermissionOptionKind); 4] = [
    ("allow_once", "Allow once", PermissionOptionKind::AllowOnce),
    (
        "allow_always",
        "Always allow in this session",
        PermissionOptionKind::AllowAlways,
    ),
    ("reject_once", "Reject", PermissionOptionKind::RejectOnce),
    (
        "reject_always",
        "Always reject in this session",
        PermissionOptionKind::RejectAlways,
    ),
];

/// A tool call that is not finished.
#[derive(Debug)]
pub(crate) struct Tool<'a> {
    turn: &'a Turn,
    id: ToolCallId,
    /// What the user's standing decisions are about.
    name: &'static str,
}

/// Whether the tool may do its work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// With the reason in words.
    Denied(String),
}

impl Turn {
    /// Shows a new tool call.
    pub(crate) async fn open_tool(
        &self,
        name: &'static str,
        describe: impl FnOnce(ToolCall) -> ToolCall,
    ) -> Result<Tool<'_>, Interrupted> {
        let id = ToolCallId::new(format!("{name}-{}", uuid::Uuid::new_v4().simple()));
        let call = describe(ToolCall::new(id.clone(), name).name(name.to_owned()));
        self.loose_ends()
            .calls
            .insert(id.0.to_string(), call.clone());
        self.send(SessionUpdate::ToolCall(call)).await?;
        Ok(Tool {
            turn: self,
            id,
            name,
        })
    }

    /// Gives every call that is still open its end: the turn was stopped.
    pub(crate) async fn close_calls(&self) {
        let open = std::mem::take(&mut self.loose_ends().calls);
        for (id, mut call) in open {
            let content: ToolCallContent = "Cancelled.".into();
            call.content.push(content);
            let fields = ToolCallUpdateFields::new()
                .status(ToolCallStatus::Failed)
                .content(call.content.clone());
            call.status = ToolCallStatus::Failed;
            self.session
                .state()
                .history
                .record(SessionUpdate::ToolCall(call));
            let update = ToolCallUpdate::new(id, fields);
            let _ = self.send(SessionUpdate::ToolCallUpdate(update)).await; // The client may have left.
        }
    }
}

impl Tool<'_> {
    /// Shows how far the call is.
    pub(crate) async fn progress(&self, fields: ToolCallUpdateFields) -> Result<(), Interrupted> {
        if let Some(call) = self.turn.loose_ends().calls.get_mut(&*self.id.0) {
            call.update(fields.clone());
        }
        let update = ToolCallUpdate::new(self.id.clone(), fields);
        self.turn.send(SessionUpdate::ToolCallUpdate(update)).await
    }

    pub(crate) async fn start(&self) -> Result<(), Interrupted> {
        self.progress(ToolCallUpdateFields::new().status(ToolCallStatus::InProgress))
            .await
    }

    pub(crate) async fn complete(self, fields: ToolCallUpdateFields) -> Result<(), Interrupted> {
        self.finish(fields.status(ToolCallStatus::Completed)).await
    }

    /// Ends the call as failed; what there is to say is in the fields.
    pub(crate) async fn end_failed(self, fields: ToolCallUpdateFields) -> Result<(), Interrupted> {
        self.finish(fields.status(ToolCallStatus::Failed)).await
    }

    /// Ends the call and tells the user why it failed.
    pub(crate) async fn fail(self, reason: &str) -> Result<(), Interrupted> {
        let turn = self.turn;
        let content: ToolCallContent = reason.into();
        let raw = serde_json::json!({ "error": reason });
        let fields = ToolCallUpdateFields::new()
            .content(vec![content])
            .raw_output(raw);
        self.finish(fields.status(ToolCallStatus::Failed)).await?;
        turn.say(format!("That did not work: {reason}.")).await
    }

    /// Asks the user, unless the mode or an earlier decision answers.
    pub(crate) async fn permission(&self) -> Result<Verdict, Interrupted> {
        let (mode, standing) = {
            let state = self.turn.session.state();
            (state.mode, state.standing.get(self.name).copied())
        };
        match (mode, standing) {
            (Mode::Auto, _) | (Mode::Ask, Some(Standing::Allowed)) => return Ok(Verdict::Allowed),
            (Mode::Plan, _) => return Ok(Verdict::Denied("plan mode changes nothing".into())),
            (Mode::Ask, Some(Standing::Rejected)) => {
                let words = format!("you rejected {} for this session", self.name);
                return Ok(Verdict::Denied(words));
            }
            (Mode::Ask, None) => {}
        }
        let answer = self
            .turn
            .call("session/request_permission", &self.question())
            .await;
        match answer {
            Ok(RequestPermissionResponse {
                outcome: RequestPermissionOutcome::Selected(selected),
                ..
            }) => Ok(self.decide(&selected.option_id.0)),
            Ok(_) => Ok(Verdict::Denied("the question was dismissed".into())),
            Err(CallError::Closed) => Err(Interrupted::Closed),
            Err(error) => {
                let words = format!(
                    "the client could not be asked for permission: {}",
                    words::chain(&error)
                );
                Ok(Verdict::Denied(words))
            }
        }
    }

    fn question(&self) -> RequestPermissionRequest {
        let mut fields = ToolCallUpdateFields::new();
        if let Some(call) = self.turn.loose_ends().calls.get(&*self.id.0) {
            fields = fields
                .title(call.title.clone())
                .kind(call.kind)
                .status(call.status)
                .content(call.content.clone())
                .locations(call.locations.clone())
                .raw_input(call.raw_input.clone());
        }
        let options = OPTIONS.map(|(id, name, kind)| PermissionOption::new(id, name, kind));
        let call = ToolCallUpdate::new(self.id.clone(), fields);
        RequestPermissionRequest::new(self.turn.session.id.clone(), call, options.to_vec())
    }

    fn decide(&self, option: &str) -> Verdict {
        let chosen = OPTIONS.iter().find(|(id, _, _)| *id == option);
        let standing = match chosen.map(|(_, _, kind)| kind) {
            Some(PermissionOptionKind::AllowOnce) => return Verdict::Allowed,
            Some(PermissionOptionKind::AllowAlways) => Standing::Allowed,
            Some(PermissionOptionKind::RejectAlways) => Standing::Rejected,
            Some(_) => return Verdict::Denied("you rejected it".into()),
            None => return Verdict::Denied(format!("the answer {option:?} was not offered")),
        };
        self.turn
            .session
            .state()
            .standing
            .insert(self.name, standing);
        match standing {
            Standing::Allowed => Verdict::Allowed,
            Standing::Rejected => Verdict::Denied("you rejected it for this session".into()),
        }
    }

    async fn finish(self, fields: ToolCallUpdateFields) -> Result<(), Interrupted> {
        let call = self.turn.loose_ends().calls.remove(&*self.id.0);
        if let Some(mut call) = call {
            call.update(fields.clone());
            self.turn
                .session
                .state()
                .history
                .record(SessionUpdate::ToolCall(call));
        }
        let update = ToolCallUpdate::new(self.id, fields);
        self.turn.send(SessionUpdate::ToolCallUpdate(update)).await
    }
}
