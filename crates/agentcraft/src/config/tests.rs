//! Cases of `Config::resolve`: which layer wins, what is refused, and in which words.

use domain::permission::Policy;

use super::*;

/// Variables of a case.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn environment(pairs: Pairs<'_>) -> Environment {
    let defaults = [("HOME", "/home/ann")];
    defaults
        .iter()
        .chain(pairs)
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn resolve(global: &GlobalArgs, pairs: Pairs<'_>, toml: &str) -> Result<Config, ConfigError> {
    let environment = environment(pairs);
    let home = home(global, &environment)?;
    let file = FileConfig::parse(&home.join("config.toml"), toml.as_bytes())?;
    Config::layer(global, environment, home, file)
}

fn flags(change: impl FnOnce(&mut GlobalArgs)) -> GlobalArgs {
    let mut global = GlobalArgs::default();
    change(&mut global);
    global
}

#[test]
fn without_any_word_everything_is_below_the_home_folder() {
    let config = resolve(&GlobalArgs::default(), &[], "").unwrap();
    let expected = Config {
        home: "/home/ann/.agentcraft".into(),
        socket: "/home/ann/.agentcraft/agentcraft.sock".into(),
        configs_dir: "/home/ann/.agentcraft/configs".into(),
        instances_dir: "/home/ann/.agentcraft/instances".into(),
        state_dir: "/home/ann/.agentcraft/state".into(),
        log_file: "/home/ann/.agentcraft/logs/daemon.log".into(),
        log_level: "info".to_owned(),
        launcher: LauncherMode::Real,
        durability: Durability::ProcessDeath,
        stop_grace: Duration::from_secs(5),
        journal_age: Duration::from_secs(90 * 24 * 60 * 60),
        journal_lines: 1_000_000,
        secret_names: Vec::new(),
        policy: Policy::default(),
        runs: RunsTable::default(),
        network: config.network.clone(), // It has tests of its own.
        crash_at: None,
        crash_trace: None,
        environment: environment(&[]),
    };
    assert_eq!(config, expected);
}

