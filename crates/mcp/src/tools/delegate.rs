//! The tools that lend a folder to an agent on another machine, and take it back.

use rmcp::model::{CallToolResult, JsonObject, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{hints, parse, result, tool};
use crate::{
    caller::{Caller, LEND_RIGHT},
    failure::Failure,
    node::Node,
};

/// How long one question about the end waits; it is asked again until there is one.
const WAIT_SECS: u64 = 20;

/// The tools by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Delegate,
    Output,
    Cancel,
    Snapshots,
    ApplySnapshot,
    DiscardSnapshot,
    Continue,
    Close,
}

impl Name {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "delegate" => Self::Delegate,
            "delegate_output" => Self::Output,
            "delegate_cancel" => Self::Cancel,
            "delegate_snapshots" => Self::Snapshots,
            "delegate_apply_snapshot" => Self::ApplySnapshot,
            "delegate_discard_snapshot" => Self::DiscardSnapshot,
            "delegate_continue" => Self::Continue,
            "delegate_close" => Self::Close,
            _ => return None,
        })
    }
}

/// `delegate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Delegate {
    /// The address of the node that does the work, such as `http://build-box:7420`.
    peer_url: String,
    /// The folder that is lent, as an absolute path.
    dir: String,
    /// What the agent there shall do.
    prompt: String,
    /// `rw`, or `ro` if nothing may be changed; `rw` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    access: Option<String>,
    /// For how many seconds the folder is lent; an hour unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), with = "i64")]
    ttl_secs: Option<u64>,
    /// `archive`, `git` or `sshfs`; whatever both nodes have unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    transport: Option<String>,
    /// What becomes of the changes: `auto` applies them, `staged` keeps them for delegate_apply_snapshot, `discard` only
    /// shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    keeping: Option<String>,
    /// A token of the other node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    token: Option<String>,
    /// Return at once; delegate_output tells later how it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    background: Option<bool>,
}

/// Everything that is about one delegation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneDelegation {
    /// Its id, as delegate gave it.
    delegation_id: String,
}

/// `delegate_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Output {
    /// Its id, as delegate gave it.
    delegation_id: String,
    /// Wait for the end instead of telling how it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    wait: Option<bool>,
}

/// `delegate_continue`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Continue {
    /// The id of a delegation that has ended.
    delegation_id: String,
    /// What shall be done next in the same folder.
    prompt: String,
    /// Return at once; delegate_output tells later how it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    background: Option<bool>,
}

/// How a delegation stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Standing {
    delegation_id: String,
    /// created, invited, accepted, started, running, completed, error, cancelled or expired.
    state: String,
    /// What the agent said at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    final_summary: Option<String>,
    /// Why it failed, with a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Files that differ, each with what happened to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    /// `pending` if the changes wait to be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    /// What has happened, line by line.
    log: Vec<String>,
}

/// The changes of a delegation that wait, or waited.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshots {
    snapshots: Vec<Value>,
}

/// Every tool of lending.
pub(super) fn all() -> Vec<Tool> {
    let changing = |title: &str| hints(title).destructive(true).open_world(true);
    vec![
        tool::<Delegate, Standing>(
            "delegate",
            "Lend a folder",
            "Lends a folder to an agent on another machine under a lease, with a task. The agent works in it with its own \
             tools, and its changes come back with an audit. Waits for the end unless background is true.",
        )
        .annotate(changing("Lend a folder")),
        tool::<Output, Standing>(
            "delegate_output",
            "Show a delegation",
            "Tells how a delegation stands: its final summary and changed files, or the log after a failure.",
        )
        .annotate(hints("Show a delegation").read_only(true).open_world(false)),
        tool::<OneDelegation, Standing>(
            "delegate_cancel",
            "Take a folder back",
            "Ends a delegation now: the other machine loses access at once.",
        )
        .annotate(changing("Take a folder back").idempotent(true)),
        tool::<OneDelegation, Snapshots>(
            "delegate_snapshots",
            "List kept changes",
            "Lists the changes of a delegation that was made with keeping staged, and whether they were applied.",
        )
        .annotate(hints("List kept changes").read_only(true).open_world(false)),
        tool::<OneDelegation, Standing>(
            "delegate_apply_snapshot",
            "Apply kept changes",
            "Applies the changes of a delegation that wait, all or none: nothing that was changed meanwhile is overwritten.",
        )
        .annotate(hints("Apply kept changes").destructive(true).open_world(false)),
        tool::<OneDelegation, Standing>(
            "delegate_discard_snapshot",
            "Discard kept changes",
            "Throws the changes of a delegation away that wait.",
        )
        .annotate(hints("Discard kept changes").destructive(true).open_world(false)),
        tool::<Continue, Standing>(
            "delegate_continue",
            "Lend a folder again",
            "Begins another round of a delegation that has ended: the same folder, peer and terms, another task.",
        )
        .annotate(changing("Lend a folder again")),
        tool::<OneDelegation, Standing>(
            "delegate_close",
            "Close a delegation",
            "Ends a delegation for good: what runs is cancelled, what waits to be applied is discarded.",
        )
        .annotate(hints("Close a delegation").destructive(true).open_world(false)),
    ]
}

/// What becomes of a delegation whose end is waited for, when whoever waits has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// It was begun for them: the folder is taken back.
    TakesBack,
    /// They only looked.
    ChangesNothing,
}

