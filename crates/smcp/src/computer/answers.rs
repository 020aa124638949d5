//! What a computer answers to each question of the agent.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::smcp::{
    BlobAsk, CALL_PROGRESS, CallProgress, CallResult, DesktopAnswer, ErrorBody, Profile,
    ResourcesAnswer, ServerEvent, ToolCall, ToolsAnswer,
};

use super::{
    CallFailure, Confirmation, Desk,
    calls::{Begin, CallId, Carrying, Kept},
    desktop::{self, WINDOW, WINDOWS_MAX, Window},
    masking,
    naming::{Found, Shown, Target, bundle_id},
    port::ResourceFailure,
};
use crate::{
    Listener, clock,
    convert::{self, code},
    link::Teller,
};

/// Pages of resources that are read for a desktop, for each server.
const PAGES_MAX: usize = 8;

/// How long one server has for its part of the desktop, so that one that hangs does not hide the others.
const WINDOWS_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time that a call may be given.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a cancelled call has to tell its server.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// The largest result: released agents take messages of 4 MiB, and the packet has a frame around it.
const RESULT_MAX: usize = 7 * 512 * 1024;

/// The codes of the released profile for a server that wants other credentials.
const UNAUTHORIZED: i64 = 4006;
const FORBIDDEN: i64 = 4007;

/// A call that has been read, and what is to be done with it.
pub(super) struct Begun {
    call: ToolCall,
    begin: Begin,
}

impl Desk {
    /// The tools under their names, made anew when they have changed.
    async fn shown(&self) -> Arc<Shown> {
        let revision = self.tools.revision();
        if let (Some(now), Some((then, shown))) = (revision, &*self.known())
            && now == *then
        {
            return Arc::clone(shown);
        }
        let config = self.tools.config();
        let shown = Arc::new(Shown::merge(&config.servers, &self.tools.tools().await));
        *self.known() = revision.map(|revision| (revision, Arc::clone(&shown)));
        shown
    }

