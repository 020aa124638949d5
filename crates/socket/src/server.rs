//! Serving connections: each is one loop that reads, answers at once what can be answered at once, and hands the rest to
//! tasks, so that a slow start never keeps a ping waiting.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use engine::Engine;
use jsonrpc::{Connection, Limits, Peer, Received, Request, Responder};
use platform::Tasks;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::{net::UnixStream, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use wire::daemon::ErrorCode;

use crate::{
    Lender, Listener, Proxies, ServeEditor,
    attachments::Attachments,
    editor::{self, Lease},
    error::{self, RpcError},
    handlers,
    handlers::Outcome,
    params,
};

/// Connections at once: commands come and go, editors and dashboards stay; a thousand is a script gone wild.
const CONNECTIONS_MAX: usize = 1024;

/// Requests of one connection being worked on at once.
const REQUESTS_MAX: usize = 256;

/// How long to wait after the system refused a connection (too many files), so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Numbers connections, so that sessions can tell them apart.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// Tells a client of sessions from every other one: a connection, or an editor within one.
pub(crate) fn fresh_number() -> u64 {
    CONNECTIONS.fetch_add(1, Ordering::Relaxed)
}

/// What the handlers work with.
#[derive(Debug)]
pub struct Service {
    pub engine: Engine,
    pub version: &'static str,
    pub home: String,
    pub started: Instant,
    /// Cancelled when somebody asks the daemon to stop.
    pub shutdown: CancellationToken,
    /// Speaks ACP to an editor.
    pub editor: ServeEditor,
    /// Editors that speak through `proxy.forward`.
    pub proxies: Proxies,
    /// Lends folders.
    pub lender: Lender,
}

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Tells it from every other one.
    pub(crate) number: u64,
    pub(crate) peer: Peer,
    pub(crate) tasks: Tasks,
}

/// One request on its way through a handler.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) service: Arc<Service>,
    pub(crate) attachments: Arc<Attachments>,
    pub(crate) caller: Caller,
    params: Option<Box<RawValue>>,
    in_progress: Arc<AtomicUsize>,
}

impl Call {
    /// For who understands them better.
    pub(crate) fn raw_params(&self) -> Option<Box<RawValue>> {
        self.params.clone()
    }

    pub(crate) fn params<P: DeserializeOwned>(&self) -> Result<P, RpcError> {
        params::parse(self.params.as_deref())
    }

    /// How many other requests of this connection are being worked on.
    pub(crate) fn working(&self) -> usize {
        self.in_progress.load(Ordering::Relaxed).saturating_sub(1)
    }
}

/// Accepts connections until the tasks are cancelled.
pub async fn serve(listener: Listener, service: Arc<Service>, tasks: Tasks) {
    let stop = tasks.stop();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! { biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) => match room.clone().try_acquire_owned() {
                Ok(place) => {
                    let (service, own) = (service.clone(), tasks.clone());
                    tasks.spawn(|stop| async move {
                        connection(stream, service, own, stop).await;
                        drop(place);
                    });
                }
                Err(_) => turn_away(&stream),
            },
            Err(error) => {
                warn!(%error, "could not accept a connection");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
}

/// One connection too many is told so, in the one line for which a new connection always has room.
fn turn_away(stream: &UnixStream) {
    warn!(
        CONNECTIONS_MAX,
        "turned away a connection: there are too many"
    );
    let words = format!(
        "the daemon serves {CONNECTIONS_MAX} connections already; close some and try again"
    );
    let error = RpcError::new(ErrorCode::GenericBusiness, words).into_object();
    let answer = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error });
    let _ = stream.try_write(format!("{answer}\n").as_bytes()); // It may have left.
}

