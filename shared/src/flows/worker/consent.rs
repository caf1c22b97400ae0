//! Whether a subscription may be written: not over an opt-out that is newer than the consent, be it read now or reported before.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::adapters::db::{self, DbFailure, OptOut, OptOutQuery, PortalSettings, StartedReceipt};
use crate::adapters::hubspot::{CALL_TIME_LIMIT, SubscriptionState, SubscriptionStatus};
use crate::failpoint::{failpoint, scaled};
use crate::model::ids::ContactKey;
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

/// Opt-outs that HubSpot reported, by contact and subscription type.
type Reports = HashMap<(ContactKey, i64), Timestamp>;

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
        let reports = self.reported_opt_outs(portal, plan).await;
        let findings: Vec<(&StatusChange, Finding<'_>, Option<Timestamp>)> = plan
            .statuses
            .iter()
            .map(|change| match &reports {
                Err(_) if change.state == DesiredState::Subscribed => {
                    (change, Finding::Unknown(&OperationResult::Unknown), None)
                }
                Err(_) => (change, finding(change, &statuses), None),
                Ok(reports) => (change, finding(change, &statuses), report(change, reports, &statuses)),
            })
            .collect();
        let ours = self.own_opt_outs(portal, &findings).await;
        let (mut write, mut settled) = (Vec::new(), Results::new());
        for (change, finding, report) in findings {
            // A read may lag behind what was reported; a report may be about what we wrote.
            let finding = match (report, &ours) {
                (Some(at), Ok(ours)) if is_ours(portal, change, Some(at), ours, CLOCK_SKEW) => finding,
                (Some(at), _) => Finding::OptOut(Some(at)),
                (None, _) => finding,
            };
            match finding {
                Finding::Write => write.push(change),
                Finding::AlreadySo => settled.push((change.operation.clone(), OperationResult::Done(Done::default()))),
                Finding::Unknown(result) => settled.push((change.operation.clone(), result.clone())),
                Finding::OptOut(at) => match &ours {
                    Err(_) => settled.push((change.operation.clone(), OperationResult::Unknown)),
                    Ok(ours) if is_ours(portal, change, at, ours, SignedDuration::ZERO) => write.push(change),
                    Ok(_) => settled.push((change.operation.clone(), OperationResult::RemoteOptOut)),
                },
            }
        }
        self.note_opt_outs(portal, write, settled, lease).await
    }

    /// Asked only when there is a consent to be written.
    async fn reported_opt_outs(&self, portal: &PortalSettings, plan: &Plan) -> Result<Reports, DbFailure> {
        let consents = plan.statuses.iter().filter(|change| change.state == DesiredState::Subscribed);
        let asked: Vec<(&ContactKey, i64)> =
            consents.map(|change| (&change.operation.contact_key, change.subscription_type)).collect();
        if asked.is_empty() {
            return Ok(Reports::new());
        }
        let connection = self.db.connection().await?;
        let reported = db::reported_opt_outs(&*connection, portal.portal_id, &asked).await?;
        Ok(reported.into_iter().map(|report| ((report.contact_key, report.subscription_type), report.at)).collect())
    }

    /// Asked only when an opt-out stands against a consent.
    async fn own_opt_outs(
        &self,
        portal: &PortalSettings,
        findings: &[(&StatusChange, Finding<'_>, Option<Timestamp>)],
    ) -> Result<HashMap<OptOutQuery, Vec<OptOut>>, DbFailure> {
        let queries: Vec<OptOutQuery> = findings
            .iter()
            .filter(|(_, finding, report)| report.is_some() || matches!(finding, Finding::OptOut(_)))
            .map(|(change, ..)| query(portal, change))
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

/// A reported opt-out counts unless the consent is newer, or HubSpot says that the person subscribed again since.
fn report(change: &StatusChange, reports: &Reports, statuses: &Statuses) -> Option<Timestamp> {
    let at = *reports.get(&(change.operation.contact_key.clone(), change.subscription_type))?;
    let is_newer = change.consent.as_ref().is_some_and(|consent| at < consent.given_at);
    let known = statuses.get(&(change.business_unit, change.email.clone())).and_then(|known| known.as_ref().ok());
    let is_back = known.into_iter().flatten().any(|status| {
        status.subscription_id == change.subscription_type
            && status.status == SubscriptionState::Subscribed
            && status.timestamp.is_some_and(|since| since > at)
    });
    (change.state == DesiredState::Subscribed && !is_newer && !is_back).then_some(at)
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
/// A report of it may have an instant of its own, this far from HubSpot's answer.
fn is_ours(
    portal: &PortalSettings,
    change: &StatusChange,
    at: Option<Timestamp>,
    ours: &HashMap<OptOutQuery, Vec<OptOut>>,
    apart: SignedDuration,
) -> bool {
    let (Some(at), Some(written)) = (at, ours.get(&query(portal, change))) else { return false };
    let call = SignedDuration::try_from(scaled(CALL_TIME_LIMIT)).unwrap_or(SignedDuration::ZERO);
    written.iter().filter(|opt_out| opt_out.accepted_at < change.accepted_at).any(|opt_out| {
        let lost = |started: Timestamp| (started - CLOCK_SKEW..=started + call + CLOCK_SKEW).contains(&at);
        let named = |remote_at| (remote_at - apart..=remote_at + apart).contains(&at);
        opt_out.remote_at.map_or_else(|| lost(opt_out.started_at), named)
            || opt_out.earlier_starts.iter().copied().any(lost)
    })
}