    fn known(&self) -> MutexGuard<'_, Option<(u64, Arc<Shown>)>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn list_tools(&self, body: &Value) -> Value {
        json!(ToolsAnswer {
            tools: self.shown().await.tools().cloned().collect(),
            req_id: request_id(body),
        })
    }

    pub(super) fn tell_config(&self, body: &Value) -> Value {
        let mut config = masking::masked(self.tools.config());
        let servers = std::mem::take(&mut config.servers);
        for (_, mut server) in servers {
            let bundle = bundle_id(&server);
            server.bundle_id = Some(bundle.clone());
            config.servers.insert(bundle, server);
        }
        let profile = self.config.link.profile;
        let mut answer = config.to_value(profile);
        if profile == Profile::Seed {
            answer["req_id"] = json!(request_id(body));
        }
        answer
    }

    /// Enters a call into the book; from here on a cancel finds it.
    pub(super) fn begin(&self, body: &Value) -> Result<Begun, ErrorBody> {
        let call: ToolCall = read(body)?;
        let begin = self.calls.begin(CallId::of(&call, body));
        Ok(Begun { call, begin })
    }

    pub(super) async fn call(
        self: &Arc<Self>,
        Begun { call, begin }: Begun,
        body: &Value,
        teller: Teller,
    ) -> Result<Value, ErrorBody> {
        let wants_news = body[CALL_PROGRESS] == Value::Bool(true);
        let listener = wants_news.then(|| self.listener(&call.req_id, teller));
        match begin {
            Begin::Busy => {
                let words = "The computer works on too many calls.";
                Err(ErrorBody::new(code::FORBIDDEN, words).with("reason", "busy"))
            }
            Begin::Known(mut answer) => {
                let kept = answer.wait_for(Option::is_some).await;
                let words = match kept.ok().and_then(|kept| kept.clone()) {
                    Some(Kept::Answer(answer)) => return Ok(answer),
                    Some(Kept::Gone) => "This call was answered; its answer is not kept.",
                    None => "The first call of this id was lost.",
                };
                Err(ErrorBody::new(code::INTERNAL, words))
            }
            Begin::Carry(carrying) => {
                let answer = self.carry(call, &carrying, listener).await;
                let profile = self.config.link.profile;
                let answer = answer.unwrap_or_else(|error| error.to_value(profile));
                carrying.publish(&answer);
                Ok(answer)
            }
        }
    }

    /// Passes on what is said of a call's progress, as far as it may be said.
    fn listener(self: &Arc<Self>, request: &str, teller: Teller) -> Listener {
        let (desk, request) = (Arc::clone(self), request.to_owned());
        Listener::new(move |mut progress| {
            let mut news = desk.news.lock().unwrap_or_else(PoisonError::into_inner);
            if news.spend(clock::now()).is_err() {
                return;
            }
            drop(news);
            convert::shorten(&mut progress.message);
            let said = CallProgress {
                req_id: request.clone(),
                computer: None,
                progress,
            };
            teller.try_tell(ServerEvent::TOOL_CALL_PROGRESS, json!(said));
        })
    }

    async fn carry(
        &self,
        call: ToolCall,
        carrying: &Carrying,
        listener: Option<Listener>,
    ) -> Result<Value, ErrorBody> {
        let target = match self.shown().await.find(&call.tool_name) {
            Found::Tool(target) => target,
            Found::Disabled => return self.not_callable(code::FORBIDDEN, &call, "disabled"),
            Found::Forbidden => return self.not_callable(code::FORBIDDEN, &call, "forbidden"),
            Found::Nothing => return self.not_callable(code::NOT_FOUND, &call, "not found"),
        };
        let timeout = call.timeout.filter(|seconds| *seconds > 0.0);
        let timeout = timeout.map_or(self.config.call_timeout, |seconds| {
            Duration::try_from_secs_f64(seconds).unwrap_or(CALL_TIMEOUT_MAX)
        });
        let work = async {
            let _turn = tokio::select! { biased;
                () = carrying.cancel.cancelled() => return CallResult::cancelled(),
                turn = self.calls.turn() => turn,
            };
            if let Err(why) = self.agreed(&call, &target).await {
                return CallResult::failure(why);
            }
            self.used(&target.bundle);
            let params = call.params.clone();
            let cancel = carrying.cancel.clone();
            let called = self
                .tools
                .call(&target.server, &target.tool, params, cancel, listener);
            match called.await {
                Ok(result) => result,
                Err(failure) => failed(&failure, &target),
            }
        };
        tokio::pin!(work);
        let mut result = tokio::select! { biased;
            () = carrying.cancel.cancelled() => {
                // The server is told through the same token; its own last words are not waited for long.
                let _ = tokio::time::timeout(CANCEL_GRACE, &mut work).await;
                CallResult::cancelled()
            }
            result = &mut work => result,
            () = tokio::time::sleep(timeout.min(CALL_TIMEOUT_MAX)) => {
                carrying.cancel.cancel();
                let _ = tokio::time::timeout(CANCEL_GRACE, &mut work).await;
                return self.too_slow();
            }
        };
        self.blobs.take_from(&mut result);
        if !target.meta.is_empty() {
            result = result.marked("a2c_tool_meta", json!(target.meta));
        }
        Ok(within_a_message(json!(result), &call.tool_name))
    }

    fn too_slow(&self) -> Result<Value, ErrorBody> {
        match self.config.link.profile {
            Profile::Shipped => Ok(json!(CallResult::timed_out())),
            Profile::Seed => {
                let words = "The tool call did not end in time.";
                Err(ErrorBody::new(code::TIMEOUT, words))
            }
        }
    }

    /// The specification has errors for this; released agents understand a failed result.
    fn not_callable(&self, code: i64, call: &ToolCall, reason: &str) -> Result<Value, ErrorBody> {
        let words = format!("The tool '{}' cannot be called: {reason}.", call.tool_name);
        match self.config.link.profile {
            Profile::Seed => Err(ErrorBody::new(code, words)
                .with("tool_name", call.tool_name.as_str())
                .with("reason", reason)),
            Profile::Shipped => {
                let mut result = CallResult::failure(words.clone());
                result.structured_content =
                    Some(json!({ "error": words, "error_type": "ValueError" }));
                Ok(json!(result))
            }
        }
    }

    async fn agreed(&self, call: &ToolCall, target: &Target) -> Result<(), String> {
        let is_applied = target.meta.auto_apply == Some(true);
        match &self.config.confirm {
            None if is_applied => Ok(()),
            None => Err(format!(
                "{} needs a confirmation, and nobody gave it.",
                call.tool_name
            )),
            Some(confirm) => {
                confirm(Confirmation {
                    agent: call.agent.clone(),
                    server: target.bundle.clone(),
                    tool: target.tool.clone(),
                    shown: call.tool_name.clone(),
                    params: call.params.clone(),
                    is_applied,
                })
                .await
            }
        }
    }

    fn used(&self, bundle: &str) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.used(bundle);
    }

    pub(super) async fn show_desktop(&self, body: &Value) -> Result<Value, ErrorBody> {
        let size = match body.get("desktop_size") {
            None | Some(Value::Null) => None,
            Some(size) => {
                let size = size.as_i64().ok_or_else(|| {
                    ErrorBody::new(code::INVALID, "`desktop_size` is a number of windows.")
                })?;
                Some(usize::try_from(size).unwrap_or(0))
            }
        };
        let wanted = body["window"].as_str().map(str::to_owned);
        let mut windows = Vec::new();
        for (key, server) in self.tools.config().servers {
            if server.disabled {
                continue;
            }
            let found =
                tokio::time::timeout(WINDOWS_TIMEOUT, self.windows(&key, bundle_id(&server)));
            windows.extend(found.await.unwrap_or_default());
        }
        windows.retain(|(_, window)| {
            let uri = &window.resource.uri;
            wanted.as_ref().is_none_or(|wanted| wanted == uri)
        });
        let history = {
            let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.clone()
        };
        let keys: Vec<(String, String)> = windows
            .iter()
            .map(|(key, window)| (window.server.clone(), key.clone()))
            .collect();
        let windows = windows.into_iter().map(|(_, window)| window).collect();
        let mut texts = Vec::new();
        for window in desktop::arrange(windows, &history, size) {
            let key = keys.iter().find(|(bundle, _)| *bundle == window.server);
            let Some((_, key)) = key else { continue };
            let read = self.tools.read(key, &window.resource.uri);
            if let Ok(Ok(text)) = tokio::time::timeout(WINDOWS_TIMEOUT, read).await {
                texts.push((window.resource.uri, text));
            }
        }
        Ok(json!(DesktopAnswer {
            desktops: desktop::write(texts),
            req_id: request_id(body),
        }))
    }

    /// The windows of one server, with the server's key; a server that fails has none.
    async fn windows(&self, key: &str, bundle: String) -> Vec<(String, Window)> {
        let mut windows = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let page = self.tools.resources(key, cursor.as_deref()).await;
            let Ok(page) = page else { break };
            let found = page.resources.into_iter();
            windows.extend(
                found
                    .filter(|resource| resource.uri.starts_with(WINDOW))
                    .map(|resource| {
                        let server = bundle.clone();
                        (key.to_owned(), Window { server, resource })
                    }),
            );
            cursor = page.next_cursor;
            if cursor.is_none() || windows.len() >= WINDOWS_MAX {
                break;
            }
        }
        windows
    }

    pub(super) async fn list_resources(&self, body: &Value) -> Result<Value, ErrorBody> {
        let asked = body["mcp_server"].as_str().unwrap_or_default();
        let wrong = |code: i64, words: &str| ErrorBody::new(code, words).with("mcp_server", asked);
        let servers = self.tools.config().servers;
        let found = servers
            .iter()
            .find(|(_, server)| !server.disabled && bundle_id(server) == asked);
        let Some((key, _)) = found else {
            return Err(wrong(4014, "There is no such server."));
        };
        let page = self.tools.resources(key, body["cursor"].as_str()).await;
        match page {
            Ok(page) => Ok(json!(ResourcesAnswer {
                resources: page.resources,
                next_cursor: page.next_cursor,
                req_id: request_id(body),
            })),
            Err(ResourceFailure::NoSuchServer) => Err(wrong(4014, "There is no such server.")),
            Err(ResourceFailure::NotOffered) => {
                let error = wrong(4015, "This server offers no resources.");
                Err(error.with("capability", "resources"))
            }
            Err(failure @ ResourceFailure::Failed(_)) => {
                Err(wrong(code::INTERNAL, &failure.to_string()))
            }
        }
    }

    pub(super) fn give_blob(&self, body: &Value) -> Result<Value, ErrorBody> {
        let ask: BlobAsk = read(body)?;
        self.blobs.read(&ask).map(|answer| json!(answer))
    }
}

