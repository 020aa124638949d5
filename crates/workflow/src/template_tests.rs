//! Texts are filled in as Go would, with the functions and namespaces of workflows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::machine::{Failure, Record, Setup, StepStatus};
use crate::problem::Code;
use crate::scope::LoopView;
use crate::world::{FileKind, World};

#[derive(Debug)]
struct Desk;

impl World for Desk {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/ada".to_owned())
    }

    fn read(&self, _kind: FileKind, path: &str) -> Result<String, String> {
        match path {
            "notes.txt" => Ok("a note\n".to_owned()),
            "huge" => Ok("x".repeat(crate::world::FILE_MAX + 1)),
            other => Err(format!("{other} is not there")),
        }
    }

    fn exists(&self, path: &str) -> bool {
        path == "notes.txt"
    }
}

fn filled(text: &str) -> Result<String, String> {
    let setup = Setup {
        run: "r-1".to_owned(),
        inputs: json!({"name": "Ada", "count": 3, "odd": "it's; rm -rf /"})
            .as_object()
            .cloned()
            .unwrap(),
        working_dir: "/work".to_owned(),
        directories: BTreeMap::from([("scripts_dir".to_owned(), "/s".to_owned())]),
        ..Setup::default()
    };
    let record = Record {
        output: "hello\n".to_owned(),
        exit_code: 2,
        status: StepStatus::Failed,
        json: Some(json!({"items": ["a", "b"], "n": 1})),
        ..Record::default()
    };
    let records = BTreeMap::from([
        ("build".to_owned(), record.clone()),
        ("my-step".to_owned(), record),
    ]);
    let loops = [
        LoopView {
            item: json!({"path": "a b"}),
            index: 1,
            length: Some(2),
        },
        LoopView {
            item: json!("outer"),
            index: 0,
            length: None,
        },
    ];
    let failure = Failure {
        code: Code::CommandFailed,
        message: "went wrong".to_owned(),
        step: "build".to_owned(),
        exit_code: 2,
    };
    let world: Arc<dyn World> = Arc::new(Desk);
    let scope = Scope {
        workflow: "demo",
        setup: &setup,
        records: &records,
        loops: &loops,
        failure: Some(&failure),
        elapsed: Duration::from_millis(1500),
        current: "build",
        world: &world,
    };
    render(text, &scope)
}

