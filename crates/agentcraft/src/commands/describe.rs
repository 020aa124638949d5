//! What describes the command and its files to shells, manuals and editors.

use std::path::Path;

use catalog::{ComponentKind, DocumentKind};
use clap::CommandFactory;
use platform::files::{Durability, Mode, write_atomic};

use crate::{
    args::{Arguments, CompletionsArgs, ManArgs, SchemaArgs, SchemaKind, Shell},
    completion,
    error::CommandError,
    render::Screen,
};

pub(super) fn schema(arguments: &SchemaArgs, screen: &mut Screen) -> Result<(), CommandError> {
    let kind = match arguments.kind {
        SchemaKind::Template => DocumentKind::Template,
        SchemaKind::Skill => DocumentKind::Component(ComponentKind::Skill),
        SchemaKind::Prompt => DocumentKind::Component(ComponentKind::Prompt),
        SchemaKind::Mcp => DocumentKind::Component(ComponentKind::McpServer),
        SchemaKind::Workflow => DocumentKind::Component(ComponentKind::Workflow),
    };
    Ok(screen.json(&catalog::schema(kind))?)
}

pub(super) fn completions(
    arguments: &CompletionsArgs,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    Ok(screen.bytes(&script(arguments.shell))?)
}

/// The completions of a shell.
pub(super) fn script(shell: Shell) -> Vec<u8> {
    completion::script(match shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    })
}

pub(super) fn man(arguments: &ManArgs, screen: &mut Screen) -> Result<(), CommandError> {
    match &arguments.dir {
        None => Ok(screen.bytes(&page(&built())?)?),
        Some(folder) => {
            let count = write_manual(folder)?;
            Ok(screen.line(&format!("wrote {count} pages to {}", folder.display()))?)
        }
    }
}

fn built() -> clap::Command {
    let mut command = Arguments::command();
    command.build();
    command
}

/// Writes every page into the folder; returns how many.
pub(super) fn write_manual(folder: &Path) -> Result<usize, CommandError> {
    write_pages(&built(), folder)
}

fn page(command: &clap::Command) -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut page)
        .map_err(|error| CommandError::machine("render the manual page", error))?;
    Ok(page)
}

/// Writes the page of a command and of those below it; returns how many.
fn write_pages(command: &clap::Command, folder: &Path) -> Result<usize, CommandError> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    write_atomic(&path, &page(command)?, Mode::SHARED, Durability::default())
        .map_err(|error| CommandError::machine("write the manual", error))?;
    let mut count = 1;
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        count += write_pages(inner, folder)?;
    }
    Ok(count)
}
