//! Commands that only talk: help, thoughts, plans, questions, and what the session is like.

use agent_client_protocol_schema::v1::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction, ElicitationFormMode,
    ElicitationSchema, ElicitationSessionScope, Plan, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, SessionUpdate, StopReason,
};

use super::{
    table::{Audience, Row, TABLE},
    usage,
};
use crate::{
    session::{Mode, mode_update},
    turn::{Interrupted, Outcome, Turn},
    words,
};

/// What is quoted of a prompt that is not understood. A person sees that it arrived; a pasted file is not sent back.
const QUOTE_BYTES_MAX: usize = 2 * 1024;

/// Steps of a plan; more would only scroll by.
const STEPS_MAX: usize = 100;

/// The name of the field in which the client's form holds the answer.
const ANSWER_FIELD: &str = "answer";

/// For a sentence that is no command.
pub(super) async fn help(turn: &Turn, text: &str) -> Outcome {
    let said = words::shortened(text.trim(), QUOTE_BYTES_MAX);
    let mut answer = format!("You said: {said}\n\n");
    answer.push_str("I am the built-in agent of AgentCraft. I have no model, so I only understand simple commands.\n");
    answer.push_str(&everyday(turn));
    turn.say(answer).await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn overview(turn: &Turn) -> Outcome {
    let mut answer =
        "I am the built-in agent of AgentCraft: no model, no network, only simple commands.\n"
            .to_owned();
    answer.push_str(&everyday(turn));
    answer.push_str("\nFor testing clients there are also: ");
    let testing = TABLE.iter().filter(|row| row.audience == Audience::Testing);
    let names: Vec<String> = testing.map(|row| format!("`/{}`", row.name)).collect();
    answer.push_str(&names.join(", "));
    answer.push_str(".\n");
    turn.say(answer).await?;
    Ok(StopReason::EndTurn)
}

/// The list of commands for everybody, and where they work.
fn everyday(turn: &Turn) -> String {
    let mut text = String::from("\n");
    for row in TABLE
        .iter()
        .filter(|row| row.audience == Audience::Everyday)
    {
        text.push_str(&format!("- `{}`: {}\n", written(row), row.description));
    }
    let mode = turn.session.state().mode;
    text.push_str(&format!("\nI work in {}. ", turn.root().display()));
    text.push_str(&format!(
        "My mode is `{}`: {}.\n",
        mode.id(),
        mode.description().to_lowercase()
    ));
    text
}

fn written(row: &Row) -> String {
    format!("/{} {}", row.name, row.hint).trim_end().to_owned()
}

pub(super) async fn think(turn: &Turn, rest: &str) -> Outcome {
    if rest.is_empty() {
        return usage(turn, "/think text").await;
    }
    turn.think(rest).await?;
    turn.say(format!("I thought about it: {rest}")).await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn plan(turn: &Turn, rest: &str) -> Outcome {
    let steps: Vec<&str> = rest
        .split(';')
        .map(str::trim)
        .filter(|step| !step.is_empty())
        .collect();
    if steps.is_empty() || steps.len() > STEPS_MAX {
        return usage(turn, "/plan one; two; three").await;
    }
    // Steps before `done` are completed, the one at it is in progress if anybody works on it.
    let entries = |done: usize, working: bool| {
        let entry = |(index, step): (usize, &&str)| {
            let status = match index {
                index if index < done => PlanEntryStatus::Completed,
                index if index == done && working => PlanEntryStatus::InProgress,
                _ => PlanEntryStatus::Pending,
            };
            PlanEntry::new(*step, PlanEntryPriority::Medium, status)
        };
        steps.iter().enumerate().map(entry).collect::<Vec<_>>()
    };
    turn.show_plan(entries(0, false)).await?;
    for (index, step) in steps.iter().enumerate() {
        turn.show_plan(entries(index, true)).await?;
        turn.say(format!("Step {}: {step}\n", index + 1)).await?;
    }
    let finished = Plan::new(entries(steps.len(), false));
    turn.tell(SessionUpdate::Plan(finished)).await?;
    turn.say("The plan is done.").await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn ask(turn: &Turn, rest: &str) -> Outcome {
    if rest.is_empty() {
        return usage(turn, "/ask question").await;
    }
    let forms = turn.client.elicitation.as_ref();
    // A client that names no kind at all means forms, the first kind there was.
    if !forms.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none()) {
        turn.session.state().question = Some(rest.to_owned());
        turn.say(format!("{rest}\n\nYour next message is the answer."))
            .await?;
        return Ok(StopReason::EndTurn);
    }
    let schema = ElicitationSchema::new().string(ANSWER_FIELD, true);
    let scope = ElicitationSessionScope::new(turn.session.id.clone());
    let request = CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), rest);
    let answer = turn
        .call::<_, CreateElicitationResponse>("elicitation/create", &request)
        .await;
    match answer.map(|response| response.action) {
        Ok(ElicitationAction::Accept(accepted)) => {
            let content = serde_json::to_value(accepted.content).unwrap_or_default();
            let said = content.get(ANSWER_FIELD).and_then(|answer| answer.as_str());
            answered(turn, rest, said.unwrap_or("(nothing)")).await
        }
        Ok(ElicitationAction::Decline) => {
            declined(turn, "You would rather not answer. That is fine.").await
        }
        Ok(_) => declined(turn, "You closed the question. That is fine.").await,
        Err(jsonrpc::CallError::Closed) => Err(Interrupted::Closed),
        Err(error) => {
            declined(
                turn,
                &format!("I could not ask you: {}.", words::chain(&error)),
            )
            .await
        }
    }
}

