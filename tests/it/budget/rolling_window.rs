//! Over random interleavings, crashes, freezes and slow calls: the far side never counts more calls than the limit in
//! any rolling window, and no token is lost for good.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use futures::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    sync::RwLock,
    time::{sleep, timeout},
};

use super::*;
use hubferry::adapters::budget::Unavailable;

const RUNS: u64 = 12;
/// Runs side by side: two cores are busy with them, and still answer within the budget's time limit.
const AT_ONCE: usize = 6;
const WORKERS: usize = 6;
/// How long workers begin new work in each run.
const BUSY: Duration = Duration::from_millis(1500);
/// Workers that are told to wait come back early, to make more of a crowd.
const SHORT_REST: Duration = Duration::from_millis(20);

/// How a run goes about it.
#[derive(Clone, Copy)]
struct Temper {
    /// Chance that something gets in the way: a crash, a freeze, a lowered limit, a booking given back.
    trouble: f64,
    /// Longest call.
    slow_call_ms: u64,
    /// Longest time for which a reservation holds its calls.
    hold_ms: u64,
    /// Longest wait for a slot.
    wait_ms: u64,
}

/// Everything goes wrong, and calls are slow.
const ROUGH: Temper = Temper { trouble: 0.1, slow_call_ms: 60, hold_ms: 120, wait_ms: 1500 };

/// Everything goes well and fast, so that slots follow each other without a gap.
const BRISK: Temper = Temper { trouble: 0.0, slow_call_ms: 2, hold_ms: 60, wait_ms: 300 };

/// Counts calls as they arrive, and judges afterwards.
#[derive(Default)]
struct FarSide {
    arrivals: Mutex<Vec<Instant>>,
}

impl FarSide {
    /// A call arrives, unless its caller has given it up: no call outlives its reservation's deadline.
    fn arrive(&self, deadline: Instant) {
        let now = Instant::now();
        if now < deadline {
            self.arrivals.lock().unwrap().push(now);
        }
    }

