//! What sshfs and ssh say about their troubles.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use platform::{Tasks, process::ChildStderr};
use tokio::{io::AsyncReadExt, sync::watch};

/// What is kept: the first lines say why.
const COMPLAINTS_BYTES_MAX: usize = 16 * 1024;

/// How long the last words are waited for. A child that lives on may hold the pipe.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);

/// What sshfs and ssh have said, collected for as long as they live: a full pipe would stop them.
#[derive(Debug)]
pub(super) struct Complaints {
    pub(super) text: Arc<Mutex<Vec<u8>>>,
    pub(super) reader: watch::Receiver<bool>,
}

impl Complaints {
    pub(super) fn collect(stderr: Option<ChildStderr>, tasks: &Tasks) -> Complaints {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (done, reader) = watch::channel(false);
        let kept = Arc::clone(&text);
        tasks.spawn(|stop| async move {
            let mut chunk = [0; 1024];
            let mut stderr = stderr;
            while let Some(pipe) = &mut stderr {
                let read = tokio::select! { biased;
                    () = stop.cancelled() => break,
                    read = pipe.read(&mut chunk) => read,
                };
                let count = match read {
                    Ok(0) | Err(_) => break,
                    Ok(count) => count,
                };
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = COMPLAINTS_BYTES_MAX - kept.len();
                kept.extend_from_slice(&chunk[..count.min(room)]);
            }
            done.send_replace(true);
        });
        Complaints { text, reader }
    }

    /// Everything has been read.
    pub(super) async fn ended(&self) {
        let mut reader = self.reader.clone();
        // A child that lives on may hold the pipe; what is there by then is enough.
        let _ = tokio::time::timeout(LAST_WORDS_MAX, reader.wait_for(|done| *done)).await;
    }

    pub(super) fn text(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }
}
