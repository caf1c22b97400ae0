//! Changes of an account's state: applied once when they happen, and again when the journal is replayed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{ListId, RecordId, SubscriptionId},
    lists::List,
    objects::{ObjectType, Record},
    preferences::StoredStatus,
    properties::{PropertyDefinition, PropertyGroup},
};

/// One change; small, complete and safe to apply again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(crate) enum Change {
    /// A record was created, updated or archived.
    Record {
        object: ObjectType,
        record: Record,
    },
    /// A record is gone for good, and its address is refused from now on when it was erased for privacy.
    Gone {
        object: ObjectType,
        id: RecordId,
        blocked_email: Option<String>,
    },
    /// A merged-away id stands for its survivor.
    Alias {
        object: ObjectType,
        from: RecordId,
        to: RecordId,
    },
    Property {
        object: ObjectType,
        definition: PropertyDefinition,
    },
    Group {
        object: ObjectType,
        group: PropertyGroup,
    },
    /// The status of an address for one subscription type.
    Status {
        email: String,
        subscription_id: SubscriptionId,
        status: StoredStatus,
    },
    /// The address opted out of everything, or no longer.
    Everything {
        email: String,
        opted_out_at: Option<Timestamp>,
    },
    /// A list was created, or replaced.
    List {
        list: List,
    },
    Members {
        list_id: ListId,
        added: Vec<RecordId>,
        removed: Vec<RecordId>,
        at: Timestamp,
    },
}
