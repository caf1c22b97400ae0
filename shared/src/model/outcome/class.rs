//! The classes an answer can fall into.

use std::fmt;

/// What kind of answer it was. A class says nothing about attempts or time; that is the decision's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// 429: one of the portal's limits is used up.
    RateLimited(LimitPolicy),
    /// 423: another write holds the record. The lock lasts about two seconds.
    Locked,
    /// 477: the account is being moved between data centres, for up to a day.
    Migrating,
    /// No outcome is known and the same call may succeed later: 5xx, time limit, reset, HTML for JSON.
    Temporary,
    /// 401: the access token was not accepted.
    Credential(CredentialProblem),
    /// The portal or the mapping is wrong: a scope, property, option, list or subscription type. Time does not heal it.
    ///
    /// As the answer to a whole batch it concerns the rows that carry `named.property`, or every row when none is named.
    Configuration,
    /// One row carries a value that HubSpot refuses.
    RowInvalid,
    /// A whole batch was refused and nothing was written, because of some of its rows. The caller splits: first by what
    /// the refusal names, else by halves.
    WholeBatchInvalid,
    /// Another record holds the identity: find it, link it, update it.
    Conflict,
    /// The record does not exist under this id (any more): deleted, or merged into another.
    Gone,
    /// HubSpot refuses to subscribe because the person opted out.
    OptedOut,
}

impl Class {
    /// Stable name in snake case, for metrics, logs and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimited(_) => "rate_limited",
            Self::Locked => "locked",
            Self::Migrating => "migrating",
            Self::Temporary => "temporary",
            Self::Credential(_) => "credential",
            Self::Configuration => "configuration",
            Self::RowInvalid => "row_invalid",
            Self::WholeBatchInvalid => "whole_batch_invalid",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::OptedOut => "opted_out",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Which limit a 429 speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitPolicy {
    /// Calls in one second (search has such a limit).
    Secondly,
    /// The rolling window of ten seconds.
    TenSecondly,
    /// The account's day, which ends at midnight in the account's time zone.
    Daily,
    /// The answer does not say; treated like the ten seconds, the limit met most often.
    Unknown,
}

impl LimitPolicy {
    /// Stable code of a refusal by this limit.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Secondly => "rate_limited_secondly",
            Self::TenSecondly => "rate_limited_ten_secondly",
            Self::Daily => "rate_limited_daily",
            Self::Unknown => "rate_limited",
        }
    }
}

/// Why an access token was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialProblem {
    /// HubSpot says that it expired (`EXPIRED_AUTHENTICATION`): a refresh helps.
    Expired,
    /// Anything else: a refresh with the same grant is no promise.
    Invalid,
}
