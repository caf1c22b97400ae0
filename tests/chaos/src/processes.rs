//! The processes of the stack: started with failpoints, killed, stopped, continued, started again.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use tokio::process::{Child, Command};

use crate::arguments::Guard;
use crate::place::{HUBSPOT_TOKEN, Place};

/// The signal of `abort`.
const SIGABRT: i32 = 6;

/// Seals the envelopes of a run.
const SIGNING_KEY: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// A part of the stack that runs as a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Intake,
    Dispatcher,
    Worker,
    Reconciler,
}

/// What a run has of each.
const CREW: [Part; 6] =
    [Part::Intake, Part::Dispatcher, Part::Dispatcher, Part::Worker, Part::Worker, Part::Reconciler];

impl Part {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Intake => "intake",
            Self::Dispatcher => "dispatcher",
            Self::Worker => "worker",
            Self::Reconciler => "reconciler",
        }
    }
}

/// What was done to the processes.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kills: u32,
    pub(crate) stops: u32,
    /// Failpoints that struck, by name.
    pub(crate) points: BTreeMap<String, u32>,
    /// Ends that nobody asked for.
    pub(crate) unexpected: BTreeMap<String, u32>,
}

/// A process, or the place of one that has ended.
pub(crate) struct Slot {
    pub(crate) part: Part,
    number: usize,
    child: Option<Child>,
    armed: Option<String>,
    killed: bool,
    stopped_at: Option<Instant>,
}

/// All processes of a run.
pub(crate) struct Crew<'a> {
    place: &'a Place,
    pub(crate) slots: Vec<Slot>,
    pub(crate) tally: Tally,
}

impl<'a> Crew<'a> {
    /// The places of all of them. None runs yet.
    pub(crate) fn of_place(place: &'a Place) -> Self {
        let slot = |(number, part)| Slot { part, number, child: None, armed: None, killed: false, stopped_at: None };
        Self { place, slots: CREW.into_iter().enumerate().map(slot).collect(), tally: Tally::default() }
    }

    /// Starts what does not run.
    pub(crate) fn restart_all(&mut self) -> anyhow::Result<()> {
        for slot in self.slots.iter_mut().filter(|slot| slot.child.is_none()) {
            slot.start(self.place, None)?;
        }
        Ok(())
    }

    /// Starts what does not run, often with a failpoint.
    pub(crate) fn restart_armed(&mut self, dice: &mut StdRng) -> anyhow::Result<()> {
        for slot in &mut self.slots {
            let draw = dice.random::<u64>();
            if slot.child.is_none() {
                let armed = failpoint(slot.part, slot.number, draw, self.place.scenario.guard_off);
                slot.start(self.place, armed)?;
            }
        }
        Ok(())
    }

    /// Notices which have ended, and which have stopped by a failpoint.
    pub(crate) fn look(&mut self) -> anyhow::Result<()> {
        for slot in &mut self.slots {
            let Some(child) = &mut slot.child else { continue };
            if let Some(status) = child.try_wait()? {
                let struck = status.signal() == Some(SIGABRT);
                match (&slot.armed, slot.killed) {
                    (_, true) => {}
                    (Some(point), false) if struck => count(&mut self.tally.points, point),
                    _ => *self.tally.unexpected.entry(ended(slot.part, slot.number, status)).or_default() += 1,
                }
                (slot.child, slot.armed, slot.killed, slot.stopped_at) = (None, None, false, None);
            } else if let Some(point) = slot.armed.as_ref().filter(|point| point.ends_with("=stop"))
                && slot.stopped_at.is_none()
                && child.id().is_some_and(is_stopped)
            {
                slot.stopped_at = Some(Instant::now());
                count(&mut self.tally.points, point);
            }
        }
        Ok(())
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(child) = &mut slot.child
            && child.start_kill().is_ok()
        {
            slot.killed = true;
            self.tally.kills += 1;
        }
    }

    /// `kill -STOP`: the process keeps all that it has and does nothing.
    pub(crate) async fn stop(&mut self, index: usize) -> anyhow::Result<()> {
        let slot = &mut self.slots[index];
        if let (Some(id), None) = (slot.child.as_ref().and_then(Child::id), slot.stopped_at) {
            signal(id, "-STOP").await?;
            slot.stopped_at = Some(Instant::now());
            self.tally.stops += 1;
        }
        Ok(())
    }

    /// Continues what has been stopped for longer than this.
    pub(crate) async fn wake(&mut self, after: Duration) -> anyhow::Result<()> {
        for slot in &mut self.slots {
            if slot.stopped_at.is_some_and(|at| at.elapsed() >= after)
                && let Some(id) = slot.child.as_ref().and_then(Child::id)
            {
                signal(id, "-CONT").await?;
                slot.stopped_at = None;
            }
        }
        Ok(())
    }

