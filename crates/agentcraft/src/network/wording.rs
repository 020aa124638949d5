//! The words by which others find what this node can do, where an agent of the owner's choice writes them: once for what there
//! is, kept with its hash, and plain until they are written.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::{Keep, Records};
use lan::Adviser;
use platform::Tasks;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::{hex, runs::Capability};

/// Where they are kept.
const KIND: &str = "manifest-words";
const ID: &str = "capabilities";

/// Capabilities that an agent is asked about at once, and characters of each that it is shown or may write.
const CAPABILITIES_MAX: usize = 200;
const TEXT_CHARS: usize = 500;

/// How long an agent that could not be asked or understood is left alone, at first and at most.
const AGAIN_FIRST: Duration = Duration::from_secs(10);
const AGAIN_SLOWEST: Duration = Duration::from_secs(30 * 60);

/// How long it may write.
const WITHIN: Duration = Duration::from_secs(120);

/// The words, and whoever writes them. Clones are the same.
#[derive(Clone)]
pub(super) struct Wording {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Arc<dyn Adviser>,
    records: Records,
    kept: Mutex<Option<Kept>>,
    /// What words are wanted for.
    wanted: watch::Sender<Vec<Capability>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// Of what was there.
    hash: String,
    by: String,
    descriptions: BTreeMap<String, String>,
}

impl std::fmt::Debug for Wording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wording").finish_non_exhaustive()
    }
}

impl Wording {
    /// With what was written before.
    pub(super) async fn open(
        writer: Arc<dyn Adviser>,
        records: Records,
        tasks: &Tasks,
    ) -> anyhow::Result<Self> {
        let kept = records.get::<Kept>(KIND, ID).await?;
        let wording = Self {
            inner: Arc::new(Inner {
                writer,
                records,
                kept: Mutex::new(kept.map(|kept| kept.value)),
                wanted: watch::Sender::new(Vec::new()),
            }),
        };
        let task = wording.clone();
        tasks.spawn(|stop| async move { task.write_on(stop).await });
        Ok(wording)
    }

    /// The same in the words that were written for it; plain, and asked for, where there are none yet.
    pub(super) fn of(&self, made: Vec<Capability>) -> Vec<Capability> {
        if made.is_empty() {
            return made;
        }
        let hash = self.hash(&made);
        if let Some(kept) = self.kept().as_ref().filter(|kept| kept.hash == hash) {
            let mut made = made;
            for capability in &mut made {
                if let Some(written) = kept.descriptions.get(&capability.id) {
                    capability.description.clone_from(written);
                }
            }
            return made;
        }
        self.inner.wanted.send_if_modified(|wanted| {
            let is_new = *wanted != made;
            if is_new {
                wanted.clone_from(&made);
            }
            is_new
        });
        made
    }

    /// Another writer writes other words.
    fn hash(&self, made: &[Capability]) -> String {
        let told = serde_json::json!([self.inner.writer.name(), made]);
        hex(&Sha256::digest(told.to_string().as_bytes()))
    }

    async fn write_on(&self, stop: CancellationToken) {
        let mut wanted = self.inner.wanted.subscribe();
        while let Some(Ok(())) = stop.run_until_cancelled(wanted.changed()).await {
            let made = wanted.borrow_and_update().clone();
            let mut wait = AGAIN_FIRST;
            while let Some(Err(why)) = stop.run_until_cancelled(self.write(&made)).await {
                let writer = self.inner.writer.name();
                warn!(writer, why, "what this node can do is told in plain words");
                // Something else may be wanted meanwhile.
                let waited = tokio::time::timeout(wait, wanted.changed());
                wait = (wait * 2).min(AGAIN_SLOWEST);
                match stop.run_until_cancelled(waited).await {
                    None | Some(Ok(Err(_))) => return,
                    Some(Ok(Ok(()))) => {
                        wanted.mark_changed();
                        break;
                    }
                    Some(Err(_)) => {}
                }
            }
        }
    }

    async fn write(&self, made: &[Capability]) -> Result<(), String> {
        let hash = self.hash(made);
        if self.kept().as_ref().is_some_and(|kept| kept.hash == hash) {
            return Ok(());
        }
        let said = tokio::time::timeout(WITHIN, self.inner.writer.ask(question(made))).await;
        let said = said.map_err(|_| format!("it said nothing for {} s", WITHIN.as_secs()))??;
        let descriptions = read(&said, made)?;
        let by = self.inner.writer.name().to_owned();
        info!(
            by,
            count = descriptions.len(),
            "what this node can do has new words"
        );
        let kept = Kept {
            hash,
            by,
            descriptions,
        };
        let records = &self.inner.records;
        let put = records.put(KIND, ID, Keep::Live, &kept, None).await;
        put.map_err(|error| engine::chain(&error))?;
        *self.kept() = Some(kept);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.inner
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn question(made: &[Capability]) -> String {
    let lines = made.iter().take(CAPABILITIES_MAX).map(|capability| {
        let text = cut(&capability.description).replace('\n', " ");
        format!("- {}: {text}\n", capability.id)
    });
    format!(
        "Other machines on the network choose whom to ask by what each says that it can do. These are the skills of this \
         one:\n\n{}\nWrite for each of them, in its own language, one sentence that says what somebody could ask it for, \
         without naming tools. Answer with one line of JSON and nothing else: {{\"name of the skill\": \"the sentence\", …}}.",
        lines.collect::<String>()
    )
}

/// What was written for those that there are; models like to wrap it into something.
fn read(said: &str, made: &[Capability]) -> Result<BTreeMap<String, String>, String> {
    let not_json = || "it did not answer with the JSON it was asked for".to_owned();
    let (start, end) = (said.find('{'), said.rfind('}'));
    let json = start
        .zip(end)
        .and_then(|(start, end)| said.get(start..=end));
    let written: BTreeMap<String, String> = json
        .and_then(|json| serde_json::from_str(json).ok())
        .ok_or_else(not_json)?;
    let known = |id: &String| made.iter().any(|capability| capability.id == *id);
    let written = written.into_iter().map(|(id, text)| (id, cut(&text)));
    let kept: BTreeMap<String, String> = written
        .filter(|(id, text)| known(id) && !text.trim().is_empty())
        .collect();
    match kept.is_empty() {
        true => Err("it wrote of nothing that is there".to_owned()),
        false => Ok(kept),
    }
}

fn cut(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control() || *c == '\n');
    plain.take(TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(id: &str) -> Capability {
        Capability {
            id: id.to_owned(),
            description: format!("does {id}"),
            output_content_types: Vec::new(),
        }
    }

    #[test]
    fn words_are_taken_for_what_there_is_and_for_nothing_else() {
        let made = [capability("radio"), capability("news")];
        let said = "Here it is:\n```json\n{\"radio\": \"放电台\", \"money\": \"pays\", \"news\": \" \"}\n```";
        let written = read(said, &made).unwrap();
        assert_eq!(
            written,
            BTreeMap::from([("radio".to_owned(), "放电台".to_owned())])
        );
        for nothing in [
            "I would play some jazz.",
            "{\"money\": \"pays\"}",
            "{}",
            "} {",
        ] {
            read(nothing, &made).unwrap_err();
        }
        let long = format!("{{\"radio\": \"{}\"}}", "很".repeat(2 * TEXT_CHARS));
        assert_eq!(
            read(&long, &made).unwrap()["radio"].chars().count(),
            TEXT_CHARS
        );
        assert!(question(&made).contains("- radio: does radio\n"));
    }
}
