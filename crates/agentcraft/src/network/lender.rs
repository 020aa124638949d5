//! Lending behind the methods of the daemon's socket, whose caller is the node's owner.

use std::collections::BTreeMap;

use awcp::{CreateRequest, DelegationError, Delegations, Lending, Origin};
use engine::Caller;
use serde::Serialize;
use serde_json::{Value, json};
use socket::{Lender, LendingCall, LendingRefusal};

/// Lends what the node lends, once it can be reached by others.
pub(crate) fn lender(lending: Lending) -> Lender {
    Lender::new(move |call| {
        let delegations = lending.delegations().cloned();
        Box::pin(async move {
            let nobody = "this node cannot be reached by others, so it neither lends folders nor takes them: \
                          set `listen` in the [http] table of config.toml";
            let delegations =
                delegations.ok_or_else(|| LendingRefusal::new(nobody, BTreeMap::new()))?;
            answer(&delegations, call).await
        })
    })
}

async fn answer(delegations: &Delegations, call: LendingCall) -> Result<Value, LendingRefusal> {
    match call {
        LendingCall::Create(parameters) => {
            let request: CreateRequest = parameters.read()?;
            if !request.dir.is_absolute() {
                return Err(LendingRefusal::parameter("dir", "it is an absolute path"));
            }
            let id = delegations.create(request.into()).await;
            let id = id.map_err(|error| refused(&error))?.to_string();
            shown(delegations.get(&id).await)
        }
        LendingCall::Message(data) => {
            let owner = Caller::owner();
            let said = delegations.handle_message(&data, &owner, Origin::Owner);
            let said = said.await;
            let other = "it holds no message of lending, which is an object under `awcp`";
            said.ok_or_else(|| LendingRefusal::parameter("message", other))
        }
        LendingCall::List => shown(delegations.list().await),
        LendingCall::Status { id } => shown(delegations.get(&id).await),
        LendingCall::Wait { id, limit } => {
            shown(delegations.wait(&id, awcp::wait_limit(limit)).await)
        }
        LendingCall::Audit { id } => shown(delegations.audit(&id).await),
        LendingCall::Cancel { id } => shown(delegations.cancel(&id, "it was cancelled").await),
        LendingCall::Prune => {
            let removed = delegations.prune().await;
            shown(removed.map(|removed| json!({ "removed": removed })))
        }
    }
}

fn shown(result: Result<impl Serialize, DelegationError>) -> Result<Value, LendingRefusal> {
    result
        .map(|value| json!(value))
        .map_err(|error| refused(&error))
}

fn refused(error: &DelegationError) -> LendingRefusal {
    let context = match error {
        DelegationError::Refused(failure) => BTreeMap::from([
            ("code", failure.code.as_str().to_owned()),
            ("hint", failure.hint.clone()),
        ]),
        DelegationError::NotFound { id }
        | DelegationError::NothingToUndo { id, .. }
        | DelegationError::NothingWaits { id, .. }
        | DelegationError::NoFurtherRound { id, .. }
        | DelegationError::Audit { id, .. } => BTreeMap::from([("delegationId", id.clone())]),
        DelegationError::Folder { .. }
        | DelegationError::Peer(_)
        | DelegationError::Files(_)
        | DelegationError::Engine(_)
        | DelegationError::Key(_)
        | DelegationError::Bind(_)
        | DelegationError::ShuttingDown => BTreeMap::new(),
    };
    LendingRefusal::new(engine::chain(error), context)
}
