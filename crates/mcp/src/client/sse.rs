//! The transport before streamable HTTP: one stream of events from the server, and an address that takes our messages.

use std::{sync::Arc, time::Duration};

use platform::Tasks;
use reqwest::{Client, Response, Url, header::HeaderMap};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, sync::DropGuard};
use wire::sse::Decoder;

/// Messages that wait to be read; the stream is not read further while it is full.
const INBOX_MAX: usize = 64;

/// How long the server has to name its address, and to take one message.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A connection to such a server.
#[derive(Debug)]
pub(super) struct SseTransport {
    client: Client,
    endpoint: Url,
    headers: Arc<HeaderMap>,
    inbox: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    _reading: DropGuard,
}

/// No address is in here: it may hold a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum SseError {
    #[error("its address cannot be used")]
    Address,
    #[error("it cannot be reached")]
    Reach { source: reqwest::Error },
    #[error("it answered {status}")]
    Status { status: reqwest::StatusCode },
    #[error("it did not say where messages go")]
    NoEndpoint,
}

impl SseTransport {
    pub(super) async fn connect(
        url: &str,
        headers: impl IntoIterator<Item = (reqwest::header::HeaderName, reqwest::header::HeaderValue)>,
        tasks: &Tasks,
    ) -> Result<Self, SseError> {
        let url = Url::parse(url).map_err(|_| SseError::Address)?;
        let headers: Arc<HeaderMap> = Arc::new(headers.into_iter().collect());
        let client = pinning::believing(Client::builder);
        let client = client.map_err(|source| SseError::Reach { source })?;
        let request = client
            .get(url.clone())
            .headers((*headers).clone())
            .header("accept", "text/event-stream");
        let answer = checked(request.send().await)?;
        let (endpoint_found, mut endpoints) = mpsc::channel(1);
        let (outbox, inbox) = mpsc::channel(INBOX_MAX);
        let reading = CancellationToken::new();
        let stop = reading.clone();
        tasks.spawn(|ending| async move {
            tokio::select! { biased;
                () = ending.cancelled() => {}
                () = stop.cancelled() => {}
                () = read(answer, endpoint_found, outbox) => {}
            }
        });
        let reading = reading.drop_guard();
        let endpoint = tokio::time::timeout(ANSWER_MAX, endpoints.recv()).await;
        let endpoint = endpoint
            .ok()
            .flatten()
            .and_then(|path| url.join(&path).ok());
        // Messages, and what the headers hold, go to the server that was named and to nobody else.
        let endpoint = endpoint.filter(|endpoint| endpoint.origin() == url.origin());
        Ok(Self {
            client,
            endpoint: endpoint.ok_or(SseError::NoEndpoint)?,
            headers,
            inbox,
            _reading: reading,
        })
    }
}

fn checked(answer: reqwest::Result<Response>) -> Result<Response, SseError> {
    let answer = answer.map_err(|error| SseError::Reach {
        source: error.without_url(),
    })?;
    let status = answer.status();
    match status.is_success() {
        true => Ok(answer),
        false => Err(SseError::Status { status }),
    }
}

/// Until the stream ends, which closes the inbox.
async fn read(
    mut answer: Response,
    endpoint: mpsc::Sender<String>,
    outbox: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
) {
    let mut decoder = Decoder::default();
    while let Ok(Some(chunk)) = answer.chunk().await {
        let Ok(events) = decoder.push(&chunk) else {
            return; // What follows cannot be told apart any more.
        };
        for event in events {
            if event.name == "endpoint" {
                let _ = endpoint.try_send(event.data); // Only the first one counts.
                continue;
            }
            match serde_json::from_str(&event.data) {
                Ok(message) => {
                    if outbox.send(message).await.is_err() {
                        return;
                    }
                }
                Err(error) => tracing::warn!(%error, "an MCP server sent what is no message"),
            }
        }
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = SseError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), SseError>> + Send + 'static {
        let request = self
            .client
            .post(self.endpoint.clone())
            .headers((*self.headers).clone())
            .timeout(ANSWER_MAX)
            .json(&item);
        async move { checked(request.send().await).map(drop) }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<(), SseError> {
        self.inbox.close();
        Ok(())
    }
}
