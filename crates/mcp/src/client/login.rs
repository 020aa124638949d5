//! Logging in at an MCP server: a person agrees in a browser, and the browser brings the answer to a port of ours.

use std::time::Duration;

use axum::{Router, extract::State, http::Uri, response::Html, routing::get};
use rmcp::transport::auth::{
    AuthError, AuthorizationRequest, AuthorizationSession, CredentialStore,
};
use tokio::{net::TcpListener, sync::mpsc};

use super::logins::{Logins, manager};

/// What the server calls us.
const CLIENT: &str = "AgentCraft";

/// Where the browser brings the answer.
const CALLBACK: &str = "/callback";

/// How long a person may take to agree.
const AGREE_MAX: Duration = Duration::from_secs(15 * 60);

/// How long the server may take to say where one logs in, and to give the token.
const SERVER_MAX: Duration = Duration::from_secs(60);

/// How long the page that thanks may take.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

const PAGE: &str = "<!doctype html><title>AgentCraft</title><p>The answer has arrived. This page may be closed; \
                    the terminal says whether the login has worked.";

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("no port of this machine can take the answer")]
    Listen { source: std::io::Error },
    #[error("the server does not say where one logs in")]
    Discover { source: AuthError },
    #[error("the server does not take us as a client")]
    Register { source: AuthError },
    #[error("nobody has agreed within {} minutes", AGREE_MAX.as_secs() / 60)]
    NobodyAgreed,
    #[error("it was not agreed to ({reason})")]
    Denied { reason: String },
    #[error("the server gives no token for the answer")]
    Exchange { source: AuthError },
    #[error("the server did not answer within {} s", SERVER_MAX.as_secs())]
    Silent,
}

/// Logs in at a server; `show` is given the address that a person opens in a browser of this machine.
pub async fn login(
    logins: &Logins,
    server: &str,
    show: impl FnOnce(&str),
) -> Result<(), LoginError> {
    let listen = |source| LoginError::Listen { source };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(listen)?;
    let port = listener.local_addr().map_err(listen)?.port();
    let here = format!("http://127.0.0.1:{port}");
    let beginning = begin(logins, server, format!("{here}{CALLBACK}"));
    let session = tokio::time::timeout(SERVER_MAX, beginning).await;
    let session = session.map_err(|_| LoginError::Silent)??;
    show(session.get_authorization_url());
    let agreed = tokio::time::timeout(AGREE_MAX, answer(listener)).await;
    let answer = agreed.map_err(|_| LoginError::NobodyAgreed)??;
    if let Some(reason) = refusal(&answer) {
        return Err(LoginError::Denied { reason });
    }
    let exchanging = async {
        let _guard = logins.of(server).acquire_refresh_guard().await?;
        session
            .handle_callback_url(&format!("{here}{answer}"))
            .await
    };
    let exchanged = tokio::time::timeout(SERVER_MAX, exchanging).await;
    let exchanged = exchanged.map_err(|_| LoginError::Silent)?;
    exchanged.map_err(|source| LoginError::Exchange { source })?;
    Ok(())
}

async fn begin(
    logins: &Logins,
    server: &str,
    redirect: String,
) -> Result<AuthorizationSession, LoginError> {
    let discover = |source| LoginError::Discover { source };
    let mut manager = manager(server).await.map_err(discover)?;
    manager.set_credential_store(logins.of(server));
    let found = manager.resolve_metadata().await.map_err(discover)?;
    manager.set_metadata(found.metadata);
    let request = AuthorizationRequest::new(redirect)
        .with_client_name(CLIENT)
        .with_initial_scope_selection();
    let session = AuthorizationSession::new(manager, request).await;
    session.map_err(|(_, source)| LoginError::Register { source })
}

/// Waits for the browser, and thanks it.
async fn answer(listener: TcpListener) -> Result<Uri, LoginError> {
    let (bringing, mut brought) = mpsc::channel(1);
    let take = |State(bringing): State<mpsc::Sender<Uri>>, uri: Uri| async move {
        let _ = bringing.try_send(uri); // The first answer counts.
        Html(PAGE)
    };
    let router = Router::new()
        .route(CALLBACK, get(take))
        .with_state(bringing);
    let (ending, end) = tokio::sync::oneshot::channel::<()>();
    let serving = axum::serve(listener, router).with_graceful_shutdown(async {
        let _ = end.await; // Dropped, it is over too.
    });
    let serving = serving.into_future();
    tokio::pin!(serving);
    let answer = tokio::select! { biased;
        answer = brought.recv() => answer,
        served = &mut serving => {
            served.map_err(|source| LoginError::Listen { source })?;
            None
        }
    };
    drop(ending);
    let _ = tokio::time::timeout(FAREWELL_MAX, serving).await; // A page that is not read is no loss.
    answer.ok_or(LoginError::NobodyAgreed)
}

/// Why it was not agreed to, in the word of the specification, which comes from outside.
fn refusal(answer: &Uri) -> Option<String> {
    let mut pairs = answer.query()?.split('&');
    let word = pairs.find_map(|pair| pair.strip_prefix("error="))?;
    Some(
        word.chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
            .take(64)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_its_word_and_nothing_else_of_it() {
        let of = |text: &str| refusal(&text.parse().unwrap());
        assert_eq!(
            of("/callback?error=access_denied&state=s").as_deref(),
            Some("access_denied")
        );
        assert_eq!(of("/callback?error=%1b[2J").as_deref(), Some("1b2J"));
        assert_eq!(of("/callback?code=c&state=error"), None);
        assert_eq!(of("/callback"), None);
    }
}
