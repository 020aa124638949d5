//! Why a server cannot be used, in words of ours: what the libraries say of it holds addresses, and addresses hold secrets.

use std::{error::Error, fmt};

use engine::ServerStatus;
use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{auth::AuthError, streamable_http_client::StreamableHttpError},
};

use super::{keep::LIST_MAX, sse::SseError};

/// What keeps a server from being used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It wants credentials that it was not given.
    Unauthorized,
    /// It does not allow this to the credentials that it was given.
    Forbidden,
    /// It did not list its tools in time.
    Late,
    /// In words that people and other nodes may see.
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unauthorized => {
                "it wants a login: run `agentcraft computer login` for it, or put what it accepts into its `headers`, such \
                 as `Authorization`"
            }
            Self::Forbidden => "it does not allow this to the credentials in its `headers`",
            Self::Late => {
                return write!(
                    f,
                    "it did not list its tools within {} s",
                    LIST_MAX.as_secs()
                );
            }
            Self::Other(words) => words,
        })
    }
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}

impl From<String> for Trouble {
    fn from(words: String) -> Self {
        Self::Other(words)
    }
}

impl Trouble {
    /// How the server fares with it.
    pub(super) fn status(&self) -> ServerStatus {
        let why = self.to_string();
        match self {
            Self::Unauthorized => ServerStatus::Unauthorized { why },
            Self::Forbidden | Self::Late | Self::Other(_) => ServerStatus::Down { why },
        }
    }

    /// Whether trying again cannot help.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Unauthorized => true,
            Self::Forbidden | Self::Late | Self::Other(_) => false,
        }
    }

    /// The first thing below this error that we have words for. Nothing of what the error itself says is passed on,
    /// except what the server has answered as a message of the protocol.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(trouble) = known(error) {
                return trouble;
            }
            next = error.source();
        }
        Self::from("it does not answer as an MCP server does")
    }
}

fn known(error: &(dyn Error + 'static)) -> Option<Trouble> {
    if let Some(error) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        return http(error);
    }
    if let Some(error) = error.downcast_ref::<AuthError>() {
        return Some(login(error));
    }
    if let Some(error) = error.downcast_ref::<SseError>() {
        return Some(match error {
            SseError::Status { status } => of_status(status.as_u16()),
            SseError::Reach { source } => unreachable(source),
            SseError::Address | SseError::NoEndpoint => Trouble::from(error.to_string()),
        });
    }
    if let Some(error) = error.downcast_ref::<ServiceError>() {
        return service(error);
    }
    if let Some(error) = error.downcast_ref::<ClientInitializeError>() {
        return initialize(error);
    }
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return Some(unreachable(error));
    }
    let broken = error.downcast_ref::<std::io::Error>();
    broken.map(|error| format!("the connection to it broke ({})", error.kind()).into())
}

fn http(error: &StreamableHttpError<reqwest::Error>) -> Option<Trouble> {
    match error {
        StreamableHttpError::Client(error) => Some(unreachable(error)),
        StreamableHttpError::Auth(error) => Some(login(error)),
        StreamableHttpError::AuthRequired(_) => Some(Trouble::Unauthorized),
        StreamableHttpError::InsufficientScope(_) => Some(Trouble::Forbidden),
        StreamableHttpError::HttpStatus(error) => Some(of_status(error.status)),
        // The status stands before the body, in text.
        StreamableHttpError::UnexpectedServerResponse(words) => {
            let status = words.strip_prefix("HTTP ")?.get(..3)?;
            status.parse().ok().map(of_status)
        }
        StreamableHttpError::SessionExpired => Some("it has forgotten our session".into()),
        StreamableHttpError::TransportChannelClosed => Some(closed()),
        _ => None,
    }
}

/// What is wrong with a login. What an authorization server says stays there.
fn login(error: &AuthError) -> Trouble {
    match error {
        AuthError::AuthorizationRequired
        | AuthError::TokenRefreshRejected(_)
        | AuthError::TokenExpired => Trouble::Unauthorized,
        AuthError::InsufficientScope { .. } => Trouble::Forbidden,
        AuthError::CredentialStoreError(_) => "the file of logins cannot be used".into(),
        AuthError::HttpError(error) => unreachable(error),
        _ => "its login cannot be renewed at the moment".into(),
    }
}

fn service(error: &ServiceError) -> Option<Trouble> {
    match error {
        ServiceError::McpError(error) => Some(answered(error)),
        ServiceError::TransportSend(error) => Some(Trouble::of(error.error.as_ref())),
        ServiceError::TransportClosed => Some(closed()),
        ServiceError::Timeout { .. } => Some("it did not answer in time".into()),
        ServiceError::UnexpectedResponse => Some("it answered something else than asked".into()),
        _ => None,
    }
}

fn initialize(error: &ClientInitializeError) -> Option<Trouble> {
    match error {
        ClientInitializeError::JsonRpcError(error) => Some(answered(error)),
        ClientInitializeError::ConnectionClosed(_) => {
            Some("it closed the connection before it had answered".into())
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            Some("it speaks no version of MCP that we know".into())
        }
        ClientInitializeError::TransportError { error, .. } => {
            Some(Trouble::of(error.error.as_ref()))
        }
        // The first failure is that of the newer handshake; the second one says what is in the way.
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            Some(Trouble::of(fallback.as_ref()))
        }
        _ => None,
    }
}

fn answered(error: &rmcp::ErrorData) -> Trouble {
    let (code, words) = (error.code.0, &error.message);
    format!("it answered with an error: {words} ({code})").into()
}

fn closed() -> Trouble {
    "it has closed the connection".into()
}

fn of_status(status: u16) -> Trouble {
    match status {
        401 => Trouble::Unauthorized,
        403 => Trouble::Forbidden,
        status => format!("it answered with HTTP status {status}").into(),
    }
}

fn unreachable(error: &reqwest::Error) -> Trouble {
    match error.status() {
        Some(status) => of_status(status.as_u16()),
        None if error.is_timeout() => "it did not answer in time".into(),
        None if error.is_connect() => "it cannot be reached".into(),
        None if error.is_builder() => "its address cannot be used".into(),
        None if error.is_redirect() => "it redirects for ever".into(),
        None => "the connection to it broke".into(),
    }
}