#[test]
fn every_idiom_of_the_format_is_filled_in() {
    let cases = [
        ("plain", "plain"),
        ("{{$r := .}}{{$r.states.build.Output}}", "hello\n"),
        ("{{with .}}{{.states.build.Output}}{{end}}", "hello\n"),
        (
            r#"{{define "x"}}{{.states.build.Output}}{{end}}{{template "x" .}}"#,
            "hello\n",
        ),
        (r#"{{index . "states" "build" "Output"}}"#, "hello\n"),
        ("{{$.states.build.Output}}", "hello\n"),
        ("{{.inputs.name}}", "Ada"),
        ("{{inputs.name}}", "Ada"),
        ("{{ .inputs.count }}", "3"),
        ("{{.states.build.Output}}", "hello\n"),
        ("{{states.build.ExitCode}}", "2"),
        ("{{.states.build.Status}}", "failed"),
        ("{{.states.build.JSON.n}}", "1"),
        (
            r#"{{index .states "my-step" "Output" | trimSpace}}"#,
            "hello",
        ),
        ("{{.states.build.Output | trimSpace}}", "hello"),
        ("{{range .states.build.JSON.items}}<{{.}}>{{end}}", "<a><b>"),
        (
            "{{if eq .states.build.ExitCode 2}}two{{else}}other{{end}}",
            "two",
        ),
        (
            "{{with .inputs.name}}{{.}} of {{$.workflow.name}}{{end}}",
            "Ada of demo",
        ),
        (
            "{{.workflow.id}} {{workflow.Name}} {{.workflow.duration}}",
            "r-1 demo 1s500ms",
        ),
        ("{{.env.HOME}} {{env.HOME}}", "/home/ada /home/ada"),
        ("{{.context.working_dir}} {{.awf.scripts_dir}}", "/work /s"),
        (
            "{{.loop.Index}} {{loop.index1}} {{.loop.Last}} {{.loop.Length}}",
            "1 2 true 2",
        ),
        ("{{.loop.Item}}", r#"{"path":"a b"}"#),
        (
            "{{.loop.Item.path}} {{.loop.Parent.Item}} {{.loop.Parent.Length}}",
            "a b outer -1",
        ),
        (
            "{{.error.message}} {{.error.exit_code}} {{error.state}}",
            "went wrong 2 build",
        ),
        ("{{.error.type}}", "EXECUTION.COMMAND.FAILED"),
        ("{{.inputs.odd | shell_quote}}", r"'it'\''s; rm -rf /'"),
        ("{{escape .inputs.name}}", "Ada"),
        (r#"{{escape ""}}"#, "''"),
        (
            "{{json .states.build.JSON}}",
            r#"{"items":["a","b"],"n":1}"#,
        ),
        (r#"{{join (split "a, b,c" ",") "+"}}"#, "a+b+c"),
        (r#"{{readFile "notes.txt"}}"#, "a note\n"),
        (r#"{{printf "%s-%d" .inputs.name 7}}"#, "Ada-7"),
        ("{{$x := .inputs.name}}{{$x}}{{$x}}", "AdaAda"),
    ];
    for (text, expected) in cases {
        assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_defined_is_an_error_in_words() {
    let cases = [
        ("{{.inputs.absent}}", "absent"),
        ("{{.states.never.Output}}", "never"),
        ("{{.env.NOT_SET}}", "NOT_SET"),
        (r#"{{readFile "gone"}}"#, "gone is not there"),
        (r#"{{readFile "huge"}}"#, "longer than"),
        ("{{.inputs.name", "unclosed"),
        ("{{nonsense .inputs.name}}", "nonsense"),
    ];
    for (text, expected) in cases {
        let words = filled(text).unwrap_err();
        assert!(words.contains(expected), "{text}: {words}");
    }
}

#[test]
fn a_text_cannot_grow_without_bound() {
    let text =
        "{{range .states.build.JSON.items}}{{range $.states.build.JSON.items}}x{{end}}{{end}}";
    assert_eq!(filled(text).unwrap(), "xxxx");
    let endless = r#"{{define "again"}}{{template "again"}}{{end}}{{template "again"}}"#;
    assert!(filled(endless).is_err());
}

#[test]
fn references_say_whether_a_shell_would_see_them_raw() {
    let cases = [
        ("{{.states.a.Output}}", "states.a.Output", true),
        (
            "{{.states.a.Output | shell_quote}}",
            "states.a.Output",
            false,
        ),
        ("{{escape .states.a.Output}}", "states.a.Output", false),
        ("{{states.a.Output | trimSpace}}", "states.a.Output", true),
        ("{{if .states.a.Output}}x{{end}}", "states.a.Output", false),
        (
            r#"{{index .states "a-b" "Output"}}"#,
            "states.a-b.Output",
            true,
        ),
    ];
    for (text, path, is_raw) in cases {
        let references = parse(text).unwrap().references();
        let found = references
            .iter()
            .find(|reference| reference.path.join(".") == path);
        let found = found.unwrap_or_else(|| panic!("{text}: {references:?}"));
        assert_eq!(found.is_printed_unquoted, is_raw, "{text}");
    }
}

#[test]
fn values_keep_their_kind_on_the_way_through_json() {
    let value = json!({"a": [1, 2.5, true, null, "x"], "big": u64::MAX});
    let there = functions::value_of(&value);
    let shown = Value::Object(value.as_object().cloned().unwrap());
    assert_eq!(
        there
            .field("a")
            .and_then(|list| list.index(&gotmpl::Value::Int(0)).ok()),
        Some(gotmpl::Value::Int(1))
    );
    assert!(shown.is_object());
}
