//! What each program is called with.

use std::time::Duration;

use super::*;

/// Calls the backend's program with these options and returns its arguments and its input.
async fn called(backend: &str, prompt: &str, options: TurnOptions) -> (Vec<String>, String) {
    let scene = Scene::new();
    let driver = scene.driver(backend, &format!("{RECORD}; cat > input"));
    let opened = scene.open(&driver, Some("s-1")).await;
    let turn = Turn {
        options,
        ..turn(&opened.id, prompt)
    };
    patiently(driver.turn(turn)).await.unwrap();
    let input = std::fs::read_to_string(scene.path("input")).unwrap();
    (scene.args(), input)
}

#[tokio::test]
async fn every_program_gets_its_options_and_a_prompt_that_is_no_option() {
    let options = || TurnOptions {
        system_prompt_file: Some("/system.md".into()),
        system_prompt: Some("Be kind.".to_owned()),
        append_system_prompt: Some("-be brief".to_owned()),
        max_turns: Some(3),
        model: Some("m".to_owned()),
        timeout: Some(Duration::from_secs(60)),
        trace: None,
        ..TurnOptions::default()
    };
    let cases = [
        (
            "claude-code",
            "-p|--output-format|stream-json|--verbose|--include-partial-messages|--system-prompt-file|/system.md|--append-system-prompt|-be brief|\
             --resume|s-1|--max-turns|3|--model|m|--|--help me",
            "",
        ),
        (
            "codex",
            "exec|--json|--skip-git-repo-check|--model=m|resume|s-1|--|Be kind.||-be brief||--help me",
            "",
        ),
        (
            "gemini",
            "--output-format=stream-json|--resume=s-1|--model=m|--prompt=Be kind.||-be brief||--help me",
            "",
        ),
        (
            "qwen",
            "--output-format=stream-json|--resume=s-1|--append-system-prompt=Be kind.||-be brief|--max-session-turns=3|--model=m|\
             --prompt=--help me",
            "",
        ),
        (
            "copilot",
            "--output-format=json|--silent|--resume=s-1|--model=m|--prompt=Be kind.||-be brief||--help me",
            "",
        ),
        (
            "opencode",
            "run|--format=json|--thinking|--session=s-1|--model=m",
            "Be kind.\n\n-be brief\n\n--help me",
        ),
    ];
    for (backend, args, input) in cases {
        let wanted: Vec<String> = args.split('|').map(str::to_owned).collect();
        let called = called(backend, "--help me", options()).await;
        assert_eq!(called, (wanted, input.to_owned()), "{backend}");
    }
}

#[tokio::test]
async fn a_prompt_longer_than_an_argument_comes_on_standard_input() {
    let long = "x".repeat(300_000);
    for backend in [
        "claude-code",
        "codex",
        "gemini",
        "qwen",
        "copilot",
        "opencode",
    ] {
        let (args, input) = called(backend, &long, TurnOptions::default()).await;
        assert!(input == long, "{backend}");
        assert!(args.iter().all(|arg| arg.len() < 1000), "{backend}");
    }
    let (args, input) = called("codex", "-", TurnOptions::default()).await;
    assert_eq!((args.last().unwrap().as_str(), input.as_str()), ("-", "-"));
}

#[tokio::test]
async fn what_the_template_adds_comes_before_the_prompt_and_its_model_is_the_default() {
    let scene = Scene::new();
    let script = scene.script("claude", RECORD);
    let program = PrintProgram {
        args: Some(vec!["--allowedTools".to_owned(), "Bash".to_owned()]),
        model: Some("opus".to_owned()),
        ..scene.program("claude-code", Some(script))
    };
    let driver = crate::driver(program).unwrap();
    scene.once(&driver, "hello").await.unwrap();
    let tail = ["--model", "opus", "--allowedTools", "Bash", "--", "hello"];
    assert!(scene.args().ends_with(&tail.map(str::to_owned)));
}

#[test]
fn backends_without_a_print_mode_have_no_driver() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let scene = Scene::new();
    for backend in ["builtin", "cursor", "custom", "command", "unheard-of"] {
        let driver = crate::driver(scene.program(backend, None));
        assert!(driver.is_none(), "{backend}");
    }
    assert!(crate::driver(scene.program("codex", None)).is_some());
}

#[tokio::test]
async fn a_command_gets_the_prompt_where_its_arguments_say() {
    let body = r#"printf '<%s>' "$@"; printf '['; cat; printf ']'"#;
    let cases: [(&[&str], &str); 4] = [
        (&[], "<-n it>[]"),
        (&["-q"], "<-q><-n it>[]"),
        (&["--ask={{prompt}}", "-v"], "<--ask=-n it><-v>[]"),
        (&["-q", "{{stdin}}"], "<-q>[-n it]"),
    ];
    for (args, wanted) in cases {
        let scene = Scene::new();
        let driver = scene.command(body, args);
        assert_eq!(scene.once(&driver, "-n it").await, Ok(Stop::EndTurn));
        assert_eq!(scene.answer(), wanted);
    }
}

#[tokio::test]
async fn an_argument_that_the_system_would_refuse_is_refused_in_words() {
    let scene = Scene::new();
    let driver = scene.command("cat", &[]);
    let long = scene.once(&driver, &"x".repeat(200_000)).await.unwrap_err();
    let words =
        "this agent cannot take an argument of 200000 bytes; the system allows about 122880";
    assert_eq!(long.to_string(), words);
    let odd = scene.once(&driver, "a\0b").await.unwrap_err();
    let words = "this agent cannot take an argument with a NUL character in it";
    assert_eq!(odd.to_string(), words);
}
