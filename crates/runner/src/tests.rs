//! Runs with real processes and a real store, their agents played by the tests.

mod agents;
mod masks;
mod prompts;
mod resume;
mod scene;
mod steps;
mod waiting;

use scene::GUARDIAN_MARK;

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}
