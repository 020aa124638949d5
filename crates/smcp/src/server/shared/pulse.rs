//! Signs of life: this server says that it is there, and notices who is not any more.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    Audience, BEAT_EVERY, LEASE, SETTLING, Shared,
    post::{Parcel, left},
};
use crate::server::relay::Relay;

pub(super) fn start(relay: &Arc<Relay>, shared: Arc<Shared>) {
    relay.tasks.spawn(|stop| async move {
        let mut beats = interval(BEAT_EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => break,
                _ = beats.tick() => {}
            }
            tokio::select! { biased;
                () = stop.cancelled() => break,
                () = shared.beat() => {}
            }
        }
    });
}

impl Shared {
    /// One sign of life, which is also what finds a Redis that has come back.
    pub(super) async fn beat(&self) {
        let Ok(beat) = self.noted(self.record.beat(LEASE).await, "give a sign of life") else {
            self.post.set_behind();
            return;
        };
        if !beat.was_known {
            self.settle_down();
        }
        if !self.is_reachable.swap(true, Ordering::SeqCst) {
            tracing::info!("the other office servers can be reached again");
        }
        for (office, entry) in beat.gone {
            tracing::warn!(%office, name = entry.name, server = entry.server, "a member has gone with its server");
            if let Some(member) = entry.member(&office) {
                // Those here hear it too; should it fail, the next request to this member says so.
                let _ = self.tell(&left(member), Audience::Everywhere).await;
            }
        }
        if !beat.was_known || self.post.is_behind() {
            self.post.put(Parcel::Restore);
        }
    }

    /// A record that does not know this server may not know the others' members either, unless this is the beginning.
    fn settle_down(&self) {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        *settled = Some(match *settled {
            None => now,
            Some(_) => now + SETTLING,
        });
    }

    /// Waits until the others have had time to write down who sits where.
    pub(super) async fn settled(&self) {
        let settled = *self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(settled) = settled {
            tokio::time::sleep_until(settled).await;
        }
    }
}
