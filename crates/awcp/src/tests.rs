//! Two nodes in one process, over real sockets, with a scripted agent at the remote.

mod archive_tests;
mod ends_tests;
mod executor_tests;
mod faces_tests;
mod git_tests;
mod hostile_tests;
mod reach_tests;
mod released_tests;
mod restart_tests;
mod scene;
mod sshfs_tests;

/// Does nothing in an ordinary run; a scene starts it with the mark.
#[test]
fn role_of_the_guardian() {
    if std::env::args().any(|arg| arg == scene::GUARDIAN_MARK) {
        platform::guardian::run(std::io::stdin().lock());
    }
}