/// Carries one of them out.
pub(super) async fn call(
    name: Name,
    arguments: Option<JsonObject>,
    node: &Node,
    mut caller: Caller,
) -> Result<CallToolResult, Failure> {
    caller.require(LEND_RIGHT)?;
    match name {
        Name::Delegate => delegate(parse(arguments)?, node, &mut caller).await,
        Name::Output => {
            let output: Output = parse(arguments)?;
            let view = match output.wait {
                Some(true) => {
                    let leaving = Leaving::ChangesNothing;
                    wait(node, &output.delegation_id, &mut caller, leaving).await?
                }
                Some(false) | None => node.get(&path(&output.delegation_id, "")?).await?,
            };
            standing(node, &view).await
        }
        Name::Cancel => act(parse(arguments)?, "/cancel", node).await,
        Name::ApplySnapshot => act(parse(arguments)?, "/apply", node).await,
        Name::DiscardSnapshot => act(parse(arguments)?, "/discard", node).await,
        Name::Close => act(parse(arguments)?, "/close", node).await,
        Name::Snapshots => {
            let one: OneDelegation = parse(arguments)?;
            let found = node.get(&path(&one.delegation_id, "/snapshots")?).await?;
            let snapshots = found["snapshots"].as_array().cloned().unwrap_or_default();
            super::plain(&Snapshots { snapshots })
        }
        Name::Continue => {
            let next: Continue = parse(arguments)?;
            let body = json!({ "prompt": next.prompt });
            let place = path(&next.delegation_id, "/continue")?;
            let view = node.post(&place, &body).await?;
            finish(next.background, view, node, &mut caller).await
        }
    }
}

async fn delegate(
    delegate: Delegate,
    node: &Node,
    caller: &mut Caller,
) -> Result<CallToolResult, Failure> {
    let mut wanted = json!({
        "peerUrl": delegate.peer_url,
        "dir": delegate.dir,
        "prompt": delegate.prompt,
        "background": true,
        "transports": delegate.transport.iter().collect::<Vec<_>>(),
    });
    let given = [
        ("access", delegate.access.map(Value::from)),
        ("ttlSecs", delegate.ttl_secs.map(Value::from)),
        ("keeping", delegate.keeping.map(Value::from)),
        ("token", delegate.token.map(Value::from)),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            wanted[key] = value;
        }
    }
    let view = node.post("/delegations", &wanted).await?;
    finish(delegate.background, view, node, caller).await
}

/// A delegation that was begun: told at once, or at its end.
async fn finish(
    background: Option<bool>,
    view: Value,
    node: &Node,
    caller: &mut Caller,
) -> Result<CallToolResult, Failure> {
    if background == Some(true) {
        return standing(node, &view).await;
    }
    let id = view["id"].as_str().unwrap_or_default().to_owned();
    let end = wait(node, &id, caller, Leaving::TakesBack).await?;
    standing(node, &end).await
}

/// Asks until it is over, and tells what happens.
async fn wait(
    node: &Node,
    id: &str,
    caller: &mut Caller,
    leaving: Leaving,
) -> Result<Value, Failure> {
    let mut told = 0;
    loop {
        let question = path(id, &format!("/wait?timeout={WAIT_SECS}&beyond={told}"))?;
        let seen = tokio::select! { biased;
            () = caller.left() => {
                if leaving == Leaving::TakesBack {
                    node.post(&path(id, "/cancel")?, &json!({})).await?;
                }
                return Err(Failure::cancelled());
            }
            seen = node.get(&question) => seen?,
        };
        let lines = seen["log"].as_array().cloned().unwrap_or_default();
        for line in lines.iter().skip(told) {
            caller.tell(text(&line["text"])).await;
        }
        told = lines.len();
        let state = seen["state"].as_str().unwrap_or_default();
        if matches!(state, "completed" | "error" | "cancelled" | "expired") {
            return Ok(seen);
        }
    }
}

async fn act(one: OneDelegation, what: &str, node: &Node) -> Result<CallToolResult, Failure> {
    node.post(&path(&one.delegation_id, what)?, &json!({}))
        .await?;
    let view = node.get(&path(&one.delegation_id, "")?).await?;
    standing(node, &view).await
}

/// An id becomes part of a path only if it could be nothing else.
fn path(id: &str, rest: &str) -> Result<String, Failure> {
    let is_id = !id.is_empty()
        && id
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'));
    match is_id {
        true => Ok(format!("/delegations/{id}{rest}")),
        false => Err(Failure::invalid(format!(
            "{id:?} is not the id of a delegation"
        ))),
    }
}

async fn standing(node: &Node, view: &Value) -> Result<CallToolResult, Failure> {
    let state = text(&view["state"]);
    let id = text(&view["id"]);
    let ending = &view["ending"][&state];
    let mut changes = Vec::new();
    if state == "completed" && view["side"] == "host" {
        let audit = node.get(&path(&id, "/audit")?).await?;
        let listed = audit["changes"].as_array().cloned().unwrap_or_default();
        changes.extend(
            listed
                .iter()
                .map(|it| format!("{} {}", text(&it["change"]), text(&it["path"]))),
        );
    }
    let error = ending["code"].as_str().map(|code| {
        format!(
            "{code}: {} ({})",
            text(&ending["message"]),
            text(&ending["hint"])
        )
    });
    let log = view["log"].as_array().cloned().unwrap_or_default();
    let standing = Standing {
        final_summary: ending["summary"].as_str().map(str::to_owned),
        snapshot: view["snapshot"]["status"].as_str().map(str::to_owned),
        log: log.iter().map(|line| text(&line["text"])).collect(),
        delegation_id: id,
        state,
        error,
        changes,
    };
    let words = match (&standing.final_summary, &standing.error) {
        (Some(summary), _) => summary.clone(),
        (None, Some(error)) => format!("{error}\n{}", standing.log.join("\n")),
        (None, None) => format!("{} is {}", standing.delegation_id, standing.state),
    };
    let mut made = result(vec![words], &standing)?;
    made.is_error = Some(standing.error.is_some());
    Ok(made)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
