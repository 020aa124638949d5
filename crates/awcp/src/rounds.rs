//! Rounds: another task on the same terms, in the same folder, with the same peer; and the end of it all.

use domain::delegation::DelegationId;

use crate::{Create, DelegationError, DelegationView, Delegations, Secrets, SnapshotStatus};

impl Delegations {
    /// Begins the next round of a delegation that has ended. What the last one changed is there, unless it waits.
    pub async fn go_on(&self, id: &str, prompt: String) -> Result<DelegationId, DelegationError> {
        let record = self.host_record(id).await?;
        let refuse = |why: &str| DelegationError::NoFurtherRound {
            id: id.to_owned(),
            why: why.to_owned(),
        };
        if !record.machine.phase().is_end() {
            return Err(refuse("it has not ended"));
        }
        let status = record.snapshot.as_ref().map(|snapshot| snapshot.status);
        if status == Some(SnapshotStatus::Pending) {
            return Err(refuse("its changes wait: apply or discard them first"));
        }
        let offer = record.machine.offer();
        let create = Create {
            peer_url: record.peer_url,
            token: record.token,
            dir: record.dir,
            description: None,
            prompt,
            access: offer.access,
            ttl: offer.ttl,
            transports: offer.transports.clone(),
            quota_bytes: Some(record.quota_bytes),
            // What may be lent is asked anew: files may have come since.
            secrets: Secrets::Refuse,
            keeping: record.keeping,
            continues: Some(id.to_owned()),
            // Another round of the same work.
            trace: record.trace,
            chain: record.chain,
        };
        self.create(create).await
    }

    /// Ends it for good: what runs is cancelled, what waits is discarded.
    pub async fn close(&self, id: &str) -> Result<DelegationView, DelegationError> {
        self.cancel(id, "it was closed").await?;
        let record = self.host_record(id).await?;
        let status = record.snapshot.as_ref().map(|snapshot| snapshot.status);
        if status == Some(SnapshotStatus::Pending) {
            self.discard_snapshot(id).await?;
        }
        self.get(id).await
    }
}
