//! How servers reach each other's connections: the Socket.IO library's adapter over Redis, or nothing at all.
//!
//! One type serves both, so that nothing else has to know. Whatever stays on this server never passes through here.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use redis::{
    Client, FromRedisValue, PushInfo, PushKind, RedisError, RedisResult, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use socketioxide::adapter::Emitter;
use socketioxide_redis::{
    CustomRedisAdapter, RedisAdapterConfig, RedisAdapterCtr,
    drivers::{ChanItem, Driver, MessageStream},
};
use tokio::sync::mpsc;

/// How long a connection to Redis may take.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// How long the record has to answer: it is near, and whoever asks for a place waits.
const RECORD_ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long a message may take to be passed on, behind all those before it: one that is given up is lost.
const MESSAGE_MAX: Duration = Duration::from_secs(20);

/// Messages of other servers that wait to be taken: every request that a few full connections may have open, with its
/// answer. What is beyond is lost, and its request times out.
const MESSAGES_MAX: usize = 16 * 1024;

/// Answers that wait for one request: it goes to one connection.
const ANSWERS_MAX: usize = 8;

pub(super) type Adapter = CustomRedisAdapter<Emitter, Wire>;
pub(super) type SocketIo = socketioxide::SocketIo<Adapter>;
pub(super) type SocketRef = socketioxide::extract::SocketRef<Adapter>;
pub(super) type AckSender = socketioxide::extract::AckSender<Adapter>;

/// What the adapter sends its messages through.
#[derive(Clone)]
pub(super) enum Wire {
    /// There are no other servers.
    Alone,
    Redis(Redis),
}

/// Connections that are made again by themselves, with their subscriptions.
#[derive(Clone)]
pub(super) struct Redis {
    /// For the record, so that it does not wait behind messages.
    pub(super) record: ConnectionManager,
    messages: ConnectionManager,
    listening: Listening,
}

type Listening = Arc<RwLock<HashMap<String, mpsc::Sender<ChanItem>>>>;

impl Wire {
    /// The adapter's state; `prefix` keeps apart those who use the same Redis for something else.
    pub(super) fn adapter(self, prefix: String) -> RedisAdapterCtr<Self> {
        let config = RedisAdapterConfig::new()
            .with_prefix(prefix)
            .with_ack_response_buffer(ANSWERS_MAX)
            .with_stream_buffer(MESSAGES_MAX);
        RedisAdapterCtr::new_with_driver(self, config)
    }
}

impl Redis {
    /// Connects; a Redis that is lost later is looked for with each command.
    pub(super) async fn connect(client: Client) -> RedisResult<Self> {
        let listening = Listening::default();
        let hearing = Arc::clone(&listening);
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0) // Whoever asks is told at once, and the next command tries again.
            .set_connection_timeout(Some(CONNECT_MAX));
        let record = config.clone().set_response_timeout(Some(RECORD_ANSWER_MAX));
        let messages = config
            .set_response_timeout(Some(MESSAGE_MAX))
            .set_push_sender(move |push| {
                hear(&hearing, push);
                Ok::<(), Infallible>(())
            })
            .set_automatic_resubscription();
        Ok(Self {
            record: ConnectionManager::new_with_config(client.clone(), record).await?,
            messages: ConnectionManager::new_with_config(client, messages).await?,
            listening,
        })
    }
}

fn hear(listening: &Listening, push: PushInfo) {
    if push.kind != PushKind::Message {
        return;
    }
    let mut parts = push.data.into_iter();
    let (Some(channel), Some(message)) = (parts.next(), parts.next()) else {
        return;
    };
    let (Ok(channel), Ok(message)) = (
        String::from_redis_value(channel),
        Vec::<u8>::from_redis_value(message),
    ) else {
        tracing::warn!("another server has sent what is not a message");
        return;
    };
    let listening = listening.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(listener) = listening.get(&channel)
        && listener.try_send((channel, message)).is_err()
    {
        tracing::warn!("other servers send more than can be taken: a message is lost");
    }
}

impl Driver for Wire {
    type Error = RedisError;

    async fn publish(&self, channel: String, message: Vec<u8>) -> Result<(), RedisError> {
        let Self::Redis(redis) = self else {
            return Ok(());
        };
        let mut command = redis::cmd("PUBLISH");
        command.arg(channel).arg(message);
        let _: Value = command.query_async(&mut redis.messages.clone()).await?;
        Ok(())
    }

    async fn subscribe(
        &self,
        channel: String,
        size: usize,
    ) -> Result<MessageStream<ChanItem>, RedisError> {
        let Self::Redis(redis) = self else {
            return Ok(MessageStream::new_empty());
        };
        let (sending, messages) = mpsc::channel(size);
        // It is there before the first message can be.
        redis
            .listening
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(channel.clone(), sending);
        redis.messages.clone().subscribe(channel).await?;
        Ok(MessageStream::new(messages))
    }

    async fn unsubscribe(&self, channel: String) -> Result<(), RedisError> {
        let Self::Redis(redis) = self else {
            return Ok(());
        };
        redis
            .listening
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&channel);
        redis.messages.clone().unsubscribe(channel).await
    }

    async fn num_serv(&self, channel: &str) -> Result<u16, RedisError> {
        let Self::Redis(redis) = self else {
            return Ok(1);
        };
        let mut command = redis::cmd("PUBSUB");
        command.arg("NUMSUB").arg(channel);
        let (_, servers): (String, u16) = command.query_async(&mut redis.messages.clone()).await?;
        Ok(servers)
    }
}
