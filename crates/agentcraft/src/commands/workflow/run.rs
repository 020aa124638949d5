//! `agentcraft workflow run|resume|rerun`: a run in this process, from its inputs to its exit code.

use std::path::PathBuf;

use domain::{
    permission::{self, Call},
    turn::{Answer, AskKind},
};
use platform::crash;
use runner::{Choices, Earlier, Execution, Found, History, Order, RunDetail, StartError, TakenUp};
use serde_json::{Map, Value};
use workflow::{Beginning, Extent, Plan, RewindFrom};

use super::{
    Place,
    live::{Live, Started},
};
use crate::{
    args::{Pair, RerunArgs, ResumeArgs, RunWorkflowArgs, TalkFormat},
    commands::editor::{Editor, Typed},
    config::Config,
    error::CommandError,
    render::Screen,
    standalone::run_records,
};

/// Threads that carry runs: one may be busy while another answers.
const THREADS: usize = 2;

pub(super) fn run(
    arguments: RunWorkflowArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut place = Place::here(config)?;
    let found = super::find(&place, &arguments.workflow)?;
    if let Some(cwd) = arguments.cwd {
        place.cwd = place.cwd.join(cwd);
    }
    let plan = super::load(&found, &place.cwd, screen)?;
    let mut inputs = given(&arguments.input, Some(&plan));
    if !arguments.dry_run {
        ask_missing(&plan, &mut inputs, screen)?;
    }
    if arguments.dry_run {
        let (environment, names) = (&config.environment, &config.secret_names);
        let described = runner::describe(&found, inputs, &place.cwd, environment, names);
        let described = described.map_err(|error| super::refuse(&error, Some(&found), screen))?;
        return match arguments.output.format {
            TalkFormat::Json => Ok(screen.json(&described)?),
            TalkFormat::Text => Ok(screen.print(&described.to_string())?),
        };
    }
    let wanted = Wanted {
        found,
        inputs,
        cwd: place.cwd,
        earlier: None,
    };
    begin(wanted, arguments.output.format, config, screen)
}

pub(super) fn resume(
    arguments: ResumeArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let from = arguments.from.map(|from| match from.as_str() {
        "current" => RewindFrom::Current,
        "previous" => RewindFrom::Previous,
        _ => RewindFrom::Step(from),
    });
    let inputs = given(&arguments.input, None);
    crash::arm(config.crash_at.as_deref());
    on_runtime(async {
        let live = Live::open(arguments.output.format, config, screen).await?;
        let taken_up = TakenUp {
            from,
            inputs,
            ..TakenUp::going_on(live.audience().clone())
        };
        let resumed = Execution::resume(live.runs(), &arguments.run, taken_up);
        let started = resumed.await.map(|execution| Started {
            execution,
            workflow: String::new(),
        });
        live.finish(started, None).await
    })
}

pub(super) fn rerun(
    arguments: RerunArgs,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let detail = earlier(&arguments.run, config, screen)?;
    let found = detail.view.found();
    let cwd = detail.view.cwd.clone();
    let plan = super::load(&found, &cwd, screen)?;
    let mut inputs = detail.inputs;
    inputs.retain(|_, value| !value.is_null());
    inputs.extend(given(&arguments.input, Some(&plan)));
    let beginning = |step, extent| Beginning { step, extent };
    let alone = arguments.step.map(|step| beginning(step, Extent::Alone));
    let onwards = arguments.from.map(|step| beginning(step, Extent::Onwards));
    let wanted = Wanted {
        found,
        inputs,
        cwd,
        earlier: Some(Earlier {
            run: detail.view.id,
            at: alone.or(onwards),
        }),
    };
    begin(wanted, arguments.output.format, config, screen)
}

fn earlier(run: &str, config: &Config, screen: &mut Screen) -> Result<RunDetail, CommandError> {
    let records = run_records(config)
        .map_err(|error| CommandError::machine("open the records of runs", error))?;
    let history = History::new(records);
    let detail =
        on_runtime(async { Ok(runner::detail(&history, run, &config.environment).await) })?;
    detail.map_err(|error| super::refuse(&error, None, screen))
}

