//! Values that the servers of a computer ask for: given in variables, kept from before, made by a command, or typed.
//!
//! What was typed is kept in a file of the home that nobody else can read. No value is ever logged or sent.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use platform::{
    command::CommandLine,
    files::{self, Durability, Mode},
    process::Exit,
};
use wire::smcp::{Input, PickOption};

use super::asking::{Asking, Typing};
use crate::config::{Config, Environment};

/// Before the id of an input, the variable that holds its value.
pub(super) const VARIABLE: &str = "A2C_SMCP_";

/// The file in the home, and how large it may be.
const FILE: &str = "computer-inputs.json";
const FILE_MAX: u64 = 1024 * 1024;

/// The longest value that a command may make.
const VALUE_MAX: usize = 64 * 1024;

/// How long a command may take: it may wait for somebody to unlock something.
const COMMAND_MAX: Duration = Duration::from_secs(60);

/// How often somebody may pick something that is not there.
const PICKS_MAX: usize = 3;

/// Runs what is written, without what it says of its errors: that must not become a value.
const SHELL: &str = "exec 2>/dev/null\neval \"$1\"";

/// Whether values that were kept are asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Used,
    AskedAgain,
}

/// Where the values of one configuration come from.
#[derive(Debug)]
pub(crate) struct Inputs {
    environment: Environment,
    file: PathBuf,
    /// The configuration that the values belong to.
    origin: String,
    asking: Option<Asking>,
}

/// What was found, and what went wrong, in words without values.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) problems: Vec<String>,
}

type Book = BTreeMap<String, BTreeMap<String, String>>;

impl Inputs {
    pub(crate) fn new(origin: &Path, asking: Option<Asking>, config: &Config) -> Self {
        let origin = std::path::absolute(origin).unwrap_or_else(|_| origin.to_owned());
        Self {
            environment: config.environment.clone(),
            file: config.home.join(FILE),
            origin: origin.to_string_lossy().into_owned(),
            asking,
        }
    }

    /// The values of these inputs; one that cannot be had is left out.
    pub(crate) async fn values(&self, wanted: &[Input], kept: Kept) -> Found {
        let mut found = Found::default();
        let mut book = self.read();
        for input in wanted {
            let id = input.id();
            let before = book
                .get(&self.origin)
                .and_then(|page| page.get(id))
                .cloned();
            let value = match (self.variable(id), before) {
                (Some(value), _) => Some(value),
                (None, Some(value)) if kept == Kept::Used => Some(value),
                (None, before) => match self.ask(input, before.as_deref()).await {
                    Answer::Typed(value) => {
                        let page = book.entry(self.origin.clone()).or_default();
                        page.insert(id.to_owned(), value.clone());
                        if let Err(problem) = self.write(&book) {
                            found.problems.push(problem);
                        }
                        Some(value)
                    }
                    Answer::Given(value) => Some(value),
                    Answer::Nothing => None,
                    Answer::Failed(problem) => {
                        found.problems.push(problem);
                        None
                    }
                },
            };
            if let Some(value) = value {
                found.values.insert(id.to_owned(), value);
            }
        }
        found
    }

    fn variable(&self, id: &str) -> Option<String> {
        let value = self
            .environment
            .get(OsStr::new(&format!("{VARIABLE}{id}")))?;
        value.to_str().map(str::to_owned)
    }

    /// A file that cannot be read is one that keeps nothing; what is typed replaces it.
    fn read(&self) -> Book {
        let bytes = files::read_bounded(&self.file, FILE_MAX).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn write(&self, book: &Book) -> Result<(), String> {
        let failed = |error: anyhow::Error| format!("what was typed is not kept: {error}");
        if let Some(home) = self.file.parent() {
            files::create_private_dir(home).map_err(|error| failed(error.into()))?;
        }
        let bytes = serde_json::to_vec_pretty(book).map_err(|error| failed(error.into()))?;
        files::write_atomic(&self.file, &bytes, Mode::PRIVATE, Durability::default())
            .map_err(|error| failed(error.into()))
    }

    async fn ask(&self, input: &Input, before: Option<&str>) -> Answer {
        match input {
            Input::PromptString {
                id,
                description,
                default,
                password,
            } => {
                let typing = match password {
                    Some(true) => Typing::Hidden,
                    Some(false) | None => Typing::Shown,
                };
                let usual = before.or(default.as_deref());
                self.prompt(&question(id, description, usual, typing), typing, usual)
                    .await
            }
            Input::PickString {
                id,
                description,
                options,
                default,
            } => {
                let usual = before.or(default.as_deref());
                self.pick(id, description, options, usual).await
            }
            Input::Command { id, command, .. } => match self.run(command).await {
                Ok(value) => Answer::Given(value),
                Err(problem) => {
                    Answer::Failed(format!("the command of the input {id:?} {problem}"))
                }
            },
        }
    }

    async fn prompt(&self, question: &str, typing: Typing, usual: Option<&str>) -> Answer {
        let usual = Answer::usual(usual);
        let Some(asking) = &self.asking else {
            return usual;
        };
        match asking.line(format!("{question}:"), typing).await {
            Some(line) if !line.is_empty() => Answer::Typed(line),
            Some(_) | None => usual,
        }
    }

    async fn pick(
        &self,
        id: &str,
        description: &str,
        options: &[PickOption],
        usual: Option<&str>,
    ) -> Answer {
        let Some(asking) = &self.asking else {
            return Answer::usual(usual);
        };
        let listed: Vec<String> = (1..)
            .zip(options)
            .map(|(number, option)| format!("{number} = {}", option.label))
            .collect();
        let question = question(id, description, usual, Typing::Shown);
        let question = format!("{question} ({}):", listed.join(", "));
        for _ in 0..PICKS_MAX {
            match asking.line(question.clone(), Typing::Shown).await {
                Some(line) if line.trim().is_empty() => return Answer::usual(usual),
                Some(line) => {
                    if let Some(value) = picked(line.trim(), options) {
                        return Answer::Typed(value);
                    }
                }
                None => return Answer::usual(usual),
            }
        }
        Answer::Failed(format!("nothing was picked for the input {id:?}"))
    }

    /// What a command of a shell prints, without the blanks around it.
    async fn run(&self, command: &str) -> Result<String, String> {
        let cwd = std::env::current_dir().map_err(|error| format!("has no folder: {error}"))?;
        let line = CommandLine {
            program: PathBuf::from("/bin/sh"),
            args: ["-c", SHELL, "sh", command].map(OsString::from).into(),
            env: self.environment.clone(),
            cwd,
        };
        let running = line.start().map_err(|error| error.to_string())?;
        let mut output = Vec::new();
        let reading = async {
            let mut buffer = [0; 4096];
            loop {
                match running.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => output.extend_from_slice(&buffer[..count]),
                }
                if output.len() > VALUE_MAX {
                    return Err(format!("prints more than {VALUE_MAX} bytes"));
                }
            }
            running.exited().await;
            Ok(())
        };
        let read = tokio::time::timeout(COMMAND_MAX, reading).await;
        let ended = running.end().await;
        read.unwrap_or_else(|_| Err("takes too long".to_owned()))?;
        match ended {
            Exit::Code(0) => {
                let text = String::from_utf8(output).map_err(|_| "prints no text".to_owned())?;
                Ok(text.trim().to_owned())
            }
            Exit::Code(code) => Err(format!("failed with code {code}")),
            Exit::Signal(_) | Exit::Lost => Err("was killed".to_owned()),
        }
    }
}

