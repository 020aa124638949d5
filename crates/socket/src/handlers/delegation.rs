//! `delegation.*`: each is asked of who lends.

use std::time::Duration;

use serde_json::Value;
use wire::daemon::{DelegationIdParams, DelegationMessage, DelegationWaitParams, Empty};

use crate::{
    error::RpcError,
    lending::{LendingCall, LendingParameters},
    server::Call,
};

async fn ask(call: &Call, what: LendingCall) -> Result<Value, RpcError> {
    call.service.lender.ask(what).await
}

fn id(call: &Call) -> Result<String, RpcError> {
    Ok(call.params::<DelegationIdParams>()?.delegation_id)
}

pub(super) async fn create(call: &Call) -> Result<Value, RpcError> {
    let parameters = LendingParameters {
        raw: call.raw_params(),
    };
    ask(call, LendingCall::Create(parameters)).await
}

pub(super) async fn message(call: &Call) -> Result<DelegationMessage, RpcError> {
    let given: DelegationMessage = call.params()?;
    let message = ask(call, LendingCall::Message(given.message)).await?;
    Ok(DelegationMessage { message })
}

pub(super) async fn list(call: &Call) -> Result<Value, RpcError> {
    call.params::<Empty>()?;
    ask(call, LendingCall::List).await
}

pub(super) async fn status(call: &Call) -> Result<Value, RpcError> {
    ask(call, LendingCall::Status { id: id(call)? }).await
}

pub(super) async fn wait(call: &Call) -> Result<Value, RpcError> {
    let given: DelegationWaitParams = call.params()?;
    let (id, limit) = (
        given.delegation_id,
        given.timeout_ms.map(Duration::from_millis),
    );
    ask(call, LendingCall::Wait { id, limit }).await
}

pub(super) async fn audit(call: &Call) -> Result<Value, RpcError> {
    ask(call, LendingCall::Audit { id: id(call)? }).await
}

pub(super) async fn cancel(call: &Call) -> Result<Value, RpcError> {
    ask(call, LendingCall::Cancel { id: id(call)? }).await
}

pub(super) async fn prune(call: &Call) -> Result<Value, RpcError> {
    call.params::<Empty>()?;
    ask(call, LendingCall::Prune).await
}