/// A failure of the server as a result, with the marks that released agents look for.
fn failed(failure: &CallFailure, target: &Target) -> CallResult {
    let result = CallResult::failure(crate::convert::sentence(&failure.to_string()));
    let (code, hint) = match failure {
        CallFailure::Unauthorized { hint } => (UNAUTHORIZED, hint),
        CallFailure::Forbidden { hint } => (FORBIDDEN, hint),
        CallFailure::NotRunning(_) | CallFailure::Failed(_) => return result,
    };
    result
        .marked("error_code", code)
        .marked("mcp_server", target.bundle.as_str())
        .marked("auth_hint", json!(hint))
}

/// A result that no message can carry fails its own call, and nothing else.
fn within_a_message(result: Value, tool: &str) -> Value {
    let size = result.to_string().len();
    if size <= RESULT_MAX {
        return result;
    }
    json!(CallResult::failure(format!(
        "The result of {tool} is too large: it has {size} bytes, and at most {RESULT_MAX} can be sent. Ask for less of it."
    )))
}

fn request_id(body: &Value) -> String {
    body["req_id"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn read<T: DeserializeOwned>(body: &Value) -> Result<T, ErrorBody> {
    T::deserialize(body).map_err(|error| {
        let words: String = error.to_string().chars().take(200).collect();
        ErrorBody::new(
            code::INVALID,
            format!("The request cannot be read: {words}."),
        )
    })
}
