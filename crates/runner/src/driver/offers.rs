//! What editors are offered: commands that follow the files, and choices for the agents of a conversation's runs.

use std::{path::Path, sync::Arc};

use engine::{DriverError, NativeMessage};
use serde_json::{Value, json};

use super::RunKeeper;
use crate::{
    act,
    choices::{Choices, Offered},
    folders::FilePlaces,
    found::Found,
    servers::Servers,
    surroundings::Scene,
    talk::Talk,
    watch::Watch,
};

/// The code of JSON-RPC for a value that cannot be taken.
const INVALID_PARAMS: i64 = -32602;

impl RunKeeper {
    /// Tells conversations their commands, if they are others than before. What is read is watched before it is read,
    /// so that no change is missed; a folder that came meanwhile is read once more.
    pub(super) fn offer(&self, talks: &[Arc<Talk>]) {
        const ROUNDS_MAX: usize = 8;
        self.follow();
        for _ in 0..ROUNDS_MAX {
            for talk in talks {
                talk.offer(self.commands(&talk.cwd));
            }
            if !self.follow() {
                return;
            }
        }
    }

    /// Watches the folders of all conversations; says whether one is new.
    pub(super) fn follow(&self) -> bool {
        let watch = self.watch.get_or_init(|| {
            let (watch, mut changes) = Watch::start()?;
            let ourselves = self.ourselves.clone();
            self.node.around.tasks.spawn(|stop| async move {
                loop {
                    let goes_on = tokio::select! { biased;
                        () = stop.cancelled() => false,
                        goes_on = changes.next() => goes_on,
                    };
                    match ourselves.upgrade().filter(|_| goes_on) {
                        Some(keeper) => keeper.offer_again().await,
                        None => return,
                    }
                }
            });
            Some(watch)
        });
        let Some(watch) = watch else {
            return false;
        };
        let talks: Vec<Arc<Talk>> = self.talks().values().cloned().collect();
        let folders = talks
            .iter()
            .flat_map(|talk| self.node.shelf.watched(&talk.cwd));
        watch.follow(folders.collect())
    }

    async fn offer_again(self: Arc<Self>) {
        let tasks = self.node.around.tasks.clone();
        let offering = tasks.spawn_blocking(move |_| {
            let talks: Vec<Arc<Talk>> = self.talks().values().cloned().collect();
            self.offer(&talks);
        });
        let _ = offering.await; // The program is shutting down.
    }

    /// The commands, as editors are told of them.
    fn commands(&self, cwd: &Path) -> Vec<Value> {
        self.available(cwd)
            .into_iter()
            .map(|(found, description, hint)| {
                let mut command = json!({ "name": found.name, "description": description });
                if let Some(hint) = hint {
                    command["input"] = json!({ "hint": hint });
                }
                command
            })
            .collect()
    }

    /// What there is to choose from in a conversation.
    pub(super) fn offered(&self, talk: &Talk) -> Offered {
        let scene = Scene {
            node: self.node.clone(),
            cwd: talk.cwd.clone(),
            servers: Servers::default(),
            choices: Choices::default(),
            trace: None,
            places: FilePlaces::default(),
        };
        Offered {
            roles: act::context::roles(&scene),
            providers: act::providers(&scene),
        }
    }

    /// A request of an editor that changes what its runs do.
    pub(super) fn choose(&self, message: &NativeMessage) -> Result<Value, DriverError> {
        let unknown = || DriverError::Unsupported {
            what: format!("be asked for {}", message.method),
        };
        let talk = self.talk(message.conversation.as_deref().ok_or_else(unknown)?)?;
        let params = message.params.as_ref().map_or("{}", |raw| &raw.frame);
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let text = |key: &str| params[key].as_str().unwrap_or_default();
        let offered = self.offered(&talk);
        let mut choices = talk.choices();
        let chosen = match message.method.as_str() {
            "session/set_config_option" => {
                choices.choose(text("configId"), text("value"), &offered)
            }
            "session/set_mode" => choices.choose_mode(text("modeId"), &offered),
            _ => return Err(unknown()),
        };
        chosen.map_err(|message| DriverError::Refused {
            code: INVALID_PARAMS,
            message,
        })?;
        let options = choices.options(&offered);
        let modes = choices.modes(&offered);
        drop(choices);
        if message.method == "session/set_mode" {
            talk.tell("config_option_update", &json!({ "configOptions": options }));
            return Ok(json!({}));
        }
        talk.tell(
            "current_mode_update",
            &json!({ "currentModeId": modes["currentModeId"] }),
        );
        Ok(json!({ "configOptions": options }))
    }

    /// Every workflow that can be run, what it does, and which inputs it takes.
    pub(super) fn available(&self, cwd: &Path) -> Vec<(Found, String, Option<String>)> {
        let shelf = &self.node.shelf;
        let all = match &self.only {
            Some(only) => Vec::from_iter(shelf.find(&self.node.around.workspace, only).ok()),
            None => shelf.list(cwd),
        };
        all.into_iter()
            // A command ends at a blank, so such a name could not be typed.
            .filter(|found| !found.name.contains(char::is_whitespace))
            .filter_map(|found| {
                let plan = found.plan(cwd).ok()?;
                let description = if plan.description.is_empty() {
                    format!("Run the workflow {}", found.name)
                } else {
                    plan.description.clone()
                };
                let hints: Vec<String> = plan
                    .inputs
                    .iter()
                    .map(|input| match input.required {
                        true => format!("{}=…", input.name),
                        false => format!("[{}=…]", input.name),
                    })
                    .collect();
                let hint = (!hints.is_empty()).then(|| hints.join(" "));
                Some((found, description, hint))
            })
            .collect()
    }
}
