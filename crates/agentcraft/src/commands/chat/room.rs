//! A chat on a terminal: one loop that shows the turn, asks what the agent asks, and reads what the person types.
//!
//! While a line is typed, a second thread shows what happens above it, so that several clients can share a session.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use domain::turn::{Ask, AskId};
use engine::SessionView;
use rustix::termios::{QueueSelector, tcflush};
use wire::daemon::{
    RunOptions, RunParams, SessionCancelParams, SessionIdParams, SessionPromptParams,
};

use super::{Joined, view::View};
use crate::{
    args::Format,
    commands::{
        ask,
        editor::{Editor, Typed},
        talk::PAUSE,
    },
    config::Config,
    conversation::{Conversation, Input},
    error::CommandError,
    render::{Screen, Symbols},
};

/// A turn with wishes is a run, which has a limit of time; a person at a terminal has none but this.
const TURN_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// How long the events of a turn may come after its answer.
const LATE: Duration = Duration::from_secs(5);

/// How often words appear above a line that is being typed: faster would keep the line from being drawn.
const PRINT_EVERY: Duration = Duration::from_millis(60);

/// How long the thread that prints above the line may take to end.
const PRINTER_GRACE: Duration = Duration::from_millis(500);

const HELP: &str = "\
Type what the agent should do; it answers below. Tab completes, arrows edit and look back.
  /session   show the session and how to come back to it
  /cancel    end what the agent is doing
  /help      show this
  //WORD     say /WORD to the agent, where it has a word that is one of ours
  exit       leave (also quit, Ctrl-D, or Ctrl-C at the empty prompt)
Ctrl-C while the agent works cancels the turn; twice leaves.
";

const WORDS: [&str; 5] = ["/cancel", "/help", "/session", "exit", "quit"];

struct Room<'a> {
    joined: Joined,
    view: View,
    screen: &'a mut Screen,
    editor: Option<Editor>,
    history: PathBuf,
    /// The call of our own turn, while it runs.
    running: Option<u64>,
    cancelled: bool,
    lost: Option<CommandError>,
    /// Somebody has closed the session.
    is_over: bool,
}

/// Whether the chat goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Stay,
    Leave,
}

pub(super) fn run(
    joined: Joined,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let symbols = Symbols::of_locale(&config.environment);
    let width = screen.width().unwrap_or(80);
    let view = View::new(&joined.session, screen.style(), symbols, width);
    let agent = joined.session.agent_name.clone();
    let mut room = Room {
        joined,
        view,
        screen,
        editor: None,
        history: config.home.join("chat_history"),
        running: None,
        cancelled: false,
        lost: None,
        is_over: false,
    };
    room.screen.note(&format!(
        "talking to {agent}; /help shows what else there is"
    ))?;
    let stayed = room.stay();
    let rest = room.view.transcript.close();
    room.screen.print(&rest)?;
    stayed?;
    let id = &room.view.session;
    Ok(room.screen.note(&match room.is_over {
        true => format!("the session is over; what was said: agentcraft session export {id}"),
        false => format!("the session goes on: agentcraft session attach {id}"),
    })?)
}

/// Sends a prompt; the answer comes when its turn is over.
pub(super) fn send_prompt(joined: &mut Joined, text: &str) -> Result<u64, CommandError> {
    let session_id = joined.session.session_id.clone();
    if joined.wishes.model.is_none() && joined.wishes.max_turns.is_none() {
        let params = SessionPromptParams {
            session_id,
            text: text.to_owned(),
            queue: true,
            trace: None,
        };
        return joined.conversation.send("session.prompt", &params);
    }
    let params = RunParams {
        name: Some(joined.session.agent_name.clone()),
        prompt: text.to_owned(),
        options: RunOptions {
            session_id: Some(session_id),
            timeout_ms: Some(TURN_MAX_MS),
            max_turns: joined.wishes.max_turns,
            model: joined.wishes.model.clone(),
            ..RunOptions::default()
        },
        ..RunParams::default()
    };
    joined.conversation.send("agent.run", &params)
}

