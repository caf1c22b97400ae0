//! PostgreSQL: the only place for SQL and for its driver.
//!
//! One function a statement, one round trip a function. Statements are sent unnamed (`query_typed`), so that they work
//! through any pooler. Every statement has a time limit, and no transaction stays open between two of them.

mod accepting;
mod batch;
mod configuration;
mod conflict;
mod echoes;
mod erasing;
mod events;
mod failure;
mod migrations;
mod notifications;
mod outbox;
mod pool;
mod portals;
mod projection;
mod reports;
mod rules;
mod webhooks;

pub use accepting::{
    AcceptAnswer, AcceptFault, Accepted, RequestStatus, accept_subscriptions, request_status, token_brands,
};
pub use batch::{
    ClaimedBatch, ContactRelease, FinishedEvent, FoundKey, Holder, LinkChange, OptOut, OptOutQuery, PortalSettings,
    Receipt, ReceiptStatus, Renewed, StartedReceipt, UnreadableEvent, Verdict, VerdictStatus, claim_batch,
    claim_suspects, defer_suspects, finish_batch, meet_holders, own_opt_outs, renew_leases, start_receipts,
};
pub use configuration::{
    MappingVersion, NewPortal, activate_mapping, brand_portal, create_token, ensure_portal, ensure_product,
    portal_call_limit, portal_settings, push_first_mapping, push_mapping,
};
pub use conflict::{Conflicting, again_after_conflict};
pub use echoes::{WrittenValue, forget_written_values, note_written};
pub use erasing::{
    EraseFailure, ErasedContact, ErasureEvent, ErasurePreview, FoundRecord, bury_contact_records, erase_contact,
    preview_erasure, records_in_use, wipe_erased,
};
pub use events::{
    ChangedEvent, EventCount, EventFilter, ListedEvent, MOST_CHANGED, Refused, ReplayedMapping, cancel_events,
    count_open_events, judge_cancels, judge_replays, list_finished_events, list_open_events, replay_events, show_event,
};
pub use failure::DbFailure;
pub use migrations::{MigrationSummary, migrate};
pub use notifications::{
    ListedNotification, NotificationCount, NotificationFilter, ReplayPlace, ReplayedPage, UnreadableNotification,
    count_notifications, list_notifications, replay_notifications, show_delivery, show_notification, take_up_parsed,
    unreadable_notifications,
};
pub use outbox::{
    DueEvent, Rescued, Unpublished, claim_due, mark_queued, republish_orphans, rescue_expired, return_unpublished,
};
pub use pool::{Connection, Db};
pub use portals::{Resumed, pause_portal, pause_portal_until, resume_portal};
pub use projection::{
    OwedRead, OwedValue, Projected, ReportedOptOut, SettledRead, apply_webhook_deliveries, erase_crm_records,
    reported_opt_outs, settle_crm_reads,
};
pub use reports::{PortalStatus, database_identity, status_counts};
pub use rules::{
    ChangeFact, ChangeFacts, PushedRules, Reaction, ReactionStored, RulesVersion, StoredEffect, facts_of_changes,
    list_rules, push_rules, store_reaction,
};
pub use webhooks::{
    NewDelivery, StoredDelivery, delete_webhook_deliveries, forget_webhook_bodies, store_webhook_delivery,
};
