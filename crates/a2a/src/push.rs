//! Webhooks: which task is told to whom, kept with the task, delivered in order and at least once.
//!
//! Each has a task of its own that follows the feed; a webhook that is slow or gone holds up nobody but its own caller's.

mod address;
mod delivery;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::{EngineError, Keep, Stored, Which};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wire::a2a::{ErrorCode, TaskPushNotificationConfig, Version};

use crate::{PushPolicy, error::Refusal, face::Face, feed::Feed};

const PUSH_KIND: &str = "a2a-push";

/// Webhooks of one task.
const PER_TASK_MAX: usize = 16;

/// Webhooks of the node, those of finished tasks counted.
const HOOKS_MAX: usize = 10_000;

/// Deliveries under way at once.
const DELIVERIES_MAX: usize = 64;

/// Of one caller: whoever names webhooks that never answer holds up nobody else's.
const DELIVERIES_PER_CALLER: usize = 8;

/// Callers whose deliveries are counted; beyond it, those without any are forgotten.
const CALLERS_MAX: usize = 1024;

/// The longest id, token, credential or address of a webhook.
const TEXT_MAX: usize = 4096;

/// Documents read at a time when the daemon starts.
const PAGE: u32 = 100;

/// The webhooks of the node.
#[derive(Debug)]
pub(crate) struct Push {
    policy: PushPolicy,
    client: reqwest::Client,
    slots: Arc<Semaphore>,
    slots_of: Mutex<BTreeMap<String, Arc<Semaphore>>>,
    hooks: Mutex<BTreeMap<String, BTreeMap<String, Arc<Hook>>>>,
    making: tokio::sync::Mutex<()>,
}

/// One webhook.
#[derive(Debug)]
struct Hook {
    record: HookRecord,
    /// Fires when the webhook is deleted.
    gone: CancellationToken,
}

/// A webhook as the store keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct HookRecord {
    config: TaskPushNotificationConfig,
    task: String,
    /// In whose words it is told.
    version: Version,
    /// The end of the task has been told.
    done: bool,
}

