//! What every request passes before a face sees it: the name it used, the page it comes from, whose token it carries,
//! how often they ask. Afterwards it leaves a line in the audit.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use axum::{
    body::HttpBody,
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use engine::{Caller, Rights, TokenId};

use crate::{
    Refusal, Tokens, Trust,
    audit::{Act, Audit},
    body,
    hosts::Hosts,
    login,
    rate::{Pace, RateLimit},
    welcome,
};

/// What the cookie of a browser that has logged in is called, before the port.
const COOKIE: &str = "agentcraft_session";

/// For clients that need `Authorization` for something else.
const TOKEN_HEADER: &str = "x-agentcraft-token";

/// Far above what a person or an agent needs, far below what would keep a core busy.
const CALLER_PACE: Pace = Pace {
    per_second: 100.0,
    burst: 400.0,
};

/// For each address that brings no valid token: enough to notice one's mistake.
const STRANGER_PACE: Pace = Pace {
    per_second: 5.0,
    burst: 40.0,
};

/// What anybody on the network may do where the configuration trusts it: ask agents, not rule the node.
const OPEN_RIGHTS: [&str; 4] = ["a2a", "exchange", "office", "runs"];

/// Paths that anybody may ask for.
const PUBLIC: [&str; 2] = ["/healthz", "/login"];

/// Everything the guard looks at.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) hosts: Hosts,
    pub(crate) trust: Trust,
    pub(crate) scheme: &'static str,
    pub(crate) tokens: Tokens,
    open: Open,
    pub(crate) audit: Audit,
    callers: RateLimit,
    strangers: RateLimit,
    /// Lines of the audit about what strangers do on open paths; who was refused before uses up none of them.
    told: RateLimit,
}

/// Where requests without a token get through.
#[derive(Debug)]
pub(crate) struct Open {
    /// To these paths and what is below them.
    pub(crate) paths: Vec<String>,
    /// To read, at the paths that are picked.
    pub(crate) readable: Vec<fn(&str) -> bool>,
}

impl Open {
    fn has(&self, path: &str) -> bool {
        let below = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| {
                rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
            })
        };
        PUBLIC.contains(&path) || self.paths.iter().any(|prefix| below(prefix))
    }

    fn may_be_read(&self, request: &Request) -> bool {
        let path = request.uri().path();
        is_safe(request.method()) && self.readable.iter().any(|is_open| is_open(path))
    }
}

/// Somebody who may ask, and the token that says so if it is one that was given.
type Admitted = (Caller, Option<TokenId>);

/// How somebody showed who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    Token(String),
    Cookie(String),
    Nothing,
}

impl Guard {
    pub(crate) fn new(
        hosts: Hosts,
        trust: Trust,
        scheme: &'static str,
        tokens: Tokens,
        open: Open,
        audit: Audit,
    ) -> Self {
        Self {
            hosts,
            trust,
            scheme,
            tokens,
            open,
            audit,
            callers: RateLimit::new(CALLER_PACE),
            strangers: RateLimit::new(STRANGER_PACE),
            told: RateLimit::new(STRANGER_PACE),
        }
    }

    /// Who asks, and with which token; nobody for a path that is open and brings no token.
    fn admit(&self, request: &Request, from: IpAddr) -> Result<Option<Admitted>, Refusal> {
        let headers = request.headers();
        let host = host(headers, request.uri()).ok_or(Refusal::UnknownHost)?;
        if !self.hosts.is_ours(host) {
            return Err(Refusal::UnknownHost);
        }
        let origin = headers.get(header::ORIGIN).map(as_text);
        if let Some(origin) = &origin
            && !self.hosts.may_call(origin, self.scheme, host)
        {
            let origin: String = origin.chars().take(128).collect();
            return Err(Refusal::ForeignOrigin { origin });
        }
        let shown = shown(headers, host);
        let cookie_may_act = origin.is_some()
            || is_safe(request.method())
            || headers.get("sec-fetch-site").map(as_text).as_deref() == Some("same-origin");
        let caller = match &shown {
            Shown::Token(token) => self.tokens.whose(token),
            Shown::Cookie(cookie) => {
                let caller = self.tokens.logins().caller(cookie);
                if caller.is_some() && !cookie_may_act {
                    return Err(Refusal::NoOrigin);
                }
                caller.map(|caller| (caller, None))
            }
            Shown::Nothing => None,
        };
        match (caller, shown) {
            (Some(caller), _) => Ok(Some(caller)),
            (None, _) if self.open.has(request.uri().path()) => Ok(None),
            (None, Shown::Nothing | Shown::Cookie(_)) if self.trust == Trust::Open => {
                Ok(Some((passer_by(from), None)))
            }
            (None, _) if self.open.may_be_read(request) => Ok(None),
            (None, Shown::Nothing) => Err(Refusal::NoToken),
            (None, Shown::Token(_) | Shown::Cookie(_)) => Err(Refusal::BadToken),
        }
    }

