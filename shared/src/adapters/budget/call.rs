//! The scripts, and one call of one of them.

use std::{
    collections::HashMap,
    fmt::Display,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use redis::{Cmd, FromRedisValue, ParsingError, Value, cmd};

use crate::model::budget::Bucket;

/// Every script, each with the head that they share.
pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);

/// One script a verb.
pub(super) struct Scripts {
    pub(super) reserve: Script,
    pub(super) confirm: Script,
    pub(super) settle: Script,
    pub(super) release: Script,
    pub(super) freeze: Script,
    pub(super) resume: Script,
    pub(super) pin: Script,
    pub(super) observe: Script,
    pub(super) reset: Script,
    pub(super) inspect: Script,
}

impl Scripts {
    fn new() -> Self {
        Self {
            reserve: Script::new(include_str!("reserve.lua")),
            confirm: Script::new(include_str!("confirm.lua")),
            settle: Script::new(include_str!("settle.lua")),
            release: Script::new(include_str!("release.lua")),
            freeze: Script::new(include_str!("freeze.lua")),
            resume: Script::new(include_str!("resume.lua")),
            pin: Script::new(include_str!("pin.lua")),
            observe: Script::new(include_str!("observe.lua")),
            reset: Script::new(include_str!("reset.lua")),
            inspect: Script::new(include_str!("inspect.lua")),
        }
    }
}

/// The text of a script, and the hash by which Redis knows it once it has run.
pub(super) struct Script {
    body: String,
    hash: String,
}

impl Script {
    fn new(verb: &str) -> Self {
        let body = format!("{}\n{verb}", include_str!("window.lua"));
        let hash = redis::Script::new(&body).get_hash().to_owned();
        Self { body, hash }
    }
}

/// A script with its key and arguments.
pub(super) struct Call {
    pub(super) bucket: Bucket,
    script: &'static Script,
    arguments: Vec<String>,
}

impl Call {
    /// A call on the bucket's one key.
    pub(super) fn new(script: &'static Script, bucket: &Bucket) -> Self {
        Self { bucket: *bucket, script, arguments: Vec::new() }
    }

    /// Adds an argument.
    pub(super) fn arg(&mut self, value: impl Display) -> &mut Self {
        self.arguments.push(value.to_string());
        self
    }

    /// The command that names the script by its hash, which is enough nearly always.
    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    /// The command that brings the script along.
    pub(super) fn with_body(&self) -> Cmd {
        self.command("EVAL", &self.script.body)
    }

    /// Buckets of a portal share a hash tag, so that a cluster keeps them together.
    fn command(&self, name: &str, script: &str) -> Cmd {
        let key = format!("hubferry:budget:{{{}}}:{}", self.bucket.portal_id, self.bucket.name.as_str());
        let mut command = cmd(name);
        command.arg(script).arg(1).arg(key).arg(&self.arguments);
        command
    }
}

/// A bucket as an answer showed it, in microseconds of Redis' clock; zeros where nothing is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// When its value came to be.
    pub(super) birth: u64,
    /// When the answer was given.
    pub(super) clock: u64,
    /// When the last token known then ends.
    pub(super) last_end: u64,
}

/// What this process knows of each bucket's birth, so that the scripts notice when Redis has lost one. It holds an entry
/// for each bucket used, which is two a portal.
#[derive(Debug, Clone, Default)]
pub(super) struct Births(Arc<Mutex<HashMap<Bucket, Seen>>>);

impl Births {
    /// What is known of the bucket.
    pub(super) fn known(&self, bucket: &Bucket) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(bucket).copied().unwrap_or_default()
    }

    /// Keeps what an answer told; one without a birth tells nothing.
    pub(super) fn remember(&self, bucket: Bucket, seen: Seen) {
        if seen.birth > 0 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(bucket, seen);
        }
    }
}

/// An answer of a script: what the bucket looked like, then what the verb says.
pub(super) struct Answer<T> {
    pub(super) seen: Seen,
    pub(super) content: T,
}

impl<T: FromRedisValue> FromRedisValue for Answer<T> {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut items = Vec::<Value>::from_redis_value(value)?;
        let content = T::from_redis_value(Value::Array(items.split_off(items.len().min(3))))?;
        let (birth, clock, last_end) = FromRedisValue::from_redis_value(Value::Array(items))?;
        Ok(Self { seen: Seen { birth, clock, last_end }, content })
    }
}
