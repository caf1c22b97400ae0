//! What goes into a decision, and what can come out of it.

use jiff::Timestamp;

use super::{LimitPolicy, Refusal};

/// Attempts before an event is dead. With the backoff of [`decide`](super::decide()), twelve of them span about a day: longer than a night's
/// outage, shorter than a week-end in which nobody notices.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 12;

/// What HubSpot said about one event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer<'a> {
    /// It was done.
    Done,
    /// It was refused.
    Refused(&'a Refusal),
    /// Nothing was said about it.
    Unknown,
}

/// What is known about the event when its answer arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Attempts counted so far, this one excluded.
    pub process_attempts: u32,
    /// Attempts that may be made in all.
    pub max_attempts: u32,
    /// Whether the portal's token was refreshed in this attempt already.
    pub credential_refreshed: bool,
    /// When the portal's daily limit starts anew, if the usage endpoint told.
    pub daily_reset: Option<Timestamp>,
}

impl Attempt {
    /// The first attempt under the default limit.
    #[must_use]
    pub fn first() -> Self {
        Self { process_attempts: 0, max_attempts: DEFAULT_MAX_ATTEMPTS, credential_refreshed: false, daily_reset: None }
    }
}

/// What happens to the event, and to its portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Synced.
    Complete,
    /// Tried again; one attempt is counted.
    RetryAt {
        /// When it is due.
        at: Timestamp,
    },
    /// Waits; no attempt is counted.
    SnoozeUntil {
        /// When it is due.
        at: Timestamp,
        /// For what it waits.
        reason: SnoozeReason,
    },
    /// The portal's budget is frozen for everybody and the event waits; no attempt is counted.
    Freeze {
        /// Which bucket.
        policy: LimitPolicy,
        /// End of the freeze.
        until: Timestamp,
        /// When this event is due: a little after the end, spread so that not all return at once.
        resume_at: Timestamp,
    },
    /// The portal is paused and the event waits; no attempt is counted.
    PausePortal {
        /// End of the pause.
        until: Timestamp,
        /// Why; the reason tells whether to alarm.
        reason: PauseReason,
    },
    /// The token is refreshed and the call made once more; no attempt is counted.
    RefreshCredential,
    /// The batch is split: first by what the refusal names, else by halves. No attempt is counted.
    Split,
    /// The record is looked up, linked and written again. The caller counts an attempt, since nothing else bounds it.
    Resolve(ResolveReason),
    /// Over: HubSpot knew better.
    Superseded {
        /// What HubSpot knew.
        reason: SupersededReason,
    },
    /// Over: a person has to look.
    Dead {
        /// The refusal's code, or `attempts_exhausted`.
        code: String,
    },
}

/// For what an event waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnoozeReason {
    /// Another write holds the record.
    RecordLocked,
}

/// Why a portal is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseReason {
    /// The account is being moved between data centres; it ends by itself.
    Migrating,
    /// The token is not accepted; a person has to act.
    CredentialRefused,
}

impl PauseReason {
    /// Whether a person is told.
    #[must_use]
    pub fn alarms(self) -> bool {
        match self {
            Self::Migrating => false,
            Self::CredentialRefused => true,
        }
    }

    /// Stable code, stored with the pause.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Migrating => "migrating",
            Self::CredentialRefused => "credential_refused",
        }
    }
}

/// Why a record is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResolveReason {
    /// Another record holds the identity.
    Conflict,
    /// The record is gone under the id we knew.
    Gone,
}

/// What HubSpot knew better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SupersededReason {
    /// The person opted out in HubSpot.
    RemoteOptOut,
}

impl SupersededReason {
    /// Stable code, stored with the event.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::RemoteOptOut => "remote_opt_out",
        }
    }
}