/// What became of a question.
enum Answer {
    /// Somebody has typed it: it is kept.
    Typed(String),
    Given(String),
    Nothing,
    Failed(String),
}

impl Answer {
    fn usual(usual: Option<&str>) -> Self {
        usual.map_or(Self::Nothing, |usual| Self::Given(usual.to_owned()))
    }
}

fn question(id: &str, description: &str, usual: Option<&str>, typing: Typing) -> String {
    let what = match description {
        "" => id.to_owned(),
        description => format!("{id}, {description}"),
    };
    match (usual, typing) {
        (Some(usual), Typing::Shown) => format!("{what} [{usual}]"),
        (Some(_), Typing::Hidden) => format!("{what} [as before]"),
        (None, _) => what,
    }
}

/// By its number, or as it is written.
fn picked(line: &str, options: &[PickOption]) -> Option<String> {
    let number = line.parse::<usize>().ok();
    let by_number = number.and_then(|number| options.get(number.checked_sub(1)?));
    let by_word = || {
        let is_it = |option: &&PickOption| option.label == line || option.value == line;
        options.iter().find(is_it)
    };
    by_number
        .or_else(by_word)
        .map(|option| option.value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(home: &Path) -> Inputs {
        let variables = [
            ("A2C_SMCP_given", "from a variable"),
            ("PATH", "/usr/bin:/bin"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        Inputs {
            environment: Environment::from(variables),
            file: home.join(FILE),
            origin: "/servers.json".to_owned(),
            asking: None,
        }
    }

    fn prompt(id: &str, default: Option<&str>) -> Input {
        Input::PromptString {
            id: id.to_owned(),
            description: String::new(),
            default: default.map(str::to_owned),
            password: None,
        }
    }

    fn command(id: &str, command: &str) -> Input {
        Input::Command {
            id: id.to_owned(),
            description: String::new(),
            command: command.to_owned(),
            args: None,
        }
    }

    #[tokio::test]
    async fn without_a_terminal_values_come_from_variables_files_commands_and_defaults() {
        let home = tempfile::tempdir().unwrap();
        let inputs = inputs(home.path());
        let page = |value: &str| BTreeMap::from([("kept".to_owned(), value.to_owned())]);
        inputs
            .write(&Book::from([
                ("/servers.json".to_owned(), page("from before")),
                ("/other.json".to_owned(), page("of another file")),
            ]))
            .unwrap();
        let wanted = [
            prompt("given", Some("a default")),
            prompt("kept", None),
            prompt("usual", Some("a default")),
            prompt("missing", None),
            command("made", "echo 'a value'; echo an error >&2"),
            command("broken", "echo half; exit 3"),
        ];
        let found = inputs.values(&wanted, Kept::Used).await;
        let found_values: Vec<(&str, &str)> = found
            .values
            .iter()
            .map(|(id, value)| (id.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            found_values,
            [
                ("given", "from a variable"),
                ("kept", "from before"),
                ("made", "a value"),
                ("usual", "a default"),
            ]
        );
        assert_eq!(
            found.problems,
            ["the command of the input \"broken\" failed with code 3"]
        );
    }

    #[test]
    fn what_is_typed_is_kept_for_nobody_else() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let inputs = inputs(&home.path().join("home"));
        inputs.write(&Book::new()).unwrap();
        let mode = std::fs::metadata(&inputs.file)
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_option_is_picked_by_number_label_or_value() {
        let option = |label: &str, value: &str| PickOption {
            label: label.to_owned(),
            value: value.to_owned(),
        };
        let options = [option("Test", "t"), option("Live", "l")];
        for (line, value) in [
            ("1", Some("t")),
            ("Live", Some("l")),
            ("l", Some("l")),
            ("0", None),
            ("3", None),
            ("other", None),
        ] {
            assert_eq!(picked(line, &options).as_deref(), value, "{line}");
        }
    }
}
