//! Tokens for nodes that pair with this one.

use std::{collections::BTreeSet, time::Duration};

use engine::Rights;
use lan::{Grants, Issued, PortFuture};
use listener::{NewToken, Tokens};

/// Makes and ends them.
pub(super) struct NodeGrants(pub(super) Tokens);

impl Grants for NodeGrants {
    fn issue(
        &self,
        name: String,
        rights: BTreeSet<String>,
        lifetime: Option<Duration>,
    ) -> PortFuture<Result<Issued, String>> {
        let tokens = self.0.clone();
        Box::pin(async move {
            let new = NewToken {
                name,
                rights: Rights::Only(rights),
                lifetime,
            };
            let (view, token) = tokens.issue(new).await.map_err(|error| error.to_string())?;
            Ok(Issued {
                token_id: view.id,
                token,
            })
        })
    }

    fn revoke(&self, token_id: String) -> PortFuture<Result<(), String>> {
        let tokens = self.0.clone();
        Box::pin(async move {
            match tokens.revoke(&token_id).await {
                Ok(()) | Err(listener::TokenError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
