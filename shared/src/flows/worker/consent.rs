//! Whether a subscription may be written: not over an opt-out that is newer than the consent.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::adapters::db::{self, DbFailure, OptOut, OptOutQuery, PortalSettings, StartedReceipt};
use crate::adapters::hubspot::{CALL_TIME_LIMIT, SubscriptionState, SubscriptionStatus};
use crate::failpoint::{failpoint, scaled};
use crate::model::plan::{Operation, Plan, StatusChange};
use crate::model::subscription::DesiredState;

use super::Worker;
use super::apply::{Results, Statuses};
use super::lease::Lease;
use super::verdict::{Done, OperationResult};

/// HubSpot's clock and PostgreSQL's may differ by this much when an opt-out of our own is recognised by its time alone.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(2);

/// What the status read says about one change.
enum Finding<'a> {
    /// HubSpot says so already.
    AlreadySo,
    /// Nothing speaks against it.
    Write,
    /// HubSpot has an opt-out that is not older than the consent, from this instant if it says so.
    OptOut(Option<Timestamp>),
    /// The status is not known.
    Unknown(&'a OperationResult),
}

impl Worker {
    /// Sorts the status changes of a plan into those to write and those that are settled without a call. Before an opt-out
    /// is written it is noted, so that a lost answer can be told from a person's own opt-out later.
    pub(super) async fn judge_consents<'a>(
        &self,
        portal: &PortalSettings,
        plan: &'a Plan,
        statuses: Statuses,
        lease: &Lease,
    ) -> (Vec<&'a StatusChange>, Results) {
        let findings: Vec<(&StatusChange, Finding<'_>)> =
            plan.statuses.iter().map(|change| (change, finding(change, &statuses))).collect();
        let ours = self.own_opt_outs(portal, &findings).await;
        let (mut write, mut settled) = (Vec::new(), Results::new());
        for (change, finding) in findings {
            match finding {
                Finding::Write => write.push(change),
                Finding::AlreadySo => settled.push((change.operation.clone(), OperationResult::Done(Done::default()))),
                Finding::Unknown(result) => settled.push((change.operation.clone(), result.clone())),
                Finding::OptOut(at) => match &ours {
                    Err(_) => settled.push((change.operation.clone(), OperationResult::Unknown)),
                    Ok(ours) if is_ours(portal, change, at, ours) => write.push(change),
                    Ok(_) => settled.push((change.operation.clone(), OperationResult::RemoteOptOut)),
                },
            }
        }
        self.note_opt_outs(portal, write, settled, lease).await
    }

    /// Asked only when an opt-out stands against a consent.
    async fn own_opt_outs(
        &self,
        portal: &PortalSettings,
        findings: &[(&StatusChange, Finding<'_>)],
    ) -> Result<HashMap<OptOutQuery, Vec<OptOut>>, DbFailure> {
        let queries: Vec<OptOutQuery> = findings
            .iter()
            .filter(|(_, finding)| matches!(finding, Finding::OptOut(_)))
            .map(|(change, _)| query(portal, change))
            .collect();
        let mut ours: HashMap<OptOutQuery, Vec<OptOut>> = HashMap::new();
        if !queries.is_empty() {
            let connection = self.db.connection().await?;
            for opt_out in db::own_opt_outs(&*connection, &queries).await? {
                ours.entry(opt_out.query.clone()).or_default().push(opt_out);
            }
        }
        Ok(ours)
    }

    /// Notes the opt-outs that are about to be written. If they can't be noted they are not written, but tried again.
    async fn note_opt_outs<'a>(
        &self,
        portal: &PortalSettings,
        write: Vec<&'a StatusChange>,
        mut settled: Results,
        lease: &Lease,
    ) -> (Vec<&'a StatusChange>, Results) {
        let (opt_outs, others): (Vec<_>, Vec<_>) =
            write.into_iter().partition(|change| change.state == DesiredState::Unsubscribed);
        let receipts: Vec<StartedReceipt> =
            opt_outs.iter().flat_map(|change| started_receipts(portal, &change.operation)).collect();
        if receipts.is_empty() {
            return (others, settled);
        }
        let noted = async {
            let connection = self.db.connection().await?;
            db::start_receipts(&*connection, lease.token, &receipts).await
        };
        match noted.await {
            Ok(_) => {
                failpoint!("worker.after_started_receipts");
                ([others, opt_outs].concat(), settled)
            }
            Err(error) => {
                tracing::warn!(portal.id = portal.portal_id.0, error = %error, "Opt-outs could not be noted, so they are not written yet.");
                settled.extend(opt_outs.iter().map(|change| (change.operation.clone(), OperationResult::Unknown)));
                (others, settled)
            }
        }
    }
}

/// A receipt for every event that waits for the operation.
pub(super) fn started_receipts(portal: &PortalSettings, operation: &Operation) -> Vec<StartedReceipt> {
    operation
        .events
        .iter()
        .map(|event| StartedReceipt {
            event_id: *event,
            operation_key: operation.key.clone(),
            portal_id: portal.portal_id,
            contact_key: operation.contact_key.clone(),
            desired_hash: operation.desired_hash,
        })
        .collect()
}

/// An opt-out is written without asking. A consent is compared with what HubSpot has; on a tie opting out wins, and an
/// opt-out without a time counts as newer.
fn finding<'a>(change: &StatusChange, statuses: &'a Statuses) -> Finding<'a> {
    if change.state == DesiredState::Unsubscribed {
        return Finding::Write;
    }
    let known = match statuses.get(&(change.business_unit, change.email.clone())) {
        Some(Ok(known)) => known,
        Some(Err(result)) => return Finding::Unknown(result),
        None => return Finding::Unknown(&OperationResult::Unknown),
    };
    match known.iter().find(|status| status.subscription_id == change.subscription_type) {
        Some(SubscriptionStatus { status: SubscriptionState::Subscribed, .. }) => Finding::AlreadySo,
        Some(SubscriptionStatus { status: SubscriptionState::Unsubscribed, timestamp, .. })
            if timestamp.is_none_or(|at| change.consent.as_ref().is_none_or(|consent| at >= consent.given_at)) =>
        {
            Finding::OptOut(*timestamp)
        }
        _ => Finding::Write,
    }
}

fn query(portal: &PortalSettings, change: &StatusChange) -> OptOutQuery {
    OptOutQuery {
        portal_id: portal.portal_id,
        contact_key: change.operation.contact_key.clone(),
        operation_key: format!("status:{}:unsubscribed", change.subscription_type),
    }
}

/// Ours if HubSpot's answer named this very instant, or if the answer was lost and the instant lies where that call did; and
/// if it was decided before the consent: of several products that share a subscription type, another one may have opted out since.
fn is_ours(
    portal: &PortalSettings,
    change: &StatusChange,
    at: Option<Timestamp>,
    ours: &HashMap<OptOutQuery, Vec<OptOut>>,
) -> bool {
    let (Some(at), Some(written)) = (at, ours.get(&query(portal, change))) else { return false };
    let call = SignedDuration::try_from(scaled(CALL_TIME_LIMIT)).unwrap_or(SignedDuration::ZERO);
    written.iter().filter(|opt_out| opt_out.accepted_at < change.accepted_at).any(|opt_out| {
        let lost = || opt_out.started_at - CLOCK_SKEW..=opt_out.started_at + call + CLOCK_SKEW;
        opt_out.remote_at.map_or_else(|| lost().contains(&at), |remote_at| remote_at == at)
    })
}