impl Room<'_> {
    fn stay(&mut self) -> Result<(), CommandError> {
        loop {
            if let Some(error) = self.lost.take() {
                return Err(error);
            }
            if self.is_over {
                return Ok(());
            }
            let next = match self.joined.conversation.next(PAUSE) {
                Some(input) => self.react(input)?,
                None => {
                    let text = self.view.transcript.pause();
                    self.screen.print(&text)?;
                    match (self.view.ask().cloned(), self.running) {
                        (Some(ask), _) => self.answer(&ask)?,
                        (None, Some(_)) => Next::Stay,
                        (None, None) => self.listen()?,
                    }
                }
            };
            if next == Next::Leave {
                return Ok(());
            }
        }
    }

    fn react(&mut self, input: Input) -> Result<Next, CommandError> {
        match input {
            Input::Event(event) => {
                let text = self.view.event(&event);
                self.screen.print(&text)?;
            }
            Input::Answer { id, result } if Some(id) == self.running => {
                self.running = None;
                match result {
                    Ok(_) => self.catch_up()?,
                    Err(error) => self.complain(&error)?,
                }
            }
            // A cancel or an answer that came too late is no news.
            Input::Answer { .. } | Input::Nudge => {}
            Input::Over(_) => self.is_over = true,
            Input::Interrupt if self.running.is_none() || self.cancelled => return Ok(Next::Leave),
            Input::Interrupt => self.cancel()?,
            Input::Lost(error) => return Err(error),
        }
        Ok(Next::Stay)
    }

    /// Shows the last events of a turn whose answer has overtaken them.
    fn catch_up(&mut self) -> Result<(), CommandError> {
        let params = self.id();
        let now: SessionView = self.joined.conversation.call("session.get", &params)?;
        let until = Instant::now() + LATE;
        while self.view.seen < now.last_seq && Instant::now() < until {
            if let Some(input) = self.joined.conversation.next(PAUSE) {
                match input {
                    Input::Event(event) => {
                        let text = self.view.event(&event);
                        self.screen.print(&text)?;
                    }
                    Input::Lost(error) => return Err(error),
                    Input::Answer { .. } | Input::Over(_) | Input::Interrupt | Input::Nudge => {}
                }
            }
        }
        Ok(())
    }

    fn cancel(&mut self) -> Result<(), CommandError> {
        self.cancelled = true;
        let params = SessionCancelParams {
            session_id: self.view.session.clone(),
            own: true,
        };
        self.joined.conversation.send("session.cancel", &params)?;
        let rest = self.view.transcript.close();
        self.screen.print(&rest)?;
        // Terminals show the key itself as ^C.
        Ok(self.screen.note("\ncancelling; Ctrl-C again leaves")?)
    }

    /// Asks the person, unless somebody else answers first.
    fn answer(&mut self, question: &Ask) -> Result<Next, CommandError> {
        // What was typed before there was a question is no answer to it; a terminal that refuses is read as it is.
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        let typed = self.read(&ask::prompt(question), Some(&question.id))?;
        if !self.view.still_asks(&question.id) {
            return match typed {
                // Nobody means a prompt by what answers a question.
                Typed::Line(line) if ask::meant(question, &line).is_none() => self.take(&line),
                Typed::Line(line) => self.too_late(&line),
                Typed::Interrupt | Typed::End => Ok(Next::Leave),
            };
        }
        let answer = match typed {
            Typed::Line(line) => match ask::meant(question, &line) {
                Some(answer) => answer,
                None => {
                    self.screen.note("choose one of the numbers above")?;
                    return Ok(Next::Stay);
                }
            },
            Typed::Interrupt if self.running.is_some() && !self.cancelled => {
                self.cancel()?;
                question.kind.denial()
            }
            Typed::Interrupt | Typed::End => return Ok(Next::Leave),
        };
        let params = ask::params(&self.view.session, question, answer);
        self.view.answered(&question.id);
        self.joined.conversation.send("session.answer", &params)?;
        Ok(Next::Stay)
    }

    /// An answer that came after another client's; it may have been meant for something else.
    fn too_late(&mut self, line: &str) -> Result<Next, CommandError> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(Next::Stay);
        }
        if let Some(editor) = &mut self.editor {
            editor.remember(line);
        }
        self.screen.note(
            "that was answered already, and your line was not sent; the up arrow brings it back",
        )?;
        Ok(Next::Stay)
    }

    /// Reads what to do next.
    fn listen(&mut self) -> Result<Next, CommandError> {
        match self.read(&format!("{}> ", self.joined.session.agent_name), None)? {
            Typed::Line(line) => self.take(&line),
            Typed::Interrupt | Typed::End => Ok(Next::Leave),
        }
    }

    /// Does what a line says.
    fn take(&mut self, line: &str) -> Result<Next, CommandError> {
        let line = line.trim();
        if !line.is_empty()
            && let Some(editor) = &mut self.editor
        {
            editor.remember(line);
        }
        match line {
            "" => {}
            "exit" | "quit" => return Ok(Next::Leave),
            "/help" => self.screen.print(HELP)?,
            "/cancel" => {
                let params = self.id();
                self.joined.conversation.send("session.cancel", &params)?;
            }
            "/session" => {
                let params = self.id();
                let now: SessionView = self.joined.conversation.call("session.get", &params)?;
                let text = crate::render::session_detail(&now, self.screen.style());
                self.screen.print(&text)?;
            }
            prompt => {
                let prompt = match prompt.strip_prefix('/') {
                    Some(word) if word.starts_with('/') => word,
                    _ => prompt,
                };
                self.cancelled = false;
                if let Some(width) = self.screen.width() {
                    self.view.transcript.resize(width);
                }
                self.view.transcript.typed(prompt);
                self.running = Some(send_prompt(&mut self.joined, prompt)?);
            }
        }
        Ok(Next::Stay)
    }

    /// Reads a line while events go on above it; `asked` is what the line would answer.
    fn read(&mut self, prompt: &str, asked: Option<&AskId>) -> Result<Typed, CommandError> {
        let rest = self.view.transcript.close();
        self.screen.print(&rest)?;
        let mut editor = match self.editor.take() {
            Some(editor) => editor,
            None => self.new_editor()?,
        };
        let mut printer = editor.printer();
        let conversation = &mut self.joined.conversation;
        let (waker, over) = (conversation.waker(), AtomicBool::new(false));
        let view = &mut self.view;
        let (typed, editor, pumped) = std::thread::scope(|scope| {
            let pump = scope.spawn(|| {
                let print = |text: String| printer.as_mut().is_some_and(|print| print(text));
                pump(conversation, view, asked, &over, print)
            });
            let typed = editor.read(prompt);
            over.store(true, Ordering::Relaxed);
            waker.wake();
            let until = Instant::now() + PRINTER_GRACE;
            while !pump.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            // A printer that waits for a line to be typed goes on once its editor is gone.
            let editor = pump.is_finished().then_some(editor);
            (typed, editor, pump.join())
        });
        self.editor = editor;
        if let Ok(pumped) = pumped {
            self.screen.print(&pumped.unprinted)?;
            self.lost = pumped.lost;
            self.is_over |= pumped.is_over;
            for answer in pumped.answers {
                self.react(answer)?;
            }
        }
        typed
    }

    fn new_editor(&self) -> Result<Editor, CommandError> {
        let mut editor = Editor::with_history(&self.history)?;
        editor.complete(|line| {
            let fitting = WORDS.iter().filter(|word| word.starts_with(line));
            (0, fitting.map(|word| (*word).to_owned()).collect())
        });
        Ok(editor)
    }

    fn complain(&mut self, error: &CommandError) -> Result<(), CommandError> {
        let rest = self.view.transcript.close();
        self.screen.print(&rest)?;
        self.screen.failure(error, Format::Table);
        Ok(())
    }

    fn id(&self) -> SessionIdParams {
        SessionIdParams {
            session_id: self.view.session.clone(),
        }
    }
}