async fn connection(
    stream: UnixStream,
    service: Arc<Service>,
    tasks: Tasks,
    stop: CancellationToken,
) {
    let (reader, writer) = stream.into_split();
    let (peer, mut incoming) =
        Connection::with_reply_to_malformed(reader, writer, Limits::default(), error::describe);
    let number = fresh_number();
    let attachments = Attachments::new(service.engine.clone(), peer.clone(), tasks.clone(), number);
    let caller = Caller {
        number,
        peer: peer.clone(),
        tasks: tasks.clone(),
    };
    let in_progress = Arc::new(AtomicUsize::new(0));
    let room = Arc::new(Semaphore::new(REQUESTS_MAX));
    loop {
        let received = tokio::select! { biased;
            () = stop.cancelled() => break,
            received = incoming.recv() => received,
        };
        match received {
            None => break,
            Some(Received::Request(request)) if request.method == editor::LEASE => {
                let call = Working::new(request, &service, &attachments, &caller, &in_progress);
                if let Some(editor) = call.lease().await {
                    // From here on the connection speaks another protocol.
                    attachments.leave().await;
                    service.proxies.leave(number);
                    return editor.serve(service.editor, peer, incoming).await;
                }
            }
            Some(Received::Request(request)) => match room.clone().try_acquire_owned() {
                Ok(place) => {
                    let call = Working::new(request, &service, &attachments, &caller, &in_progress);
                    call.answer(&tasks, place).await;
                }
                Err(_) => {
                    let message = format!(
                        "more than {REQUESTS_MAX} requests of this connection are in progress"
                    );
                    let error = RpcError::new(ErrorCode::GenericBusiness, message);
                    let _ = request.responder.fail(error.into_object()).await; // The peer may be gone.
                }
            },
            Some(Received::Malformed { malformed, .. }) => {
                debug!(?malformed, "a line that is no message")
            }
            Some(Received::Notification { .. } | Received::Response { .. }) => {} // Nothing here takes them.
        }
    }
    attachments.leave().await;
    service.proxies.leave(number);
    // Answers under way still go out; those who wait for none are gone.
    let _ = tokio::time::timeout(Duration::from_secs(1), peer.flush()).await;
}

/// A request that is being worked on; counted as long as it lives.
struct Working {
    method: String,
    responder: Responder,
    call: Arc<Call>,
    counted: Counted,
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Working {
    fn new(
        request: Request,
        service: &Arc<Service>,
        attachments: &Arc<Attachments>,
        caller: &Caller,
        in_progress: &Arc<AtomicUsize>,
    ) -> Self {
        in_progress.fetch_add(1, Ordering::Relaxed);
        let call = Call {
            service: service.clone(),
            attachments: attachments.clone(),
            caller: caller.clone(),
            params: request.params,
            in_progress: in_progress.clone(),
        };
        Self {
            method: request.method,
            responder: request.responder,
            call: Arc::new(call),
            counted: Counted(in_progress.clone()),
        }
    }

    /// Answers a client that wants the connection to speak ACP; gives back what it shall have.
    async fn lease(self) -> Option<Lease> {
        match Lease::of(&self.call).await {
            Ok(lease) => {
                respond(self.responder, handlers::answer(lease.result())).await;
                Some(lease)
            }
            Err(error) => {
                respond(self.responder, Err(error)).await;
                None
            }
        }
    }

    /// Answers at once if the handler does not have to wait for anything; otherwise a task goes on with it.
    async fn answer(self, tasks: &Tasks, place: tokio::sync::OwnedSemaphorePermit) {
        let Self {
            method,
            responder,
            call,
            counted,
        } = self;
        let Some(handler) = handlers::find(&method) else {
            let error = RpcError::new(
                ErrorCode::MethodNotFound,
                format!("there is no method {method}"),
            );
            return respond(responder, Err(error.with("method", method))).await;
        };
        let mut work = handler(call);
        let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        match first {
            Poll::Ready(outcome) => respond(responder, outcome).await,
            Poll::Pending => {
                tasks.spawn(|_| async move {
                    let outcome = work.await;
                    // Whoever has the answer must not find the request still counted.
                    drop(counted);
                    respond(responder, outcome).await;
                    drop(place);
                });
            }
        }
    }
}

async fn respond(responder: Responder, outcome: Outcome) {
    let sent = match outcome {
        Ok(result) => responder.reply(&result).await,
        Err(error) => responder.fail(error.into_object()).await,
    };
    if let Err(error) = sent {
        debug!(%error, "an answer did not reach its asker");
    }
}
