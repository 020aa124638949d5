//! Logins at MCP servers that want one: OAuth's tokens, in a file of the home that nobody else can read.
//!
//! A login belongs to the address of its server. All processes of a home share the file; whoever renews a token holds a
//! lock, so that a token which is good for one renewal is not spent twice.

use std::{collections::BTreeMap, fmt, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use platform::files::{self, Durability, Lock, Mode, lock_exclusive};
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, CredentialRefreshGuard, CredentialStore,
    StoredCredentials,
};

use super::trouble::Trouble;

/// The file in the home.
const FILE: &str = "mcp-logins.json";

/// Beside it, so that replacing the file does not free it.
const LOCK: &str = "mcp-logins.lock";

/// How large it may be: a hundred logins with long tokens.
const FILE_MAX: u64 = 1024 * 1024;

/// How long a server may take to say where one logs in.
const RESTORE_MAX: Duration = Duration::from_secs(30);

/// How long somebody else may take to renew a token, which is one request.
const RENEW_MAX: Duration = Duration::from_secs(60);

/// How often the lock is tried in that time.
const RENEW_LOOK: Duration = Duration::from_millis(50);

/// The logins of one home.
#[derive(Debug, Clone)]
pub struct Logins {
    home: Arc<PathBuf>,
}

type Book = BTreeMap<String, StoredCredentials>;

impl Logins {
    pub fn of_home(home: impl Into<PathBuf>) -> Self {
        let home = Arc::new(home.into());
        Self { home }
    }

    /// Where they are kept.
    pub fn file(&self) -> PathBuf {
        self.home.join(FILE)
    }

    /// Forgets the login at a server; whether there was one.
    pub async fn forget(&self, server: &str) -> Result<bool, AuthError> {
        let of_server = self.of(server);
        let _guard = of_server.acquire_refresh_guard().await?;
        let was_there = of_server.load().await?.is_some();
        of_server.clear().await?;
        Ok(was_there)
    }

    pub(super) fn of(&self, server: &str) -> Login {
        Login {
            logins: self.clone(),
            server: server.to_owned(),
        }
    }

    /// A client that shows the token of this server's login and renews it; nothing where nobody has logged in.
    pub(super) async fn client(
        &self,
        server: &str,
    ) -> Result<Option<AuthClient<reqwest::Client>>, Trouble> {
        let login = self.of(server);
        if login
            .load()
            .await
            .map_err(|error| Trouble::of(&error))?
            .is_none()
        {
            return Ok(None);
        }
        let restoring = async {
            let mut manager = manager(server).await?;
            manager.set_credential_store(login);
            let is_restored = manager.initialize_from_store().await?;
            Ok::<_, AuthError>(is_restored.then_some(manager))
        };
        match tokio::time::timeout(RESTORE_MAX, restoring).await {
            Ok(Ok(Some(manager))) => Ok(Some(AuthClient::new(http_client()?, manager))),
            Ok(Ok(None)) => Err(Trouble::Unauthorized),
            Ok(Err(error)) => Err(Trouble::of(&error)),
            Err(_) => Err("it does not say where one logs in".into()),
        }
    }

    fn read(&self) -> Result<Book, AuthError> {
        let bytes = match files::read_bounded(&self.file(), FILE_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(Book::new()),
            Err(error) => return Err(failed(&error)),
        };
        serde_json::from_slice(&bytes).map_err(|error| failed(&error))
    }

    fn write(&self, book: &Book) -> Result<(), AuthError> {
        files::create_private_dir(&self.home).map_err(|error| failed(&error))?;
        let bytes = serde_json::to_vec_pretty(book).map_err(|error| failed(&error))?;
        files::write_atomic(&self.file(), &bytes, Mode::PRIVATE, Durability::default())
            .map_err(|error| failed(&error))
    }
}

/// What speaks for us at an authorization server. It may be in a company's own network, as the MCP server may.
pub(super) async fn manager(server: &str) -> Result<AuthorizationManager, AuthError> {
    AuthorizationManager::new_allowing_private_addresses(server).await
}

/// Idle connections are not kept, and nothing follows a redirect: a token goes to the address it was given for.
fn http_client() -> Result<reqwest::Client, Trouble> {
    let client = reqwest::Client::builder()
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .build();
    client.map_err(|error| Trouble::of(&error))
}

/// Words about the file, which never hold what is in it.
fn failed(error: &(dyn std::error::Error + 'static)) -> AuthError {
    AuthError::CredentialStoreError(engine::chain(error))
}

/// The login at one server.
#[derive(Clone)]
pub(super) struct Login {
    logins: Logins,
    server: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a secret.
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

type Storing<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl CredentialStore for Login {
    fn load<'a, 'b>(&'a self) -> Storing<'b, Option<StoredCredentials>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { Ok(self.logins.read()?.remove(&self.server)) })
    }

    fn save<'a, 'b>(&'a self, credentials: StoredCredentials) -> Storing<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let mut book = self.logins.read()?;
            book.insert(self.server.clone(), credentials);
            self.logins.write(&book)
        })
    }

    fn clear<'a, 'b>(&'a self) -> Storing<'b, ()>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let mut book = self.logins.read()?;
            match book.remove(&self.server) {
                Some(_) => self.logins.write(&book),
                None => Ok(()),
            }
        })
    }

    fn acquire_refresh_guard<'a, 'b>(&'a self) -> Storing<'b, Option<CredentialRefreshGuard>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            files::create_private_dir(&self.logins.home).map_err(|error| failed(&error))?;
            let path = self.logins.home.join(LOCK);
            let locking = async {
                loop {
                    match lock_exclusive(&path).map_err(|error| failed(&error))? {
                        Lock::Acquired(lock) => return Ok(Some(CredentialRefreshGuard::new(lock))),
                        // The system tells nobody without a thread that waits.
                        Lock::Held { .. } => tokio::time::sleep(RENEW_LOOK).await,
                    }
                }
            };
            let locked = tokio::time::timeout(RENEW_MAX, locking).await;
            locked.unwrap_or_else(|_| {
                let words = "another process has been renewing a token for too long";
                Err(AuthError::CredentialStoreError(words.to_owned()))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn credentials(client: &str) -> StoredCredentials {
        StoredCredentials::new(client.to_owned(), None, Vec::new(), None)
    }

    #[tokio::test]
    async fn each_server_has_its_login_in_a_file_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::of_home(folder.path().join("home"));
        let (one, other) = (logins.of("http://one/mcp"), logins.of("http://other/mcp"));
        assert!(one.load().await.unwrap().is_none());
        one.save(credentials("a")).await.unwrap();
        other.save(credentials("b")).await.unwrap();
        assert_eq!(one.load().await.unwrap().unwrap().client_id, "a");
        let mode = std::fs::metadata(logins.file()).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert!(logins.forget("http://one/mcp").await.unwrap());
        assert!(!logins.forget("http://one/mcp").await.unwrap());
        assert_eq!(other.load().await.unwrap().unwrap().client_id, "b");
    }

    #[tokio::test]
    async fn one_at_a_time_renews() {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::of_home(folder.path());
        let login = logins.of("http://one/mcp");
        let first = login.acquire_refresh_guard().await.unwrap();
        let second = login.acquire_refresh_guard();
        tokio::pin!(second);
        let waits = tokio::time::timeout(Duration::from_millis(200), &mut second).await;
        assert!(waits.is_err());
        drop(first);
        assert!(second.await.unwrap().is_some());
    }
}
