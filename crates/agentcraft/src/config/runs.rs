//! The table `[runs]` of `config.toml`: whom the runs API reads histories from, and where it keeps what runs leave.

use std::{collections::BTreeSet, fmt, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::Deserialize;

/// What the file says; nothing where it is silent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunsTable {
    /// Addresses below which the history of a caller's session may be read.
    pub(crate) history_from: Vec<String>,
    /// A folder for people, perhaps on a share, with what agents hand over under readable names.
    pub(crate) dropbox: Option<PathBuf>,
    /// How others name that folder.
    pub(crate) dropbox_uri: Option<String>,
    /// Agents whose sessions go on although the caller did not ask for one.
    pub(crate) persistent: BTreeSet<String>,
    /// How long a run may work, an answer may take, and a session lives after its last run.
    pub(crate) work_minutes: Option<NonZeroU32>,
    pub(crate) answer_hours: Option<NonZeroU32>,
    pub(crate) session_minutes: Option<NonZeroU32>,
    /// The largest object of the exchange, all of them together, and how long each is kept.
    pub(crate) object_mib: Option<NonZeroU32>,
    pub(crate) quota_mib: Option<NonZeroU32>,
    pub(crate) keep_days: Option<NonZeroU32>,
    /// A bucket for the files of the exchange; a folder of the home unless set.
    pub(crate) s3: Option<Bucket>,
}

/// A bucket of anything that speaks S3.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bucket {
    pub(crate) bucket: String,
    /// Such as `http://nas.local:9000`; absent for AWS itself.
    pub(crate) endpoint: Option<String>,
    #[serde(default = "region")]
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

/// What servers other than AWS take for any region.
fn region() -> String {
    "us-east-1".to_owned()
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("bucket", &self.bucket)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key", &"***")
            .field("secret_key", &"***")
            .finish()
    }
}

const MIB: u64 = 1024 * 1024;

impl RunsTable {
    /// How long the work and the waiting of a run may take.
    pub(crate) fn limits(&self) -> domain::run::Limits {
        domain::run::Limits {
            work: times(self.work_minutes, 60).unwrap_or(runs::WORK),
            answer: times(self.answer_hours, 60 * 60).unwrap_or(runs::ANSWER),
        }
    }

    pub(crate) fn session_ttl(&self) -> Duration {
        times(self.session_minutes, 60).unwrap_or(runs::SESSION_TTL)
    }

    /// Where deliverables and histories are kept; `folder` is the place without a bucket.
    pub(crate) fn exchange(&self, folder: PathBuf) -> runs::ExchangeConfig {
        let mut exchange = runs::ExchangeConfig::folder(folder);
        if let Some(bucket) = self.s3.clone() {
            exchange.place = runs::Place::S3(runs::S3 {
                bucket: bucket.bucket,
                endpoint: bucket.endpoint,
                region: bucket.region,
                access_key: bucket.access_key,
                secret_key: bucket.secret_key,
            });
        }
        if let Some(mib) = self.object_mib {
            exchange.object_max = u64::from(mib.get()) * MIB;
        }
        if let Some(mib) = self.quota_mib {
            exchange.quota = u64::from(mib.get()) * MIB;
        }
        exchange.keep = times(self.keep_days, 24 * 60 * 60).unwrap_or(exchange.keep);
        exchange.dropbox = self.dropbox.clone().map(|dir| runs::Dropbox {
            dir,
            uri: self.dropbox_uri.clone(),
        });
        exchange
    }
}

fn times(number: Option<NonZeroU32>, seconds: u64) -> Option<Duration> {
    number.map(|number| Duration::from_secs(u64::from(number.get()) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_the_place_and_its_keys_are_not_shown() {
        let table: RunsTable = toml::from_str(
            "dropbox = \"/mnt/share\"\n[s3]\nbucket = \"b\"\naccess_key = \"AK\"\nsecret_key = \"hush\"",
        )
        .unwrap();
        let shown = format!("{table:?}");
        assert!(!shown.contains("hush") && !shown.contains("AK"), "{shown}");
        let exchange = table.exchange(PathBuf::from("/home/exchange"));
        let runs::Place::S3(s3) = exchange.place else {
            panic!("{:?}", exchange.place);
        };
        assert_eq!((s3.bucket.as_str(), s3.region.as_str()), ("b", "us-east-1"));
        assert_eq!(exchange.dropbox.unwrap().dir, PathBuf::from("/mnt/share"));
        let table: RunsTable = toml::from_str(
            "object_mib = 2048\nkeep_days = 1\nwork_minutes = 5\nsession_minutes = 1",
        )
        .unwrap();
        let exchange = table.exchange(PathBuf::from("/home/exchange"));
        assert_eq!(
            (exchange.object_max, exchange.keep.as_secs()),
            (2 << 30, 86_400)
        );
        let limits = table.limits();
        assert_eq!((limits.work.as_secs(), limits.answer), (300, runs::ANSWER));
        assert_eq!(table.session_ttl().as_secs(), 60);
        toml::from_str::<RunsTable>("object_mib = 0").unwrap_err();
        let plain = RunsTable::default().exchange(PathBuf::from("/home/exchange"));
        assert!(matches!(plain.place, runs::Place::Folder(_)));
    }
}
