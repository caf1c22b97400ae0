//! The points, armed by the environment once at the start of a process.

use std::borrow::Cow;
use std::collections::HashMap;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use uuid::Uuid;

use super::Guard;
use crate::config::Environment;
use crate::model::ids::EventId;
use crate::model::pacing::WORK_LEASE;

/// Every point there is, in the order of an event's way.
pub const NAMES: [&str; 12] = [
    "intake.after_commit",
    "dispatcher.after_claim",
    "dispatcher.after_send",
    "dispatcher.after_mark",
    "worker.after_claim",
    "worker.after_projection",
    "worker.after_reserve",
    "worker.after_call",
    "worker.after_started_receipts",
    "worker.before_finish",
    "worker.after_finish",
    "reconciler.while_rescuing",
];

/// Below this, a renewal or a statement that a busy machine delays would look like a dead owner.
pub const SHORTEST_LEASE: Duration = Duration::from_secs(2);

/// What the environment asked for.
#[derive(Debug)]
struct Armed {
    points: HashMap<&'static str, Point>,
    lease: Duration,
    off: Option<Guard>,
}

/// A point that ends the process when it is reached for the n-th time, or stops it every n-th time; or ends it whenever it is
/// reached with a certain event.
#[derive(Debug)]
struct Point {
    left: AtomicU32,
    every: u32,
    action: Action,
    victim: Option<EventId>,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Abort,
    Stop,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Reads what is to happen: `HUBFERRY_FAILPOINT` is `name@n`, or `name@n=stop` to be stopped at every n-th hit instead of
/// ended at the n-th, or `name@event id` to be ended whenever that event is held there; several are parted by commas. `HUBFERRY_LEASE_MS` is the length of a lease, and every time that the lease rule is made
/// of shrinks with it. `HUBFERRY_GUARD_OFF` takes a guard away.
pub fn arm(environment: &Environment) -> anyhow::Result<()> {
    let mut points = HashMap::new();
    for text in environment.optional("HUBFERRY_FAILPOINT").iter().flat_map(|text| text.split(',')) {
        let (name, point) = parse(text).ok_or_else(|| anyhow::anyhow!("{text} is no failpoint: write name@n"))?;
        points.insert(name, point);
    }
    let lease = match environment.optional("HUBFERRY_LEASE_MS") {
        Some(text) => Duration::from_millis(text.parse()?).clamp(SHORTEST_LEASE, WORK_LEASE),
        None => WORK_LEASE,
    };
    let off = match environment.optional("HUBFERRY_GUARD_OFF").as_deref() {
        None => None,
        Some("lease") => Some(Guard::Lease),
        Some("fence") => Some(Guard::Fence),
        Some("window") => Some(Guard::Window),
        Some(other) => anyhow::bail!("{other} is no guard: lease, fence or window"),
    };
    ARMED.set(Armed { points, lease, off }).map_err(|_| anyhow::anyhow!("failpoints are armed once a process"))
}

fn parse(text: &str) -> Option<(&'static str, Point)> {
    let (name, hit) = text.split_once('@')?;
    let (hit, action) = match hit.split_once('=') {
        Some((hit, "stop")) => (hit, Action::Stop),
        Some(_) => return None,
        None => (hit, Action::Abort),
    };
    let name = NAMES.into_iter().find(|known| *known == name)?;
    let victim = Uuid::parse_str(hit).ok().map(EventId);
    // A count of zero is never reached.
    let every = if victim.is_some() { 0 } else { hit.parse().ok()? };
    Some((name, Point { left: AtomicU32::new(every), every, action, victim }))
}

/// The process is at this point, and holds these events.
pub(crate) fn reach_holding(name: &str, mut held: impl Iterator<Item = EventId>) {
    let point = ARMED.get().and_then(|armed| armed.points.get(name));
    match point.and_then(|point| point.victim) {
        Some(victim) if held.any(|event| event == victim) => {
            tracing::warn!(failpoint = name, event.id = %victim, "A failpoint struck.");
            std::process::abort();
        }
        Some(_) => {}
        None => reach(name),
    }
}

/// The process is at this point.
pub(crate) fn reach(name: &str) {
    debug_assert!(NAMES.contains(&name), "{name} is not in the list");
    let Some(point) = ARMED.get().and_then(|armed| armed.points.get(name)) else { return };
    let is_now = point.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1);
    if !is_now {
        return;
    }
    tracing::warn!(failpoint = name, action = ?point.action, "A failpoint struck.");
    match point.action {
        Action::Abort => std::process::abort(),
        // Stops all threads, as a machine that hangs does; it goes on when somebody sends SIGCONT.
        Action::Stop => {
            point.left.store(point.every, Ordering::Relaxed);
            drop(Command::new("kill").args(["-STOP", &std::process::id().to_string()]).status());
        }
    }
}

/// A time of the lease rule, shortened as the lease is.
pub(crate) fn scaled(time: Duration) -> Duration {
    ARMED.get().map_or(time, |armed| time.mul_f64(armed.lease.as_secs_f64() / WORK_LEASE.as_secs_f64()))
}

/// Whether a guard was taken away.
pub(crate) fn is_off(guard: Guard) -> bool {
    ARMED.get().is_some_and(|armed| armed.off == Some(guard))
}

/// What makes up each guard in the statements, and what stands in its place when it is taken away.
const GUARDS: [(Guard, &str, &str); 4] = [
    // Who meets a contact in other hands steps back; and who did not meet it does not take it either.
    (Guard::Lease, "l.lease_token is null or l.lease_expires_at < clock_timestamp() as is_free", "true as is_free"),
    (Guard::Lease, "where l.lease_token is null or l.lease_expires_at < clock_timestamp()", "where true"),
    (
        Guard::Fence,
        "e.status = 'processing' and e.lease_token = $1",
        "e.status = 'processing' and $1::uuid is not null",
    ),
    (Guard::Fence, "where l.lease_token = $1", "where $1::uuid is not null"),
];

/// A statement, without its guard if that was taken away.
pub(crate) fn guarded(guard: Guard, statement: &'static str) -> Cow<'static, str> {
    if !is_off(guard) {
        return statement.into();
    }
    let parts = GUARDS.iter().filter(|(of, ..)| *of == guard);
    let bare = parts.fold(statement.to_owned(), |statement, (_, part, instead)| {
        assert!(statement.contains(part), "the statement has no such guard: {part}");
        statement.replace(part, instead)
    });
    bare.into()
}
