//! The desktop: windows of all servers, those in use first, within bounds.

use std::collections::VecDeque;

use wire::smcp::Resource;

/// What makes a resource a window.
pub(crate) const WINDOW: &str = "window://";

/// Windows of one desktop: more than anybody reads.
pub(crate) const WINDOWS_MAX: usize = 64;

/// Bytes of one desktop, so that it fits into one message with room to spare.
const DESKTOP_MAX: usize = 1024 * 1024;

/// Servers whose use is remembered.
const HISTORY_MAX: usize = 64;

/// Servers in the order of their last use, the latest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(VecDeque<String>);

impl History {
    pub(crate) fn used(&mut self, server: &str) {
        self.0.retain(|other| other != server);
        self.0.push_front(server.to_owned());
        self.0.truncate(HISTORY_MAX);
    }

    fn place(&self, server: &str) -> usize {
        let place = self.0.iter().position(|other| other == server);
        place.unwrap_or(usize::MAX)
    }
}

/// A window and the server it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Window {
    pub(crate) server: String,
    pub(crate) resource: Resource,
}

impl Window {
    fn priority(&self) -> f64 {
        let annotations = self.resource.annotations.as_ref();
        let priority = annotations.and_then(|notes| notes.get("priority")?.as_f64());
        priority
            .filter(|priority| (0.0..=1.0).contains(priority))
            .unwrap_or(0.0)
    }

    fn is_fullscreen(&self) -> bool {
        let meta = self.resource.meta.as_ref();
        meta.and_then(|meta| meta.get("fullscreen")?.as_bool()) == Some(true)
    }
}

/// Puts windows in order: servers by their last use, windows of a server by priority; a window that fills the screen
/// hides the others of its server.
pub(crate) fn arrange(windows: Vec<Window>, history: &History, size: Option<usize>) -> Vec<Window> {
    let mut servers: Vec<String> = Vec::new();
    for window in &windows {
        if !servers.contains(&window.server) {
            servers.push(window.server.clone());
        }
    }
    servers.sort_by_key(|server| history.place(server));
    let mut arranged = Vec::new();
    for server in servers {
        let mut own: Vec<&Window> = windows.iter().filter(|w| w.server == server).collect();
        match own.iter().find(|window| window.is_fullscreen()) {
            Some(window) => arranged.push((*window).clone()),
            None => {
                own.sort_by(|a, b| b.priority().total_cmp(&a.priority()));
                arranged.extend(own.into_iter().cloned());
            }
        }
    }
    arranged.truncate(size.unwrap_or(WINDOWS_MAX).min(WINDOWS_MAX));
    arranged
}

/// The texts of a desktop: each with its address, cut where the whole would become too large.
pub(crate) fn write(windows: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let mut left = DESKTOP_MAX;
    let mut texts = Vec::new();
    for (uri, body) in windows {
        let mut text = format!("{uri}\n\n{body}");
        if text.len() > left {
            let mut end = left;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        left -= text.len();
        if text.len() <= uri.len() {
            break; // There is no room for more.
        }
        texts.push(text);
    }
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn window(server: &str, name: &str, priority: f64, fullscreen: bool) -> Window {
        let resource = json!({
            "uri": format!("window://{server}/{name}"), "name": name,
            "annotations": {"priority": priority}, "_meta": {"fullscreen": fullscreen}
        });
        Window {
            server: server.to_owned(),
            resource: serde_json::from_value(resource).unwrap(),
        }
    }

    fn arranged(size: Option<usize>) -> Vec<String> {
        let windows = vec![
            window("a", "low", 0.1, false),
            window("a", "high", 0.9, false),
            window("a", "wrong", 7.0, false),
            window("b", "small", 1.0, false),
            window("b", "full", 0.0, true),
            window("c", "only", 0.5, false),
        ];
        let mut history = History::default();
        for server in ["a", "c", "a", "c"] {
            history.used(server);
        }
        arrange(windows, &history, size)
            .into_iter()
            .map(|window| window.resource.uri.replace("window://", ""))
            .collect()
    }

    #[test]
    fn windows_come_by_use_then_priority() {
        assert_eq!(
            arranged(None),
            ["c/only", "a/high", "a/low", "a/wrong", "b/full"]
        );
        assert_eq!(arranged(Some(2)), ["c/only", "a/high"]);
        assert_eq!(arranged(Some(0)), [""; 0]);
    }

    #[test]
    fn a_desktop_fits_into_its_bound() {
        let windows = (0..4).map(|n| (format!("window://s/{n}"), "é".repeat(300_000)));
        let texts = write(windows);
        assert!(texts.iter().map(String::len).sum::<usize>() <= DESKTOP_MAX);
        assert_eq!(texts.len(), 2);
        assert!(texts[0].starts_with("window://s/0\n\né"));
    }
}
