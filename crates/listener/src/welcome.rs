//! What a person sees who opens the node in a browser without being logged in: how to log in, and that it was done.
//!
//! The page of the node itself is for those who are; this one loads nothing.

use axum::{
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

pub(crate) const NOT_LOGGED_IN: &str = "This browser is not logged in here.";
pub(crate) const LINK_OVER: &str = "This link was used already or is too old.";

const STYLE: &str = "body{font:16px/1.6 system-ui,sans-serif;max-width:34em;margin:12vh auto;padding:0 16px}\
code{font:1em ui-monospace,monospace;border:1px solid;border-radius:6px;padding:2px 8px}";

/// Whether a person asks, and not a program.
pub(crate) fn is_wanted(method: &Method, headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT);
    let accepted = accepted.and_then(|accepted| accepted.to_str().ok());
    *method == Method::GET && accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// The page, which begins with why one is here.
pub(crate) fn page(status: StatusCode, why: &str) -> Response {
    let words = format!(
        "<p>{why}</p>\
         <p>Run this on the machine of the node, and open the link that it prints:</p>\
         <p><code>agentcraft dashboard</code></p>\
         <p>The link works once and within a minute.</p>"
    );
    served(status, "", &words)
}

/// The page after a login, which goes on to the node's own by itself. A redirect would count as the other site's that the
/// link was on, and the browser would leave the cookie at home.
pub(crate) fn logged_in() -> Response {
    let onward = "<meta http-equiv=\"refresh\" content=\"0; url=/\">";
    let words = "<p>This browser is logged in. <a href=\"/\">Go on</a></p>";
    served(StatusCode::OK, onward, words)
}

fn served(status: StatusCode, head: &str, words: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">{head}\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>AgentCraft</title>\
         <style>{STYLE}</style></head><body><main><h1>AgentCraft</h1>{words}</main></body></html>"
    );
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut response = (status, Html(html)).into_response();
    let headers = response.headers_mut();
    let policy = HeaderValue::from_str(&policy).expect("base64 and words are plain");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