/// What the thread above the line leaves behind.
struct Pumped {
    unprinted: String,
    /// Answers to calls; ours may end while we are asked something that another client answers.
    answers: Vec<Input>,
    lost: Option<CommandError>,
    is_over: bool,
}

/// Shows events in whole lines until the line below is typed.
fn pump(
    conversation: &mut Conversation,
    view: &mut View,
    mut asked: Option<&AskId>,
    over: &AtomicBool,
    mut print: impl FnMut(String) -> bool,
) -> Pumped {
    let mut unprinted = String::new();
    let (mut lost, mut answers) = (None, Vec::new());
    let mut is_over = false;
    let mut printed = Instant::now();
    while !over.load(Ordering::Relaxed) {
        match conversation.next(PRINT_EVERY) {
            Some(Input::Event(event)) => {
                unprinted.push_str(&view.event(&event));
                if asked.is_some_and(|asked| !view.still_asks(asked)) {
                    asked = None;
                    unprinted.push_str("  (no answer is needed any more; press Enter)\n");
                }
            }
            Some(Input::Lost(error)) => {
                unprinted.push_str("the connection to the daemon is lost; press Enter\n");
                lost = Some(error);
            }
            None => {
                let text = view.transcript.pause();
                if !text.is_empty() && view.ask().is_some() {
                    unprinted.push_str(&text);
                    unprinted.push_str("  (Enter on an empty line answers)\n");
                } else {
                    unprinted.push_str(&text);
                }
            }
            Some(Input::Over(_)) => {
                unprinted.push_str("the session has been closed; press Enter\n");
                is_over = true;
            }
            // In this mode Ctrl-C is a key of the editor.
            Some(Input::Interrupt | Input::Nudge) => {}
            Some(answer @ Input::Answer { .. }) => answers.push(answer),
        }
        let is_last = lost.is_some() || is_over;
        if (is_last || printed.elapsed() >= PRINT_EVERY)
            && let Some(end) = unprinted.rfind('\n')
        {
            let rest = unprinted.split_off(end + 1);
            let lines = std::mem::replace(&mut unprinted, rest);
            if !print(lines.clone()) {
                unprinted.insert_str(0, &lines);
            }
            printed = Instant::now();
        }
        if is_last {
            break;
        }
    }
    Pumped {
        unprinted,
        answers,
        lost,
        is_over,
    }
}