impl Push {
    pub(crate) fn new(policy: PushPolicy) -> Self {
        Self {
            policy,
            client: delivery::client(policy),
            slots: Arc::new(Semaphore::new(DELIVERIES_MAX)),
            slots_of: Mutex::default(),
            hooks: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.policy != PushPolicy::Off
    }

    /// Refuses everything about webhooks where there are none.
    pub(crate) fn require(&self) -> Result<(), Refusal> {
        if self.is_on() {
            return Ok(());
        }
        let words = "push notifications are not supported: this node calls no webhooks";
        Err(Refusal::new(ErrorCode::PushNotificationNotSupported, words))
    }

    /// Looks at a configuration before anything is done for it.
    pub(crate) fn check(&self, config: &TaskPushNotificationConfig) -> Result<(), Refusal> {
        self.require()?;
        let authentication = config.authentication.as_ref();
        let credentials = authentication.and_then(|it| it.credentials.as_deref());
        let texts = [
            Some(config.url.as_str()),
            config.id.as_deref(),
            config.token.as_deref(),
            authentication.map(|it| it.scheme.as_str()),
            credentials,
        ];
        for text in texts.into_iter().flatten() {
            if text.len() > TEXT_MAX || text.chars().any(char::is_control) {
                let words =
                    format!("a text of it is longer than {TEXT_MAX} or has control characters");
                return Err(Refusal::invalid("pushNotificationConfig", words));
            }
        }
        address::check(&config.url, self.policy)
            .map_err(|words| Refusal::invalid("pushNotificationConfig.url", words))
    }

    /// Takes a webhook, replacing one with the same id.
    pub(crate) async fn create(
        &self,
        face: &Arc<Face>,
        task: &str,
        mut config: TaskPushNotificationConfig,
        version: Version,
        feed: Option<Arc<Feed>>,
    ) -> Result<TaskPushNotificationConfig, Refusal> {
        self.check(&config)?;
        let given = config.id.take().filter(|id| !id.is_empty());
        // A task's only webhook is called like the task, which clients of 0.3 count on.
        let id = given.unwrap_or_else(|| task.to_owned());
        config.id = Some(id.clone());
        config.task_id = Some(task.to_owned());
        let record = HookRecord {
            config: config.clone(),
            task: task.to_owned(),
            version,
            done: feed.is_none(),
        };
        // One at a time, so that those who come together do not all find the last place free.
        let _making = self.making.lock().await;
        {
            let mut hooks = self.lock();
            if hooks.values().map(BTreeMap::len).sum::<usize>() >= HOOKS_MAX {
                hooks.retain(|_, of_task| of_task.values().any(|hook| !hook.record.done));
            }
            let full = hooks.values().map(BTreeMap::len).sum::<usize>() >= HOOKS_MAX;
            let of_task = hooks.entry(task.to_owned()).or_default();
            if full || (of_task.len() >= PER_TASK_MAX && !of_task.contains_key(&id)) {
                let words = format!("a task has at most {PER_TASK_MAX} webhooks");
                return Err(Refusal::busy(words));
            }
        }
        self.keep(face, &record).await?;
        self.start(face, record, feed);
        Ok(config)
    }

    pub(crate) fn get(&self, task: &str, id: &str) -> Result<TaskPushNotificationConfig, Refusal> {
        self.require()?;
        let hooks = self.lock();
        let found = hooks.get(task).and_then(|of_task| of_task.get(id));
        let found = found.map(|hook| hook.record.config.clone());
        found.ok_or_else(|| {
            let words = "the task has no such webhook";
            Refusal::new(ErrorCode::TaskNotFound, words)
                .with("taskId", task)
                .with("configId", id)
        })
    }

    pub(crate) fn list(&self, task: &str) -> Result<Vec<TaskPushNotificationConfig>, Refusal> {
        self.require()?;
        let hooks = self.lock();
        let of_task = hooks.get(task).into_iter().flat_map(BTreeMap::values);
        Ok(of_task.map(|hook| hook.record.config.clone()).collect())
    }

    /// Removes a webhook; one that is not there is no error.
    pub(crate) async fn delete(&self, face: &Face, task: &str, id: &str) -> Result<(), Refusal> {
        self.require()?;
        let removed = self.lock().get_mut(task).and_then(|hooks| hooks.remove(id));
        if let Some(hook) = removed {
            hook.gone.cancel();
            face.records()
                .remove(PUSH_KIND, &document(task, id), None)
                .await?;
        }
        Ok(())
    }

    /// Goes on with what the last daemon had not told.
    pub(crate) async fn take_up(&self, face: &Arc<Face>) -> Result<(), EngineError> {
        let records = face.records();
        let mut before = None;
        loop {
            let page: Vec<Stored<HookRecord>> =
                records.list(PUSH_KIND, Which::All, before, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            before = Some((last.at, last.id.clone()));
            for stored in page {
                let mut record = stored.value;
                let feed = face.feed_of(&record.task).await.filter(|_| !record.done);
                record.done = feed.is_none();
                let count: usize = self.lock().values().map(BTreeMap::len).sum();
                // Of those that have nothing more to be told, only so many are remembered.
                if !record.done || count < HOOKS_MAX {
                    self.start(face, record, feed);
                }
            }
        }
    }

    fn start(&self, face: &Arc<Face>, record: HookRecord, feed: Option<Arc<Feed>>) {
        let hook = Arc::new(Hook {
            record,
            gone: CancellationToken::new(),
        });
        let (task, id) = (hook.record.task.clone(), hook.id());
        let replaced = self
            .lock()
            .entry(task)
            .or_default()
            .insert(id, hook.clone());
        if let Some(replaced) = replaced {
            replaced.gone.cancel();
        }
        if let Some(feed) = feed.filter(|_| self.is_on()) {
            let entry = face.register.entry(&hook.record.task);
            let caller = entry.map(|entry| entry.caller).unwrap_or_default();
            let work = delivery::Delivery {
                client: self.client.clone(),
                policy: self.policy,
                slots: [self.slots_of(&caller), self.slots.clone()],
                config: hook.record.config.clone(),
                version: hook.record.version,
            };
            let face_of_task = face.clone();
            face.tasks.spawn(|stop| async move {
                tokio::select! { biased;
                    () = stop.cancelled() => return,
                    () = hook.gone.cancelled() => return,
                    () = work.follow(feed.follow()) => {}
                }
                face_of_task.push.finish(&face_of_task, &hook).await;
            });
        }
    }

    fn slots_of(&self, caller: &str) -> Arc<Semaphore> {
        let slots_of = self.slots_of.lock();
        let mut slots_of = slots_of.unwrap_or_else(PoisonError::into_inner);
        if slots_of.len() >= CALLERS_MAX {
            slots_of.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        let fresh = || Arc::new(Semaphore::new(DELIVERIES_PER_CALLER));
        slots_of
            .entry(caller.to_owned())
            .or_insert_with(fresh)
            .clone()
    }

    /// The end of the task has been told, or cannot be.
    async fn finish(&self, face: &Face, hook: &Hook) {
        let record = HookRecord {
            done: true,
            ..hook.record.clone()
        };
        if let Err(refusal) = self.keep(face, &record).await {
            tracing::warn!(
                task = record.task,
                refusal = refusal.message,
                "could not keep a webhook"
            );
        }
        let mut hooks = self.lock();
        let of_task = hooks.get_mut(&record.task);
        if let Some(kept) = of_task.and_then(|of_task| of_task.get_mut(&hook.id())) {
            let gone = kept.gone.clone();
            *kept = Arc::new(Hook { record, gone });
        }
    }

    async fn keep(&self, face: &Face, record: &HookRecord) -> Result<(), Refusal> {
        let id = record.config.id.as_deref().unwrap_or_default();
        let keep = if record.done {
            Keep::Finished
        } else {
            Keep::Live
        };
        let id = document(&record.task, id);
        let put = face.records().put(PUSH_KIND, &id, keep, record, None).await;
        put.map_err(Refusal::from)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, Arc<Hook>>>> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook {
    fn id(&self) -> String {
        self.record.config.id.clone().unwrap_or_default()
    }
}

fn document(task: &str, id: &str) -> String {
    format!("{task}/{id}")
}