    /// What a stranger is told. One who hammers fills no journal.
    fn turn_away(&self, act: Act<'_>, refusal: Refusal) -> Refusal {
        match self.strangers.take(act.from, Instant::now()) {
            Ok(()) => {
                self.audit.refused(act, refusal.code());
                refusal
            }
            Err(after) => Refusal::TooMany { after },
        }
    }

    fn count(&self, caller: Option<&Caller>, from: IpAddr) -> Result<(), Refusal> {
        let now = Instant::now();
        let counted = match caller {
            Some(caller) => self.callers.take(&caller.name, now),
            None => self.callers.take(&format!("open path {from}"), now),
        };
        counted.map_err(|after| Refusal::TooMany { after })
    }
}

/// The middleware.
pub(crate) async fn guard(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let remote = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let from = remote.map_or(IpAddr::from([0, 0, 0, 0]), |remote| remote.0.ip());
    let from_text = from.to_string();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let act = |who| Act {
        who,
        from: &from_text,
        method: method.as_str(),
        path: &path,
    };
    if let Some(answer) = preflight(&guard, &request) {
        return answer;
    }
    let wants_page = path == "/" && welcome::is_wanted(&method, request.headers());
    let (caller, token) = match guard.admit(&request, from) {
        Ok(admitted) => admitted.unzip(),
        Err(refusal) => {
            let answer = match guard.turn_away(act("nobody"), refusal) {
                Refusal::NoToken | Refusal::BadToken if wants_page => {
                    welcome::page(StatusCode::UNAUTHORIZED, welcome::NOT_LOGGED_IN)
                }
                refusal => refusal.into_response(),
            };
            return body::unread(request, answer).await;
        }
    };
    let is_continued = is_continued(&request);
    if !is_continued && let Err(refusal) = guard.count(caller.as_ref(), from) {
        return body::unread(request, refusal.into_response()).await;
    }
    let is_stranger = caller.is_none();
    let who = caller
        .as_ref()
        .map_or("nobody".to_owned(), |caller| caller.name.clone());
    let origin = request.headers().get(header::ORIGIN).cloned();
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    if let Some(token) = token.flatten() {
        request.extensions_mut().insert(token);
    }
    let cookie = with_cookie(&request);
    let response = next.run(request).await;
    let response = login::bound(response, guard.tokens.clone(), cookie);
    let status = response.status();
    // Whoever makes up sessions is a stranger who hammers.
    if is_continued
        && status.is_client_error()
        && let Err(after) = guard.strangers.take(&from_text, Instant::now())
    {
        return Refusal::TooMany { after }.into_response();
    }
    let is_refused = status == StatusCode::FORBIDDEN || status == StatusCode::UNAUTHORIZED;
    let is_act = !is_safe(&method) && !is_continued;
    // A path is open to those who hammer too, and they fill no journal.
    let is_told = || !is_stranger || guard.told.take(&from_text, Instant::now()).is_ok();
    if is_refused && is_told() {
        guard.audit.refused(act(&who), status.as_str());
    } else if is_act && !is_refused && is_told() {
        guard.audit.call(act(&who), status.as_u16());
    }
    match status {
        // Where everybody may ask agents, not everybody may see the page.
        StatusCode::FORBIDDEN if wants_page => welcome::page(status, welcome::NOT_LOGGED_IN),
        _ => finish(response, origin),
    }
}

/// The cookie that a request was let in with, if it was one.
fn with_cookie(request: &Request) -> Option<String> {
    let host = host(request.headers(), request.uri())?;
    match shown(request.headers(), host) {
        Shown::Cookie(cookie) => Some(cookie),
        Shown::Token(_) | Shown::Nothing => None,
    }
}