#[test]
fn a_socket_comes_from_the_flag_then_the_environment_then_the_file_then_the_home() {
    let file = "socket = 'run/file.sock'";
    let environment = [("AGENTCRAFT_SOCKET", "/env.sock")];
    let home = [("AGENTCRAFT_HOME", "/node")];
    let flag = flags(|global| global.socket = Some("/flag.sock".into()));
    let none = GlobalArgs::default();
    let cases: [(&GlobalArgs, Pairs<'_>, &str, &str); 6] = [
        (&flag, &environment, file, "/flag.sock"),
        (&none, &environment, file, "/env.sock"),
        (&none, &[], file, "/home/ann/.agentcraft/run/file.sock"),
        (&none, &home, file, "/node/run/file.sock"),
        (&none, &home, "", "/node/agentcraft.sock"),
        (
            &none,
            &[("AGENTCRAFT_SOCKET", "")],
            "",
            "/home/ann/.agentcraft/agentcraft.sock",
        ),
    ];
    for (global, pairs, toml, socket) in cases {
        assert_eq!(
            resolve(global, pairs, toml).unwrap().socket,
            Path::new(socket),
            "{pairs:?} {toml}"
        );
    }
}

#[test]
fn the_home_flag_moves_everything() {
    let global = flags(|global| global.home = Some("/elsewhere".into()));
    let config = resolve(&global, &[("AGENTCRAFT_HOME", "/node")], "").unwrap();
    assert_eq!(config.home, Path::new("/elsewhere"));
    assert_eq!(config.state_dir, Path::new("/elsewhere/state"));
}

#[test]
fn relative_paths_of_a_person_start_where_the_person_is() {
    let here = std::path::absolute("x").unwrap();
    let global = flags(|global| global.configs_dir = Some("x".into()));
    let config = resolve(&global, &[], "configs_dir = 'ignored'").unwrap();
    assert_eq!(config.configs_dir, here);
    let config = resolve(&GlobalArgs::default(), &[("AGENTCRAFT_HOME", "x")], "").unwrap();
    assert_eq!(config.socket, here.join("agentcraft.sock"));
}

#[test]
fn the_file_sets_the_rest_and_the_environment_overrides_it() {
    let toml = "log_level = 'debug'\nlauncher = 'mock'\ndurability = 'power'\nstop_grace_ms = 250";
    let config = resolve(&GlobalArgs::default(), &[], toml).unwrap();
    assert_eq!(config.log_level, "debug");
    assert_eq!(config.launcher, LauncherMode::Mock);
    assert_eq!(config.durability, Durability::PowerLoss);
    assert_eq!(config.stop_grace, Duration::from_millis(250));
    let pairs = [("LOG_LEVEL", "warn"), ("AGENTCRAFT_LAUNCHER_MODE", "real")];
    let config = resolve(&GlobalArgs::default(), &pairs, toml).unwrap();
    assert_eq!(
        (config.log_level.as_str(), config.launcher),
        ("warn", LauncherMode::Real)
    );
    let pairs = [("LOG_LEVEL", "warn"), ("AGENTCRAFT_LOG", "engine=trace")];
    let config = resolve(&GlobalArgs::default(), &pairs, toml).unwrap();
    assert_eq!(config.log_level, "engine=trace");
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let long = format!("/{}", "s".repeat(107));
    let cases: [(Pairs<'_>, &str, &str, Option<&str>); 9] = [
        (
            &[("AGENTCRAFT_LAUNCHER_MODE", "fake")],
            "",
            "AGENTCRAFT_LAUNCHER_MODE is \"fake\", but must be real or mock",
            None,
        ),
        (
            &[],
            "durability = 'disk'",
            "durability in /home/ann/.agentcraft/config.toml is \"disk\", but must be process or power",
            None,
        ),
        (
            &[],
            "stop_grace_ms = -1",
            "stop_grace_ms in /home/ann/.agentcraft/config.toml is \"-1\", but must be a whole number of milliseconds up to 3600000",
            None,
        ),
        (
            &[],
            "stop_grace_ms = '5 s'",
            "stop_grace_ms in /home/ann/.agentcraft/config.toml is \"5 s\", but must be a whole number of milliseconds up to 3600000",
            None,
        ),
        (
            &[],
            "socket = ''",
            "socket in /home/ann/.agentcraft/config.toml is \"\", but must be a text that is not empty",
            None,
        ),
        (
            &[],
            "stop_grace = 5",
            "/home/ann/.agentcraft/config.toml: there is no setting called \"stop_grace\"",
            Some("did you mean stop_grace_ms?"),
        ),
        (
            &[],
            "configs-dir = 'x'",
            "/home/ann/.agentcraft/config.toml: there is no setting called \"configs-dir\"",
            Some("did you mean configs_dir?"),
        ),
        (
            &[],
            "[zebra]",
            "/home/ann/.agentcraft/config.toml: there is no setting called \"zebra\"",
            Some(
                "the settings are configs_dir, durability, http, journal_days, journal_lines, lan, launcher, lending, log_level, permissions, runs, secret_names, socket, stop_grace_ms",
            ),
        ),
        (
            &[("AGENTCRAFT_SOCKET", &long)],
            "",
            &format!(
                "the path of the socket is too long: {long} has 108 bytes, and the system allows 107"
            ),
            Some(
                "set AGENTCRAFT_SOCKET to a shorter path, such as $XDG_RUNTIME_DIR/agentcraft.sock",
            ),
        ),
    ];
    for (pairs, toml, words, hint) in cases {
        let error = resolve(&GlobalArgs::default(), pairs, toml).unwrap_err();
        assert_eq!(error.to_string(), words);
        assert_eq!(error.hint().as_deref(), hint, "{words}");
    }
}

#[test]
fn a_slip_in_the_level_of_the_log_is_told_and_other_programs_words_are_passed_over() {
    let refused = |pairs, toml| {
        let error = resolve(&GlobalArgs::default(), pairs, toml).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refused(&[("AGENTCRAFT_LOG", "debgu")], ""),
        "AGENTCRAFT_LOG is \"debgu\", but must be off, error, warn, info, debug or trace, also for a part: warn,engine=debug",
    );
    assert!(refused(&[], "log_level = 'loud'").starts_with("log_level in "));
    let config = resolve(&GlobalArgs::default(), &[("LOG_LEVEL", "VERBOSE")], "").unwrap();
    assert_eq!(config.log_level, LOG_LEVEL);
}

#[test]
fn a_socket_path_of_exactly_the_limit_is_accepted() {
    let path = format!("/{}", "s".repeat(SOCKET_PATH_MAX - 1));
    let config = resolve(&GlobalArgs::default(), &[("AGENTCRAFT_SOCKET", &path)], "").unwrap();
    assert_eq!(config.socket, Path::new(&path));
}

#[test]
fn broken_toml_names_the_file_and_the_line() {
    let toml = "[http]\ntoken = 'hunter2' oops\n";
    let error = resolve(&GlobalArgs::default(), &[], toml)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("/home/ann/.agentcraft/config.toml: line 2, column 19: "),
        "{error}"
    );
    assert!(!error.contains("hunter2"), "the line may hold a secret");
}

#[test]
fn another_terminal_is_told_what_is_not_usual() {
    let cases: [(Pairs<'_>, &str, &str); 4] = [
        (&[], "", ""),
        (&[("AGENTCRAFT_HOME", "/node")], "", "--home /node"),
        (&[("AGENTCRAFT_SOCKET", "/a.sock")], "", "--socket /a.sock"),
        (&[], "/shared", "--configs-dir /shared"),
    ];
    for (pairs, configs, flags) in cases {
        let global = GlobalArgs {
            configs_dir: (!configs.is_empty()).then(|| configs.into()),
            ..GlobalArgs::default()
        };
        let config = resolve(&global, pairs, "").unwrap();
        assert_eq!(config.flags().join(" "), flags);
    }
}
