//! What agents print beside their protocol, as the page shows it.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    extract::{Path, State},
    middleware,
    routing::get,
};
use domain::Name;
use platform::files;
use serde_json::json;

use crate::{
    answer::{Answer, Refused, json_of},
    router::only_with_the_right,
};

/// An agent's log is kept below this size.
const LOG_MAX: u64 = 2 * 1024 * 1024;

/// What a page shows of it: a few screens. All of it is in the file.
const SHOWN_MAX: usize = 64 * 1024;

/// The log of each agent, from the folder that the engine keeps them in.
pub fn logs(folder: PathBuf) -> Router {
    Router::new()
        .route("/api/agents/{name}/log", get(log))
        .layer(middleware::from_fn(only_with_the_right))
        .with_state(Arc::new(folder))
}

async fn log(State(folder): State<Arc<PathBuf>>, Path(name): Path<String>) -> Answer {
    let name = Name::parse(&name).map_err(|error| Refused::bad(error.to_string()))?;
    let path = folder.join(format!("{name}.log"));
    let read = tokio::task::spawn_blocking(move || files::read_bounded(&path, LOG_MAX)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) if error.is_not_found() => Vec::new(),
        Ok(Err(error)) => return Err(Refused::failed(error.to_string())),
        Err(_) => return Err(Refused::failed("the node is shutting down")),
    };
    json_of(&json!({ "text": last(&bytes) }))
}

/// The end of a log, from the beginning of a line.
fn last(bytes: &[u8]) -> String {
    let cut = bytes.len().saturating_sub(SHOWN_MAX);
    let end = &bytes[cut..];
    let start = match cut {
        0 => 0,
        _ => end
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1),
    };
    String::from_utf8_lossy(&end[start..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_begins_with_a_whole_line() {
        assert_eq!(last(b"one\ntwo\n"), "one\ntwo\n");
        let long: Vec<u8> = (0..20_000)
            .flat_map(|n| format!("{n}\n").into_bytes())
            .collect();
        let shown = last(&long);
        assert!(shown.len() <= SHOWN_MAX && shown.ends_with("\n19999\n"));
        let first: u32 = shown.lines().next().unwrap().parse().unwrap();
        assert!(first > 5_000 && shown.starts_with(&format!("{first}\n{}\n", first + 1)));
    }
}