    /// The most calls in any rolling window, and how many in all.
    fn judge(&self, window: Duration) -> (usize, usize) {
        let mut arrivals = self.arrivals.lock().unwrap().clone();
        arrivals.sort_unstable();
        let mut first = 0;
        let mut most = 0;
        for (last, arrival) in arrivals.iter().enumerate() {
            while *arrival - arrivals[first] >= window {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        (most, arrivals.len())
    }
}

struct Worker {
    budget: Budget,
    bucket: Bucket,
    far_side: Arc<FarSide>,
    /// Held for reading during a verb, and for writing while Redis loses the bucket.
    gate: Arc<RwLock<()>>,
    temper: Temper,
    random: StdRng,
}

impl Worker {
    async fn work(mut self) {
        let end = Instant::now() + BUSY;
        while Instant::now() < end {
            match (self.trouble(), self.random.random_bool(0.5)) {
                (true, true) => self.freeze().await,
                (true, false) => self.meddle().await,
                (false, _) => self.serve().await,
            }
        }
    }

    fn trouble(&mut self) -> bool {
        self.random.random_bool(self.temper.trouble)
    }

    /// Without an answer in time, as on a busy machine, the worker goes its way as if it had crashed.
    async fn verb<T>(&self, verb: impl Future<Output = Result<T, BudgetError>>) -> Option<T> {
        let _gate = self.gate.read().await;
        match verb.await {
            Err(BudgetError::Unavailable { source: Unavailable::Timeout }) => None,
            answer => Some(answer.expect("an answer")),
        }
    }

    async fn freeze(&mut self) {
        let time = Duration::from_millis(self.random.random_range(1..40));
        self.verb(self.budget.freeze(&self.bucket, time, "a test")).await;
    }

    /// Somebody lowers the limit for a moment, or others are seen to use it.
    async fn meddle(&mut self) {
        let limit = self.bucket.limit;
        let pin = self.random.random_range(1..=limit);
        let time = Duration::from_millis(self.random.random_range(1..100));
        self.verb(self.budget.pin(&self.bucket, Some(pin), time)).await;
        let headers = hubferry::model::budget::RateHeaders {
            max: Some(limit),
            remaining: Some(self.random.random_range(0..=limit)),
            interval: None,
        };
        self.verb(self.budget.observe(&self.bucket, headers)).await;
    }

    async fn serve(&mut self) {
        let lane = if self.random.random_bool(0.5) { Lane::Interactive } else { Lane::Bulk };
        let calls = self.random.random_range(1..=self.bucket.limit);
        let hold = Duration::from_millis(self.random.random_range(5..self.temper.hold_ms));
        let wait = Duration::from_millis(self.random.random_range(0..self.temper.wait_ms));
        let answer = async {
            match self.budget.reserve(&self.bucket, lane, calls, hold, wait).await {
                Err(BudgetError::ImpossibleCost { .. }) => Ok(None),
                answer => answer.map(Some),
            }
        };
        match self.verb(answer).await.flatten() {
            Some(Reserved::Granted(reservation)) => {
                self.use_up(&reservation, Instant::now(), hold).await;
            }
            Some(Reserved::Refused { retry_in, .. }) => sleep(retry_in.min(SHORT_REST)).await,
            None => sleep(SHORT_REST).await,
        }
    }

    async fn use_up(&mut self, reservation: &Reservation, granted_at: Instant, hold: Duration) {
        let deadline = granted_at + reservation.start_in + hold;
        if !reservation.start_in.is_zero() && !self.wait_for_slot(reservation).await {
            return;
        }
        let mut left = reservation.calls;
        while left > 0 && Instant::now() < deadline {
            let group = self.random.random_range(1..=left);
            let ages = self.call_at_once(group, deadline).await;
            left -= group;
            if self.trouble() {
                return; // Crashed: neither settled nor released.
            }
            let ages: Vec<_> = ages.iter().map(Instant::elapsed).collect();
            if self.random.random_bool(0.3) {
                self.verb(self.budget.finish(reservation, &ages)).await;
                return;
            }
            let Some(settlement) = self.verb(self.budget.settle(reservation, &ages)).await else {
                return;
            };
            if settlement.frozen_for.is_some() || settlement.coverage != Coverage::Reserved {
                break;
            }
        }
        self.verb(self.budget.release(reservation)).await;
    }

    async fn wait_for_slot(&mut self, reservation: &Reservation) -> bool {
        if self.trouble() {
            self.verb(self.budget.release(reservation)).await;
            return false;
        }
        sleep(reservation.start_in).await;
        match self.verb(self.budget.confirm(reservation)).await {
            Some(Confirmation::Confirmed) => true,
            Some(Confirmation::Frozen { .. }) => {
                self.verb(self.budget.release(reservation)).await;
                false
            }
            Some(Confirmation::Gone) | None => false,
        }
    }

    /// Calls that run at the same time; each is counted at some moment between its start and its finish.
    async fn call_at_once(&mut self, calls: u32, deadline: Instant) -> Vec<Instant> {
        let plans: Vec<_> = (0..calls)
            .map(|_| {
                // Half of the parts take no time, so that calls are also counted right at their start or their finish.
                let mut part = || {
                    let slow = u64::from(self.random.random_bool(0.5));
                    Duration::from_millis(slow * self.random.random_range(0..=self.temper.slow_call_ms / 2))
                };
                (part(), part())
            })
            .collect();
        futures::future::join_all(plans.into_iter().map(|(before, after)| {
            let far_side = Arc::clone(&self.far_side);
            async move {
                sleep(before).await;
                far_side.arrive(deadline);
                sleep(after).await;
                Instant::now().min(deadline) // Later, it is given up.
            }
        }))
        .await
    }
}

/// One run: its workers, and what else happens meanwhile.
struct Run {
    seed: u64,
    bucket: Bucket,
    far_side: Arc<FarSide>,
    gate: Arc<RwLock<()>>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let limit = StdRng::seed_from_u64(seed).random_range(1..=12);
        Self {
            seed,
            bucket: bucket(limit, Duration::from_millis(150 + 10 * (seed % 16))),
            far_side: Arc::default(),
            gate: Arc::default(),
        }
    }

    /// Lets the workers work, each with the budget that it is given, beside something that goes on all the time.
    async fn go(&self, budget: impl Fn(usize) -> Budget, beside: impl Future<Output = ()>) {
        let workers = (0..WORKERS).map(|number| {
            let worker = Worker {
                budget: budget(number),
                bucket: self.bucket,
                far_side: Arc::clone(&self.far_side),
                gate: Arc::clone(&self.gate),
                temper: if self.seed.is_multiple_of(2) { BRISK } else { ROUGH },
                random: StdRng::seed_from_u64(self.seed * 1000 + number as u64),
            };
            worker.work()
        });
        let all = async {
            tokio::select! {
                _ = futures::future::join_all(workers) => {}
                () = beside => {}
            }
        };
        timeout(Duration::from_mins(1), all).await.expect("the workers end");
    }

    /// Answers how many calls were made, after making sure that they never were too many.
    fn judge(&self) -> usize {
        let (seed, limit) = (self.seed, self.bucket.limit as usize);
        let (most, calls) = self.far_side.judge(self.bucket.window);
        assert!(most <= limit, "seed {seed}: {most} calls in a window, limit {limit}");
        calls
    }
}

/// What is held never exceeds the limit, at whatever moment one looks.
async fn watch(budget: &Budget, bucket: &Bucket) {
    loop {
        if let Ok(seen) = budget.inspect(bucket).await {
            assert!(seen.held <= bucket.limit, "{seen:?}");
        }
        sleep(Duration::from_millis(3)).await;
    }
}

/// When everything has ended, the complete limit can be reserved again.
async fn nothing_is_lost(budget: &Budget, bucket: &Bucket) {
    let whole = async {
        loop {
            let _ = budget.pin(bucket, None, NO_WAIT).await;
            let _ = budget.resume(bucket).await;
            let answer = budget.reserve(bucket, Lane::Bulk, bucket.limit, NO_WAIT, NO_WAIT).await;
            if let Ok(Reserved::Granted(whole)) = answer {
                return whole;
            }
            sleep(bucket.window / 4).await;
        }
    };
    let whole = timeout(seconds(20), whole).await.expect("every token comes back");
    assert_eq!(whole.calls, bucket.limit);
}

/// Redis loses the bucket now and then, never in the middle of a verb.
async fn lose(run: &Run) {
    let mut redis = plain_connection(&servers::redis_url()).await;
    let mut random = StdRng::seed_from_u64(run.seed);
    loop {
        sleep(Duration::from_millis(random.random_range(50..600))).await;
        let _gate = run.gate.write().await;
        redis::cmd("DEL").arg(key(&run.bucket)).exec_async(&mut redis).await.expect("an answer");
    }
}

/// A few runs side by side, as many as leave the machine time to answer.
async fn all_runs<T>(run: impl AsyncFn(u64) -> T) -> Vec<T> {
    futures::stream::iter(0..RUNS).map(|seed| run(seed)).buffer_unordered(AT_ONCE).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rolling_window_ever_sees_more_calls_than_the_limit_and_no_token_is_lost() {
    let made = all_runs(async |seed| {
        let (run, shared) = (Run::new(seed), budget());
        // Every other worker is a process of its own, which does not know what the others know.
        let each = |number| if number % 2 == 0 { shared.clone() } else { budget() };
        run.go(each, watch(&shared, &run.bucket)).await;
        nothing_is_lost(&shared, &run.bucket).await;
        (run.judge(), run.bucket.limit as usize)
    })
    .await;
    assert!(made.iter().filter(|(calls, limit)| calls > limit).count() > made.len() / 2, "too idle to prove: {made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn not_even_a_redis_that_forgets_makes_a_window_see_more_calls_than_the_limit() {
    let made = all_runs(async |seed| {
        let (run, shared) = (Run::new(seed), budget());
        run.go(|_| shared.clone(), lose(&run)).await;
        nothing_is_lost(&shared, &run.bucket).await;
        run.judge()
    })
    .await;
    assert!(made.iter().sum::<usize>() > 0, "nothing was ever granted");
}

#[test]
fn the_far_side_counts_a_burst_across_a_window_s_edge() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let far_side = FarSide { arrivals: Mutex::new(vec![at(99), at(101), at(98), at(0), at(198)]) };
    let window = Duration::from_millis(100);
    assert_eq!(far_side.judge(window), (3, 5));
}