/// What shall be run, and where.
struct Wanted {
    found: Found,
    inputs: Map<String, Value>,
    cwd: PathBuf,
    earlier: Option<Earlier>,
}

fn begin(
    wanted: Wanted,
    format: TalkFormat,
    config: &Config,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    crash::arm(config.crash_at.as_deref());
    let Wanted {
        found,
        inputs,
        cwd,
        earlier,
    } = wanted;
    on_runtime(async {
        let live = Live::open(format, config, screen).await?;
        let order = Order {
            cwd,
            servers: runner::Servers::default(),
            choices: Choices::default(),
            audience: live.audience().clone(),
            parent: None,
            trace: None,
            call_stack: Vec::new(),
            talk: None,
            earlier,
        };
        let prepared = Execution::prepare(live.runs(), &found, inputs, order).await;
        let started = prepared.map(|execution| Started {
            execution,
            workflow: found.name.clone(),
        });
        live.finish(started, Some(&found)).await
    })
}

fn on_runtime<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| CommandError::machine("start the runtime", error))?;
    let done = runtime.block_on(work);
    // Whoever still reads the standard input is stuck in a call of the system.
    runtime.shutdown_background();
    done
}

/// What was given, as the kinds that the inputs have.
fn given(pairs: &[Pair], plan: Option<&Plan>) -> Map<String, Value> {
    let kind = |name: &str| {
        let inputs = plan.into_iter().flat_map(|plan| &plan.inputs);
        let mut named = inputs.filter(|input| input.name == name);
        named.next().map(|input| input.kind)
    };
    pairs
        .iter()
        .map(|pair| {
            let value = runner::typed(&pair.value, kind(&pair.key));
            (pair.key.clone(), value)
        })
        .collect()
}

/// Asks the person at the terminal for what is required; an empty line leaves it missing, and the check says so.
fn ask_missing(
    plan: &Plan,
    inputs: &mut Map<String, Value>,
    screen: &Screen,
) -> Result<(), CommandError> {
    if !screen.can_ask() {
        return Ok(());
    }
    for spec in &plan.inputs {
        if !spec.required || spec.default.is_some() || inputs.contains_key(&spec.name) {
            continue;
        }
        let about = match spec.description.as_str() {
            "" => String::new(),
            words => format!(" ({words})"),
        };
        let mut editor = Editor::on_terminal()?;
        match editor.read(&format!("{}{about}: ", spec.name))? {
            Typed::Line(line) if !line.trim().is_empty() => {
                let value = runner::typed(line.trim(), Some(spec.kind));
                inputs.insert(spec.name.clone(), value);
            }
            Typed::Line(_) | Typed::Interrupt | Typed::End => return Ok(()),
        }
    }
    Ok(())
}

/// What the rules of the node say to a question of an agent; nothing where a person must.
pub(super) fn by_policy(
    config: &Config,
    kind: &AskKind,
    cwd: &str,
    audience: permission::Audience,
) -> Option<Answer> {
    let AskKind::Permission {
        tool, destructive, ..
    } = kind
    else {
        return match audience {
            permission::Audience::Somebody => None,
            permission::Audience::Nobody => Some(Answer::Declined),
        };
    };
    let call = Call::of(tool, cwd);
    let policy = config.policy.at_home(&config.user_home());
    let verdict = permission::decide(&policy, &call);
    let destructive = *destructive || permission::is_destructive(&call);
    let outcome = permission::settle(&verdict, destructive, audience);
    match (outcome.answer(kind), audience) {
        (Some(answer), _) => Some(answer),
        (None, permission::Audience::Somebody) => None,
        (None, permission::Audience::Nobody) => Some(kind.denial()),
    }
}

/// Why nothing was run, for whoever reads lines of JSON too.
pub(super) fn refusal(error: &StartError) -> Value {
    serde_json::json!({
        "type": "result", "outcome": "refused", "exitCode": error.exit_code(),
        "message": engine::chain(error), "problems": error.problems(),
    })
}