/// The same care for every answer, whoever gave it.
fn finish(response: Response, origin: Option<HeaderValue>) -> Response {
    let is_empty = response.body().is_end_stream();
    let mut response = match response.status() {
        StatusCode::NOT_FOUND if is_empty => Refusal::NotFound.into_response(),
        StatusCode::METHOD_NOT_ALLOWED if is_empty => {
            let allow = response.headers().get(header::ALLOW).cloned();
            let mut worded = Refusal::Method.into_response();
            if let Some(allow) = allow {
                worded.headers_mut().insert(header::ALLOW, allow);
            }
            worded
        }
        _ => response,
    };
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        body::ends(&mut response); // The rest of it is not read.
    }
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if let Some(origin) = origin {
        // It passed the guard, so it may read the answer.
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("run-id"),
        );
    }
    response
}

/// What a browser asks before it lets a page of a named site call us. It carries no token, and gets nothing but words.
fn preflight(guard: &Guard, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let origin = headers.get(header::ORIGIN)?;
    let wanted = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() != Method::OPTIONS || !wanted {
        return None;
    }
    let host = host(headers, request.uri()).filter(|host| guard.hosts.is_ours(host))?;
    if !guard.hosts.may_call(&as_text(origin), guard.scheme, host) {
        return None;
    }
    const ALLOWED: [(HeaderName, &str); 3] = [
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, PUT, DELETE",
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, last-event-id, x-agentcraft-call-chain, \
             a2a-version, a2a-extensions, x-a2a-extensions, traceparent",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    let mut response = StatusCode::NO_CONTENT.into_response();
    for (name, value) in ALLOWED {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    Some(finish(response, Some(origin.clone())))
}

/// The name and port that the request was sent to.
pub(crate) fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    match headers.get(header::HOST) {
        Some(host) => host.to_str().ok(),
        None => uri.authority().map(|authority| authority.as_str()),
    }
}

/// What our cookie is called at an address. Browsers keep cookies by host and not by port, so without the port two nodes
/// of one machine, or at the ends of two tunnels, would log each other out.
pub(crate) fn cookie_name(host: &str) -> String {
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.filter(is_port) {
        Some(port) => format!("{COOKIE}_{port}"),
        None => COOKIE.to_owned(),
    }
}

fn shown(headers: &HeaderMap, host: &str) -> Shown {
    let bearer = headers.get(header::AUTHORIZATION).map(as_text);
    let bearer = bearer.as_deref().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| token.trim().to_owned())
    });
    let own = headers.get(TOKEN_HEADER).map(as_text);
    if let Some(token) = bearer.or(own) {
        return Shown::Token(token);
    }
    cookie(headers, host).map_or(Shown::Nothing, Shown::Cookie)
}

/// The value of our cookie.
pub(crate) fn cookie(headers: &HeaderMap, host: &str) -> Option<String> {
    let ours = cookie_name(host);
    let lines = headers.get_all(header::COOKIE).iter().map(as_text);
    lines
        .flat_map(|line| {
            line.split(';')
                .map(|pair| pair.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            (name == ours).then(|| value.to_owned())
        })
}

fn as_text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A message of a Socket.IO session: its handshake was counted and written down, and the office counts its events. Clients
/// that poll send each of them, and fetch each answer, with a request of its own.
fn is_continued(request: &Request) -> bool {
    let mut query = request.uri().query().unwrap_or_default().split('&');
    request.uri().path().trim_end_matches('/') == "/socket.io"
        && query.any(|pair| pair.starts_with("sid="))
}

fn passer_by(from: IpAddr) -> Caller {
    let rights = OPEN_RIGHTS.iter().map(|right| (*right).to_owned());
    Caller {
        name: format!("open:{from}"),
        rights: Rights::Only(BTreeSet::from_iter(rights)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_a_cookie_of_its_own() {
        let check = |host, expected| assert_eq!(cookie_name(host), expected, "{host}");
        check("127.0.0.1:7461", "agentcraft_session_7461");
        check("localhost:7462", "agentcraft_session_7462");
        check("[::1]:7420", "agentcraft_session_7420");
        check("node.example", "agentcraft_session");
        check("[::1]", "agentcraft_session");
    }
}