async fn declined(turn: &Turn, words: &str) -> Outcome {
    turn.say(words).await?;
    Ok(StopReason::EndTurn)
}

/// The answer to a question of ours.
pub(super) async fn answered(turn: &Turn, question: &str, answer: &str) -> Outcome {
    let answer = words::shortened(answer.trim(), QUOTE_BYTES_MAX);
    turn.say(format!("I asked: {question}\nYou answered: {answer}"))
        .await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn mode(turn: &Turn, rest: &str) -> Outcome {
    let mode = match rest {
        "" => turn.session.state().mode,
        name => match Mode::parse(&name.to_lowercase()) {
            Some(mode) => {
                turn.session.set_mode(mode);
                turn.send(mode_update(mode)).await?;
                mode
            }
            None => return usage(turn, "/mode ask, /mode auto or /mode plan").await,
        },
    };
    turn.say(format!(
        "The mode is `{}`. {}.",
        mode.id(),
        mode.description()
    ))
    .await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn pwd(turn: &Turn) -> Outcome {
    let (cwd, folder) = {
        let state = turn.session.state();
        (state.header.cwd.clone(), state.folder.clone())
    };
    let here = turn.root().join(&folder);
    let mut text = format!("I work in {}.", here.display());
    // A client may name a folder that is not ours; then ours counts.
    if folder.as_os_str().is_empty() && cwd != *turn.root() {
        let note = format!(
            " The session was opened for {}, where I do not go.",
            cwd.display()
        );
        let real = turn.root().canonicalize().is_ok_and(|real| real == cwd);
        text.push_str(if real { "" } else { &note });
    }
    turn.say(text).await?;
    Ok(StopReason::EndTurn)
}

pub(super) async fn mcp(turn: &Turn) -> Outcome {
    let names = turn.session.state().mcp.clone();
    let text = match names.as_slice() {
        [] => "This session has no MCP servers.".to_owned(),
        names => {
            let lines: Vec<String> = names.iter().map(|name| format!("- {name}")).collect();
            format!(
                "MCP servers of this session, which I know by name and do not start:\n{}",
                lines.join("\n")
            )
        }
    };
    turn.say(text).await?;
    Ok(StopReason::EndTurn)
}
