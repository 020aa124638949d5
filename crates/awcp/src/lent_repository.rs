//! The repository in a folder that is lent, which is its owner's: we read where it is and name branches in it.

use std::path::{Path, PathBuf};

use domain::delegation::DelegationId;
use platform::files;

use crate::{git::Repository, node::Node};

/// Where it keeps things, and what is checked out.
#[derive(Debug, Clone)]
pub(crate) struct LentRepository {
    git: Repository,
    pub(crate) objects: PathBuf,
    /// Absent before the first commit.
    pub(crate) head: Option<String>,
}

impl LentRepository {
    /// Why this folder has none that can be lent, in words.
    pub(crate) async fn of(dir: &Path, node: &Node) -> Result<Self, String> {
        let folder = dir.join(".git");
        if !node.is_there(&folder).await {
            return Err(format!("{} is no git repository", dir.display()));
        }
        if !node.has_git() {
            return Err("lending a repository needs git 2.38 or newer here".to_owned());
        }
        let git = Repository {
            folder,
            work_tree: Some(dir.to_owned()),
            environment: node.config().environment.clone(),
            variables: Vec::new(),
        };
        let asked = [
            "rev-parse",
            "--path-format=absolute",
            "--show-object-format",
            "--git-path",
            "objects",
        ];
        let said = git.line(&asked).await?;
        let (format, objects) = said.split_once('\n').unwrap_or_default();
        if format != "sha1" {
            return Err(format!("its objects are named by {format}, not by sha1"));
        }
        // Git lists such folders with these between them.
        if objects.contains([':', '"', '\n']) || !files::is_there(Path::new(objects)) {
            return Err(format!("its objects in {objects:?} cannot be read"));
        }
        let head = git.line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]);
        Ok(Self {
            objects: PathBuf::from(objects),
            head: head.await.ok(),
            git,
        })
    }

    /// What the branch of a delegation is called.
    pub(crate) fn branch(id: &DelegationId) -> String {
        format!("agentcraft/{id}")
    }

    pub(crate) async fn name_branch(&self, id: &DelegationId, commit: &str) -> Result<(), String> {
        let name = format!("refs/heads/{}", Self::branch(id));
        let named = self.git.run(&["update-ref", &name, commit]).await;
        named.map(drop)
    }

    /// Takes the branch away again; one that is not there is no error.
    pub(crate) async fn forget_branch(&self, id: &DelegationId) -> Result<(), String> {
        let name = format!("refs/heads/{}", Self::branch(id));
        self.git.run(&["update-ref", "-d", &name]).await.map(drop)
    }
}
