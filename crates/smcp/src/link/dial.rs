//! Dialling an office server: the address, the WebSocket, and the two handshakes on it.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};
use wire::smcp::{CALL_SCOPE, ErrorBody, Profile, SHIPPED_VERSION};

use super::{
    LinkConfig, LinkError,
    packet::{self, Packet},
};

/// How long the whole of dialling may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// The largest message we take: what the server would take from us.
const MESSAGE_MAX: usize = 16 * 1024 * 1024;

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// An open connection, and how long it may be silent.
pub(super) struct Line {
    pub(super) socket: Socket,
    pub(super) silence_max: Duration,
}

pub(super) async fn dial(config: &LinkConfig) -> Result<Line, LinkError> {
    match tokio::time::timeout(DIAL_TIMEOUT, open(config)).await {
        Ok(opened) => opened,
        Err(_) => Err(LinkError::TimedOut),
    }
}

/// The WebSocket address of a server that is given as people write it.
pub(super) fn address(url: &str, profile: Profile) -> String {
    let base = url.trim_end_matches('/');
    let base = match base.split_once("://") {
        Some(("http", rest)) => format!("ws://{rest}"),
        Some(("https", rest)) => format!("wss://{rest}"),
        Some(_) => base.to_owned(),
        None => format!("ws://{base}"),
    };
    let version = match profile {
        Profile::Seed => String::new(),
        Profile::Shipped => format!("&a2c_version={SHIPPED_VERSION}"),
    };
    format!("{base}/socket.io/?EIO=4&transport=websocket{version}")
}

async fn open(config: &LinkConfig) -> Result<Line, LinkError> {
    let address = address(&config.url, config.profile);
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_MAX))
        .max_frame_size(Some(MESSAGE_MAX));
    if address.starts_with("wss:") {
        // Whoever links us may have installed another; then this one is not needed.
        let _ = aws_lc_rs::default_provider().install_default();
    }
    let connector = config.connector.clone();
    let dialled = connect_async_tls_with_config(address, Some(limits), true, connector).await;
    let (mut socket, _) = dialled.map_err(dial_error)?;
    let silence_max = greeting(&mut socket).await?;
    let mut auth = json!({ "token": config.token, CALL_SCOPE: true });
    if config.profile == Profile::Seed {
        auth["protocol"] = json!(wire::smcp::PROTOCOL);
        auth["version"] = json!("0.1.2");
    }
    send(&mut socket, packet::connect(&auth)).await?;
    loop {
        let text = next_text(&mut socket).await?;
        match text.split_at_checked(1) {
            Some(("4", message)) => match packet::read(message) {
                Packet::Connect => {
                    return Ok(Line {
                        socket,
                        silence_max,
                    });
                }
                Packet::ConnectError(said) => return Err(refused(&said)),
                _ => {}
            },
            Some(("2", _)) => send(&mut socket, "3".to_owned()).await?,
            _ => {}
        }
    }
}

/// Reads Engine.IO's opening packet: how long the server may be silent before it is gone.
async fn greeting(socket: &mut Socket) -> Result<Duration, LinkError> {
    let text = next_text(socket).await?;
    let open: Value = text
        .strip_prefix('0')
        .and_then(|open| serde_json::from_str(open).ok())
        .ok_or(LinkError::NotAnOffice)?;
    let millis = |key: &str| open[key].as_u64().unwrap_or(25_000).min(600_000);
    Ok(Duration::from_millis(
        millis("pingInterval") + millis("pingTimeout"),
    ))
}

async fn next_text(socket: &mut Socket) -> Result<String, LinkError> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
            Some(Ok(Message::Close(_))) | None => return Err(LinkError::Lost),
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err(LinkError::Lost),
        }
    }
}

async fn send(socket: &mut Socket, text: String) -> Result<(), LinkError> {
    let sent = socket.send(Message::text(text)).await;
    sent.map_err(|_| LinkError::Lost)
}

/// A server that refuses the handshake says why in its body.
fn dial_error(error: tungstenite::Error) -> LinkError {
    if let tungstenite::Error::Http(response) = &error {
        let body = response.body().as_deref().unwrap_or_default();
        if let Ok(said) = serde_json::from_slice::<Value>(body) {
            return refused(&said);
        }
    }
    LinkError::Unreachable(error.to_string())
}

fn refused(said: &Value) -> LinkError {
    let body = ErrorBody::from_value(said).unwrap_or_else(|| {
        let message = said["message"]
            .as_str()
            .unwrap_or("the server gave no reason");
        ErrorBody::new(403, message)
    });
    LinkError::Refused(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_people_write_it() {
        let end = "/socket.io/?EIO=4&transport=websocket";
        for (url, start) in [
            ("http://h:1", "ws://h:1"),
            ("https://h/", "wss://h"),
            ("wss://h/prefix", "wss://h/prefix"),
            ("h:7420", "ws://h:7420"),
        ] {
            assert_eq!(address(url, Profile::Seed), format!("{start}{end}"));
        }
        assert_eq!(
            address("http://h", Profile::Shipped),
            format!("ws://h{end}&a2c_version=0.4.0")
        );
    }
}
