//! The runs API over real sockets, with a real engine and an agent that plays a script.

mod api_tests;
mod await_tests;
mod client_tests;
mod exchange_tests;
mod peer_tests;
mod scene;
mod sdk_tests;
mod session_tests;

const GUARDIAN_MARK: &str = "mark-of-the-guardian";

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}