    /// Ends what would stop itself again.
    pub(crate) fn disarm(&mut self) {
        for index in self.of(None) {
            if self.slots[index].armed.as_ref().is_some_and(|point| point.ends_with("=stop")) {
                self.kill(index);
            }
        }
    }

    /// Indexes of the processes of a part, or of any.
    pub(crate) fn of(&self, part: Option<Part>) -> Vec<usize> {
        (0..self.slots.len()).filter(|index| part.is_none_or(|part| self.slots[*index].part == part)).collect()
    }

    /// Ends all of them.
    pub(crate) async fn end(mut self) -> anyhow::Result<Tally> {
        for slot in &mut self.slots {
            if let Some(child) = &mut slot.child {
                child.kill().await?;
            }
        }
        Ok(self.tally)
    }
}

impl Slot {
    fn start(&mut self, place: &Place, armed: Option<String>) -> anyhow::Result<()> {
        let name = format!("{}-{}", self.part.name(), self.number);
        let log = OpenOptions::new().create(true).append(true).open(place.folder.path().join(format!("{name}.log")))?;
        let mut database_url = place.database_url.clone();
        // The trail says which process changed a row.
        database_url.query_pairs_mut().append_pair("application_name", &name);
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([crate::STACK, "up", "--only", self.part.name()])
            .args(["--api", &format!("127.0.0.1:{}", place.api), "--queues", &place.queues.address().to_string()])
            .current_dir(place.folder.path())
            .env("HUBFERRY_DATABASE_URL", database_url.as_str())
            .env("HUBFERRY_REDIS_URL", place.redis_url.as_str())
            .env("HUBFERRY_SIGNING_KEY", SIGNING_KEY)
            .env("HUBFERRY_HUBSPOT_URL", place.simulator.base_url())
            .env("HUBFERRY_HUBSPOT_TOKEN", HUBSPOT_TOKEN)
            .env("HUBFERRY_LEASE_MS", place.scenario.lease.as_millis().to_string())
            .envs(armed.iter().map(|armed| ("HUBFERRY_FAILPOINT", armed)))
            .envs(place.scenario.guard_off.map(|guard| ("HUBFERRY_GUARD_OFF", guard.name())))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        self.child = Some(command.spawn()?);
        (self.armed, self.killed, self.stopped_at) = (armed, false, None);
        Ok(())
    }
}

/// A failpoint for a part, or none. A draw decides it whole, so that it costs one step of the dice.
fn failpoint(part: Part, number: usize, draw: u64, guard_off: Option<Guard>) -> Option<String> {
    if guard_off == Some(Guard::Fence) && part == Part::Worker {
        // One comes back with stale finishes, the other works on meanwhile.
        return (number % 2 == 1).then(|| "worker.before_finish@1=stop".to_owned());
    }
    let mut dice = <StdRng as rand::SeedableRng>::seed_from_u64(draw);
    if !dice.random_bool(0.7) {
        return None;
    }
    // The simulator sends no webhooks here, so this one is never reached.
    let is_own = |name: &&&str| name.starts_with(part.name()) && **name != "worker.after_projection";
    let names: Vec<&&str> = hubferry::failpoint::NAMES.iter().filter(is_own).collect();
    let name = **names.choose(&mut dice)?;
    let stops = matches!(part, Part::Worker | Part::Dispatcher) && dice.random_bool(0.35);
    // Reached several times a batch, or once a request; a worker sees few batches in a run, and few of them with opt-outs.
    let most = match name {
        "intake.after_commit" => 20,
        "worker.after_call" => 12,
        "worker.after_started_receipts" => 1,
        _ if part == Part::Worker => 3,
        _ => 6,
    };
    Some(format!("{name}@{}{}", dice.random_range(1..=most), if stops { "=stop" } else { "" }))
}

fn count(points: &mut BTreeMap<String, u32>, armed: &str) {
    let name = armed.split('@').next().unwrap_or(armed);
    let suffix = if armed.ends_with("=stop") { " (stopped)" } else { "" };
    *points.entry(format!("{name}{suffix}")).or_default() += 1;
}

fn ended(part: Part, number: usize, status: ExitStatus) -> String {
    format!("{}-{number} ended by itself: {status}", part.name())
}

async fn signal(id: u32, signal: &str) -> anyhow::Result<()> {
    Command::new("kill").args([signal, &id.to_string()]).status().await?;
    Ok(())
}

/// Whether the system says that a process is stopped. Where there is no such file, it is woken with all others at the end.
fn is_stopped(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
