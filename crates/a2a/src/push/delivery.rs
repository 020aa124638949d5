//! Telling one webhook of one task: in order, again until it is taken, not for ever.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{
    Client, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{AUTHORIZATION, CONTENT_TYPE},
    redirect,
};
use sha2::Sha256;
use tokio::sync::{AcquireError, Semaphore};
use wire::a2a::{
    ArtifactUpdate, MEDIA_TYPE, StreamResponse, TaskPushNotificationConfig, Version, v03,
};

use super::address;
use crate::{PushPolicy, feed::Follower};

/// How long a webhook has to answer.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// How often one update is sent: with the pauses below, for about half a minute.
const ATTEMPTS_MAX: u32 = 8;

/// The first pause; each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// A webhook that has taken none of so many updates in a row is given up.
const FAILURES_MAX: u32 = 3;

/// One update holds at most so many chunks of text of a stream that is faster than the webhook.
const MERGE_MAX: usize = 256 * 1024;

/// Carries the token of the configuration back.
const TOKEN_HEADER: &str = "x-a2a-notification-token";

/// The body's HMAC-SHA256 under the token, so that a webhook can tell that nobody has changed it.
const SIGNATURE_HEADER: &str = "x-agentcraft-signature";

/// What it takes to tell one webhook.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) client: Client,
    pub(super) policy: PushPolicy,
    /// Those of the caller, and those of the node, in the order in which they are waited for.
    pub(super) slots: [Arc<Semaphore>; 2],
    pub(super) config: TaskPushNotificationConfig,
    pub(super) version: Version,
}

/// A client that follows no redirects and, unless told otherwise, finds only public addresses.
pub(super) fn client(policy: PushPolicy) -> Client {
    let builder = || {
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .timeout(ANSWER_MAX);
        match policy {
            PushPolicy::Anywhere => builder,
            PushPolicy::Public | PushPolicy::Off => builder.dns_resolver(Arc::new(PublicOnly)),
        }
    };
    pinning::believing(builder).expect("these settings need nothing of the machine")
}

/// Finds the public addresses of a name, at the moment of the call: a name may change its mind after it was checked.
#[derive(Debug)]
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found
                .filter(|found| address::is_public(found.ip()))
                .collect();
            if public.is_empty() {
                let words = format!("{} has no public address", name.as_str());
                return Err(words.into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an update was taken.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Yes,
    No,
}

impl Delivery {
    /// Tells everything until the task is over or the webhook is given up.
    pub(super) async fn follow(&self, mut follower: Follower) {
        let mut failures = 0;
        let mut held: Option<Arc<StreamResponse>> = None;
        loop {
            let next = match held.take() {
                Some(next) => Some(next),
                None => follower.next().await,
            };
            let Some(update) = next else { return };
            let update = merge(update, &mut follower, &mut held);
            let Some(body) = self.body(&update, &follower) else {
                continue;
            };
            match self.tell(body).await {
                Told::Yes => failures = 0,
                Told::No => failures += 1,
            }
            if failures >= FAILURES_MAX {
                tracing::warn!(
                    url = self.config.url,
                    "a webhook takes nothing and is given up"
                );
                return;
            }
        }
    }

    /// In 1.0 every update is told, in 0.3 the whole task whenever its status changes.
    fn body(&self, update: &StreamResponse, follower: &Follower) -> Option<Bytes> {
        let value = match (self.version, update) {
            (Version::V1, update) => serde_json::to_value(update).ok()?,
            (Version::V03, StreamResponse::ArtifactUpdate(_)) => return None,
            (Version::V03, _) => v03::task(&follower.task()),
        };
        Some(value.to_string().into())
    }

    async fn tell(&self, body: Bytes) -> Told {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS_MAX {
            match self.send(body.clone()).await {
                Ok(status) if status.is_success() => return Told::Yes,
                // It will not like the next attempt any better.
                Ok(StatusCode::GONE) => return Told::No,
                Ok(status) => tracing::debug!(url = self.config.url, %status, "webhook"),
                Err(error) => tracing::debug!(url = self.config.url, %error, "webhook"),
            }
            if attempt < ATTEMPTS_MAX {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
        Told::No
    }

    async fn send(&self, body: Bytes) -> Result<StatusCode, String> {
        // Checked again: the policy of this daemon may be another than that of the one that took the webhook.
        address::check(&self.config.url, self.policy)?;
        let [of_caller, of_node] = &self.slots;
        let closed = |error: AcquireError| error.to_string();
        let _of_caller = of_caller.acquire().await.map_err(closed)?;
        let _of_node = of_node.acquire().await.map_err(closed)?;
        let media = match self.version {
            Version::V1 => MEDIA_TYPE,
            Version::V03 => "application/json",
        };
        let mut request = self
            .client
            .post(&self.config.url)
            .header(CONTENT_TYPE, media)
            .header(wire::a2a::VERSION_HEADER, self.version.as_str());
        if let Some(authentication) = &self.config.authentication {
            let credentials = authentication.credentials.as_deref().unwrap_or_default();
            let value = format!("{} {credentials}", authentication.scheme);
            request = request.header(AUTHORIZATION, value.trim_end());
        }
        if let Some(token) = &self.config.token {
            request = request
                .header(TOKEN_HEADER, token)
                .header(SIGNATURE_HEADER, signature(token, &body));
        }
        let response = request.body(body).send().await;
        let response = response.map_err(|error| error.to_string())?;
        Ok(response.status())
    }
}

/// Takes further chunks of the same artifact into one update, if they are there already.
fn merge(
    update: Arc<StreamResponse>,
    follower: &mut Follower,
    held: &mut Option<Arc<StreamResponse>>,
) -> Arc<StreamResponse> {
    let StreamResponse::ArtifactUpdate(first) = update.as_ref() else {
        return update;
    };
    let mut merged: ArtifactUpdate = first.clone();
    let mut size = merged.artifact.weight();
    while !merged.last_chunk && size < MERGE_MAX {
        let Some(next) = follower.try_next() else {
            break;
        };
        match next.as_ref() {
            StreamResponse::ArtifactUpdate(more)
                if more.append && more.artifact.artifact_id == merged.artifact.artifact_id =>
            {
                size += more.artifact.weight();
                merged.artifact.extend(&more.artifact);
                merged.last_chunk = more.last_chunk;
            }
            _ => {
                *held = Some(next);
                break;
            }
        }
    }
    Arc::new(StreamResponse::ArtifactUpdate(merged))
}

fn signature(token: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes());
    let mut mac = mac.expect("HMAC takes a key of any length");
    mac.update(body);
    let bytes = mac.finalize().into_bytes();
    format!("sha256={}", wire::hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_signed_with_the_token() {
        // Computed with `openssl dgst -sha256 -hmac key`.
        assert_eq!(
            signature("key", b"The quick brown fox jumps over the lazy dog"),
            "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
        );
    }

    #[tokio::test]
    async fn a_name_of_this_machine_has_no_public_address() {
        let name = "localhost".parse().unwrap();
        assert!(PublicOnly.resolve(name).await.is_err());
    }
}
