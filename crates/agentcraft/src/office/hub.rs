//! One link to each office for all agents of this node: the daemon holds it, and the MCP servers that agents start are
//! only pipes to it. An office has one agent at a time, and so all of them are it together.
//!
//! A pipe begins with one line that says which office; what follows is MCP.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use platform::Tasks;
use serde::{Deserialize, Serialize};
use smcp::LinkConfig;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{AGENT, OfficeTools, is_taken, link};
use crate::{
    args::{OfficeProfile, PlaceArgs},
    config::Config,
    connection::VERSION,
};

/// The socket in the home.
const SOCKET: &str = "offices.sock";

/// How long a pipe may take to say what it wants; it says so at once.
const HELLO_MAX: Duration = Duration::from_secs(5);

/// Bytes of what it says: an address, a name and a path.
const HELLO_BYTES_MAX: u64 = 16 * 1024;

/// Pipes at once: more than the agents that one machine runs.
const PIPES_MAX: usize = 256;

/// Which office a pipe is for, and how long its calls may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) url: String,
    pub(crate) office: String,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) timeout_secs: u64,
}

impl Wish {
    fn link(&self, config: &Config) -> Result<LinkConfig, String> {
        let place = PlaceArgs {
            url: self.url.clone(),
            office: self.office.clone(),
            name: None,
            token_file: self.token_file.clone(),
            profile: OfficeProfile::default(),
            ca: None,
            cert: None,
            key: None,
        };
        link(&place, AGENT, config).map_err(|error| error.to_string())
    }
}

/// What the clients of an office are told.
pub(crate) fn face(office: &str) -> mcp::OfficeFace {
    mcp::OfficeFace {
        version: VERSION.to_owned(),
        instructions: format!(
            "Tools of the computers in the office {office}. A name begins with the computer that has the tool; \
             computers come and go, and their tools with them."
        ),
    }
}

/// The links that are in use; one that nobody uses any more leaves its office.
#[derive(Debug, Default)]
struct Links(Mutex<HashMap<Key, Weak<OfficeTools>>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    url: String,
    office: String,
    token: String,
    timeout: Duration,
}

impl Links {
    fn get(&self, link: LinkConfig, timeout: Duration, tasks: &Tasks) -> Arc<OfficeTools> {
        let key = Key {
            url: link.url.clone(),
            office: link.office.clone(),
            token: link.token.clone(),
            timeout,
        };
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| link.strong_count() > 0);
        if let Some(found) = links.get(&key).and_then(Weak::upgrade) {
            return found;
        }
        let made = Arc::new(OfficeTools::start(link, timeout, tasks));
        links.insert(key, Arc::downgrade(&made));
        made
    }
}

/// Serves pipes until `tasks` is cancelled. Without the socket each agent has a link of its own.
pub(crate) async fn serve(config: &Config, tasks: &Tasks) {
    let listener = match socket::Listener::bind(&config.home.join(SOCKET)).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(error = %engine::chain(&error), "agents do not share their links to offices");
            return;
        }
    };
    let (config, links) = (Arc::new(config.clone()), Arc::new(Links::default()));
    let pipes = tasks.child();
    let room = Arc::new(tokio::sync::Semaphore::new(PIPES_MAX));
    tasks.spawn(|stop| async move {
        loop {
            let accepted = tokio::select! { biased;
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok(stream) = accepted else { continue };
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                continue; // It goes alone.
            };
            let (config, links, tasks) = (config.clone(), links.clone(), pipes.clone());
            pipes.spawn(|stop| async move {
                let served = attend(stream, &config, &links, &tasks, stop).await;
                if let Err(why) = served {
                    tracing::warn!(why, "an agent's way to an office has ended");
                }
                drop(place);
            });
        }
    });
}

async fn attend(
    stream: UnixStream,
    config: &Config,
    links: &Links,
    tasks: &Tasks,
    stop: CancellationToken,
) -> Result<(), String> {
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut hello = String::new();
    let mut bounded = (&mut reader).take(HELLO_BYTES_MAX);
    let said = timeout(HELLO_MAX, bounded.read_line(&mut hello)).await;
    let _ = said.map_err(|_| "it does not say which office it is for".to_owned())?;
    let wish: Wish = serde_json::from_str(&hello).map_err(|error| error.to_string())?;
    let link = wish.link(config)?;
    let source = links.get(link, Duration::from_secs(wish.timeout_secs), tasks);
    let serving = mcp::serve_office(
        face(&wish.office),
        source.clone(),
        (reader, writer),
        tasks,
        stop,
    );
    tokio::pin!(serving);
    // As for a link of one's own: what refuses our token at first would go on doing so.
    let served = tokio::select! { biased;
        joined = source.joined() => match joined {
            Err(error) if !is_taken(&error) => return Err(error.to_string()),
            Err(_) | Ok(()) => serving.await,
        },
        served = &mut serving => served,
    };
    served.map_err(|error| engine::chain(&error))
}

/// Opens a pipe, if a daemon of this home is there to take it.
pub(crate) async fn open(home: &Path, wish: &Wish) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(home.join(SOCKET)).await.ok()?;
    let mut hello = serde_json::to_vec(wish).ok()?;
    hello.push(b'\n');
    stream.write_all(&hello).await.ok()?;
    Some(stream)
}

/// Passes everything on in both directions, until the client or the daemon ends it.
pub(crate) async fn pipe(stream: UnixStream) -> io::Result<()> {
    let (mut from_daemon, mut to_daemon) = stream.into_split();
    let (mut input, mut output) = (tokio::io::stdin(), tokio::io::stdout());
    let sending = async {
        tokio::io::copy(&mut input, &mut to_daemon).await?;
        to_daemon.shutdown().await
    };
    let hearing = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from_daemon.read(&mut buffer).await?;
            if count == 0 {
                return Ok::<(), io::Error>(());
            }
            output.write_all(&buffer[..count]).await?;
            output.flush().await?;
        }
    };
    tokio::pin!(sending, hearing);
    tokio::select! {
        heard = &mut hearing => heard,
        sent = &mut sending => {
            sent?;
            hearing.await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_wants_the_same_office_in_the_same_way_gets_the_same_link() {
        let tasks = Tasks::new();
        let links = Links::default();
        let link = |office: &str, token: &str| LinkConfig {
            url: "http://127.0.0.1:1".to_owned(),
            token: token.to_owned(),
            profile: wire::smcp::Profile::Shipped,
            office: office.to_owned(),
            name: AGENT.to_owned(),
            connector: None,
        };
        let minute = Duration::from_secs(60);
        let one = links.get(link("studio", "a"), minute, &tasks);
        let same = links.get(link("studio", "a"), minute, &tasks);
        assert!(Arc::ptr_eq(&one, &same));
        for (office, token) in [("lab", "a"), ("studio", "b")] {
            let other = links.get(link(office, token), minute, &tasks);
            assert!(!Arc::ptr_eq(&one, &other), "{office} {token}");
        }
        drop((one, same));
        assert_eq!(
            links
                .0
                .lock()
                .unwrap()
                .values()
                .filter(|link| link.strong_count() > 0)
                .count(),
            0
        );
        tasks.cancel();
    }
}
