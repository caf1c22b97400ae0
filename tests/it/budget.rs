//! The budget against a real Redis.

mod faults;
mod operations;
mod rolling_window;

use std::time::Duration;

use hubferry::{
    adapters::budget::{Budget, BudgetError, COMMAND_TIMEOUT},
    model::{
        budget::{
            Bucket, BudgetState, Confirmation, Coverage, LEAST_RESERVE_CALLS, Lane, Refusal, Released, Reservation,
            Reserved,
        },
        ids::PortalId,
    },
};

use crate::servers;

/// Long enough that nothing ends by itself while a test runs.
const WINDOW: Duration = Duration::from_mins(1);
const NO_WAIT: Duration = Duration::ZERO;
const ANY_WAIT: Duration = Duration::from_hours(1);
/// How long the calls of most tests may take.
const HOLD: Duration = Duration::from_secs(5);

fn budget() -> Budget {
    Budget::connect(&servers::redis_url()).expect("the URL of the test Redis")
}

/// The general window of a portal that no other test uses.
fn bucket(limit: u32, window: Duration) -> Bucket {
    Bucket::calls(PortalId(rand::random_range(1..i64::MAX)), limit, window)
}

/// Asks for interactive calls, now or never.
async fn ask(budget: &Budget, bucket: &Bucket, calls: u32) -> Reserved {
    budget.reserve(bucket, Lane::Interactive, calls, HOLD, NO_WAIT).await.expect("an answer")
}

async fn grant(budget: &Budget, bucket: &Bucket, calls: u32) -> Reservation {
    granted(ask(budget, bucket, calls).await)
}

async fn book(budget: &Budget, bucket: &Bucket, lane: Lane, calls: u32) -> Reservation {
    granted(budget.reserve(bucket, lane, calls, HOLD, ANY_WAIT).await.expect("an answer"))
}

fn granted(answer: Reserved) -> Reservation {
    match answer {
        Reserved::Granted(reservation) => reservation,
        Reserved::Refused { retry_in, reason } => {
            panic!("refused for {retry_in:?}: {reason:?}")
        }
    }
}

fn full(answer: Reserved) -> Duration {
    match answer {
        Reserved::Refused { retry_in, reason: Refusal::Full } => retry_in,
        other => panic!("not refused as full: {other:?}"),
    }
}

/// Looking again costs nothing, should a busy machine have been too slow.
async fn state(budget: &Budget, bucket: &Bucket) -> BudgetState {
    for _ in 0..10 {
        if let Ok(state) = budget.inspect(bucket).await {
            return state;
        }
    }
    panic!("no answer")
}

/// Settles calls that finished at such a time that their tokens end in `left`; zero for some time ago.
async fn settle_ending_in(budget: &Budget, reservation: &Reservation, left: &[Duration]) {
    let window = reservation.bucket.window;
    let age = |left: &Duration| match *left {
        NO_WAIT => 2 * window,
        left => window.saturating_sub(left),
    };
    let ages: Vec<_> = left.iter().map(age).collect();
    let settlement = budget.settle(reservation, &ages).await.expect("an answer");
    assert_eq!(settlement.coverage, Coverage::Reserved);
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn calls_are_granted_up_to_the_limit_and_not_one_more() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    grant(&budget, &bucket, 7).await;
    full(ask(&budget, &bucket, 4).await);
    assert_eq!(state(&budget, &bucket).await.held, 7, "all or nothing");

    grant(&budget, &bucket, 3).await;
    full(ask(&budget, &bucket, 1).await);
}

#[tokio::test]
async fn more_than_the_limit_is_impossible_and_nothing_costs_nothing() {
    let (budget, bucket) = (budget(), bucket(40, WINDOW));
    let answer = budget.reserve(&bucket, Lane::Bulk, 41, HOLD, ANY_WAIT).await;
    assert!(matches!(answer, Err(BudgetError::ImpossibleCost { calls: 41, limit: 40 })), "{answer:?}");

    let nothing = grant(&budget, &bucket, 0).await;
    assert_eq!(budget.confirm(&nothing).await.unwrap(), Confirmation::Confirmed);
    assert_eq!(budget.release(&nothing).await.unwrap(), Released::Returned { calls: 0 });
    let settlement = budget.finish(&nothing, &[]).await.unwrap();
    assert_eq!(settlement.coverage, Coverage::Reserved);
    assert_eq!(state(&budget, &bucket).await.held, 0);
    grant(&budget, &bucket, 40).await;
}

#[tokio::test]
async fn a_settled_call_is_held_for_one_window_after_it_finished() {
    let (budget, bucket) = (budget(), bucket(3, WINDOW));
    let reservation = grant(&budget, &bucket, 3).await;
    settle_ending_in(&budget, &reservation, &[NO_WAIT, seconds(50)]).await;

    let state = state(&budget, &bucket).await;
    assert_eq!((state.settled, state.reserved), (1, 1), "one has ended, one is unsettled");
    let next = state.next_free_in.unwrap();
    assert!(next <= seconds(51) && next > seconds(30), "{next:?}");
    grant(&budget, &bucket, 1).await;
    full(ask(&budget, &bucket, 1).await);
}

#[tokio::test]
async fn an_idle_bucket_saves_nothing_up() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    for _ in 0..3 {
        let reservation = grant(&budget, &bucket, 10).await;
        full(ask(&budget, &bucket, 1).await);
        settle_ending_in(&budget, &reservation, &[NO_WAIT; 10]).await;
    }
    grant(&budget, &bucket, 10).await;
    full(ask(&budget, &bucket, 10).await);
}

#[tokio::test]
async fn released_calls_are_free_at_once_and_are_given_back_once() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let reservation = grant(&budget, &bucket, 10).await;
    let settlement = budget.settle(&reservation, &[NO_WAIT; 4]).await.unwrap();
    assert_eq!(settlement.still_reserved, 6);
    assert_eq!(settlement.frozen_for, None);

    assert_eq!(budget.release(&reservation).await.unwrap(), Released::Returned { calls: 6 });
    assert_eq!(budget.release(&reservation).await.unwrap(), Released::Unknown);
    grant(&budget, &bucket, 6).await;
    full(ask(&budget, &bucket, 1).await);
}

#[tokio::test]
async fn finishing_settles_what_was_called_and_gives_the_rest_back_in_one_step() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let reservation = grant(&budget, &bucket, 10).await;
    let settlement = budget.finish(&reservation, &[NO_WAIT; 4]).await.unwrap();
    assert_eq!((settlement.coverage, settlement.still_reserved), (Coverage::Reserved, 0));
    assert_eq!(budget.release(&reservation).await.unwrap(), Released::Unknown);

    let state = state(&budget, &bucket).await;
    assert_eq!((state.settled, state.reserved), (4, 0));
}

#[tokio::test]
async fn settling_more_than_reserved_is_named_and_adds_no_token() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let reservation = grant(&budget, &bucket, 2).await;
    let settlement = budget.settle(&reservation, &[NO_WAIT; 5]).await.unwrap();
    assert_eq!(settlement.coverage, Coverage::Exceeded { calls: 3 });
    assert_eq!(settlement.still_reserved, 0);
    assert_eq!(state(&budget, &bucket).await.held, 5, "what has happened is held");
}

#[tokio::test]
async fn calls_of_an_unknown_reservation_are_held_because_they_happened() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let reservation = grant(&budget, &bucket, 2).await;
    budget.release(&reservation).await.unwrap();

    let settlement = budget.settle(&reservation, &[NO_WAIT; 2]).await.unwrap();
    assert_eq!(settlement.coverage, Coverage::Unknown);
    assert_eq!(state(&budget, &bucket).await.held, 2);
    assert_eq!(budget.confirm(&reservation).await.unwrap(), Confirmation::Gone);
}

#[tokio::test]
async fn tokens_of_a_crashed_holder_come_back_one_window_after_its_deadline() {
    let (budget, bucket) = (budget(), bucket(5, WINDOW));
    grant(&budget, &bucket, 5).await;

    let booked = book(&budget, &bucket, Lane::Interactive, 5).await;
    let latest = HOLD + COMMAND_TIMEOUT + WINDOW;
    assert!(booked.start_in <= latest, "{:?}", booked.start_in);
    assert!(booked.start_in > HOLD + WINDOW / 2, "{:?}", booked.start_in);
}

#[tokio::test]
async fn a_waiter_gets_a_slot_of_its_own_in_order_of_asking() {
    let (budget, bucket) = (budget(), bucket(3, WINDOW));
    let first = grant(&budget, &bucket, 3).await;
    settle_ending_in(&budget, &first, &[seconds(20), seconds(30), seconds(40)]).await;

    let mut starts = Vec::new();
    for _ in 0..3 {
        starts.push(book(&budget, &bucket, Lane::Interactive, 1).await.start_in);
    }
    for (start, end) in starts.iter().zip([20, 30, 40]) {
        assert!(*start <= seconds(end) + Duration::from_millis(1), "{starts:?}");
        assert!(*start > seconds(end - 10), "{starts:?}");
    }
    let state = state(&budget, &bucket).await;
    assert_eq!((state.held, state.booked), (3, 3), "the limit holds while they wait");
}

#[tokio::test]
async fn a_slot_further_away_than_the_longest_wait_is_refused_and_not_booked() {
    let (budget, bucket) = (budget(), bucket(2, WINDOW));
    let reservation = grant(&budget, &bucket, 2).await;
    settle_ending_in(&budget, &reservation, &[seconds(20), seconds(40)]).await;

    let answer = budget.reserve(&bucket, Lane::Interactive, 2, HOLD, seconds(15)).await.unwrap();
    let retry_in = full(answer);
    assert!(retry_in > seconds(20), "not before both are free: {retry_in:?}");
    let state = state(&budget, &bucket).await;
    assert_eq!((state.settled, state.reserved, state.booked), (2, 0, 0));
}

#[tokio::test]
async fn behind_calls_that_may_take_long_a_waiter_asks_again_instead_of_booking_an_idle_slot() {
    let (budget, bucket) = (budget(), bucket(2, seconds(10)));
    let holder = budget.reserve(&bucket, Lane::Interactive, 2, seconds(900), NO_WAIT).await.unwrap();
    let holder = granted(holder);
    let retry_in = full(budget.reserve(&bucket, Lane::Bulk, 2, HOLD, ANY_WAIT).await.unwrap());
    assert!(retry_in <= seconds(20), "the calls may well finish now: {retry_in:?}");

    budget.finish(&holder, &[NO_WAIT; 2]).await.unwrap();
    let booked = book(&budget, &bucket, Lane::Bulk, 2).await;
    assert!(booked.start_in <= seconds(11), "{:?}", booked.start_in);
}

#[tokio::test]
async fn booking_leaves_what_it_does_not_need_of_an_entry() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let reservation = grant(&budget, &bucket, 10).await;
    settle_ending_in(&budget, &reservation, &[seconds(30); 10]).await;
    book(&budget, &bucket, Lane::Interactive, 4).await;

    let state = state(&budget, &bucket).await;
    assert_eq!((state.settled, state.reserved, state.booked), (6, 4, 4));
}

#[tokio::test]
async fn a_booking_that_is_given_back_frees_no_call_of_another_early() {
    let (budget, bucket) = (budget(), bucket(4, WINDOW));
    let calls = grant(&budget, &bucket, 4).await;
    settle_ending_in(&budget, &calls, &[seconds(30); 4]).await;

    let booked = book(&budget, &bucket, Lane::Interactive, 4).await;
    assert_eq!(budget.release(&booked).await.unwrap(), Released::Returned { calls: 4 });
    full(ask(&budget, &bucket, 1).await);
    let next = state(&budget, &bucket).await.next_free_in.unwrap();
    assert!(next <= seconds(31), "but not longer either: {next:?}");
}

#[tokio::test]
async fn a_booking_that_is_settled_before_its_time_frees_no_call_of_another_early() {
    let (budget, bucket) = (budget(), bucket(4, WINDOW));
    let calls = grant(&budget, &bucket, 4).await;
    settle_ending_in(&budget, &calls, &[seconds(30); 4]).await;

    let booked = book(&budget, &bucket, Lane::Interactive, 4).await;
    settle_ending_in(&budget, &booked, &[NO_WAIT; 4]).await;
    full(ask(&budget, &bucket, 1).await);
}

#[tokio::test]
async fn a_holder_whose_tokens_were_booked_settles_and_releases_as_ever() {
    let (budget, bucket) = (budget(), bucket(4, WINDOW));
    let lender = grant(&budget, &bucket, 4).await;
    book(&budget, &bucket, Lane::Interactive, 3).await;

    let settlement = budget.settle(&lender, &[NO_WAIT; 2]).await.unwrap();
    assert_eq!(settlement.coverage, Coverage::Reserved);
    assert_eq!(settlement.still_reserved, 2);
    assert_eq!(budget.release(&lender).await.unwrap(), Released::Returned { calls: 2 });
    let state = state(&budget, &bucket).await;
    assert_eq!((state.held, state.settled), (4, 1), "the booking keeps the other three");
}

#[tokio::test]
async fn bulk_leaves_one_event_s_calls_in_quiet_times() {
    let (budget, bucket) = (budget(), bucket(100, WINDOW));
    granted(budget.reserve(&bucket, Lane::Bulk, 95, HOLD, NO_WAIT).await.unwrap());
    full(budget.reserve(&bucket, Lane::Bulk, 1, HOLD, NO_WAIT).await.unwrap());
    grant(&budget, &bucket, LEAST_RESERVE_CALLS).await;
    full(ask(&budget, &bucket, 1).await);
}

#[tokio::test]
async fn bulk_leaves_twice_what_interactive_work_asked_for_and_at_most_a_fifth() {
    for (asked, reserve) in [(4, 8), (60, 20)] {
        let (budget, bucket) = (budget(), bucket(100, WINDOW));
        let visitors = grant(&budget, &bucket, asked).await;
        budget.release(&visitors).await.unwrap();
        assert_eq!(state(&budget, &bucket).await.interactive_demand, asked);
        granted(budget.reserve(&bucket, Lane::Bulk, 100 - reserve, HOLD, NO_WAIT).await.unwrap());
        full(budget.reserve(&bucket, Lane::Bulk, 1, HOLD, NO_WAIT).await.unwrap());
        grant(&budget, &bucket, reserve).await;
    }
}

#[tokio::test]
async fn a_bulk_request_beyond_its_share_waits_for_an_empty_bucket() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let small = grant(&budget, &bucket, 1).await;
    full(budget.reserve(&bucket, Lane::Bulk, 10, HOLD, NO_WAIT).await.unwrap());

    settle_ending_in(&budget, &small, &[seconds(20)]).await;
    let booked = book(&budget, &bucket, Lane::Bulk, 10).await;
    assert!(booked.start_in <= seconds(21), "{:?}", booked.start_in);
    assert_eq!(state(&budget, &bucket).await.held, 10);
}

#[tokio::test]
async fn a_bulk_booking_takes_the_last_tokens_it_may_and_leaves_the_first_to_visitors() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let calls = grant(&budget, &bucket, 10).await;
    let ends: Vec<_> = (1..=10).map(|n| seconds(5 * n)).collect();
    settle_ending_in(&budget, &calls, &ends).await;

    let bulk = book(&budget, &bucket, Lane::Bulk, 1).await;
    assert!(bulk.start_in > seconds(10), "two stay free for visitors: {:?}", bulk.start_in);
    let visitor = book(&budget, &bucket, Lane::Interactive, 1).await;
    assert!(visitor.start_in <= seconds(6), "{:?}", visitor.start_in);
}

#[tokio::test]
async fn refused_waiters_are_told_different_times_and_none_before_its_calls_are_free() {
    let (budget, bucket) = (budget(), bucket(1, WINDOW));
    let call = grant(&budget, &bucket, 1).await;
    settle_ending_in(&budget, &call, &[seconds(50)]).await;

    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let free_in = state(&budget, &bucket).await.next_free_in.unwrap();
        let wait = full(ask(&budget, &bucket, 1).await);
        assert!(wait + seconds(5) > free_in, "{wait:?} is before {free_in:?}");
        waits.insert(wait.as_millis());
    }
    assert!(waits.len() >= 150, "only {} wake times", waits.len());
}

#[tokio::test]
async fn asking_again_and_again_postpones_nothing() {
    let (budget, bucket) = (budget(), bucket(1, WINDOW));
    let call = grant(&budget, &bucket, 1).await;
    settle_ending_in(&budget, &call, &[Duration::from_millis(400)]).await;

    let mut refusals = 0;
    while let Reserved::Refused { .. } = ask(&budget, &bucket, 1).await {
        refusals += 1;
        assert!(refusals < 100_000, "the token never came back");
        tokio::task::yield_now().await;
    }
    assert!(refusals > 0);
}

#[tokio::test]
async fn a_server_clock_that_steps_back_gives_nothing_away_twice() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let calls = grant(&budget, &bucket, 6).await;
    settle_ending_in(&budget, &calls, &[seconds(30); 6]).await;
    let before = clock_ahead(&bucket, seconds(3)).await;

    grant(&budget, &bucket, 4).await;
    full(ask(&budget, &bucket, 1).await);
    assert!(clock_ahead(&bucket, NO_WAIT).await >= before, "the bucket's time never goes back");
    assert_eq!(state(&budget, &bucket).await.held, 10);
}

/// Makes the bucket believe that it has seen a later time, as it has when the server's clock steps back afterwards.
async fn clock_ahead(bucket: &Bucket, step: Duration) -> u64 {
    const SCRIPT: &str = "local b = cmsgpack.unpack(redis.call('GET', KEYS[1]))
        b.clock = b.clock + ARGV[1]
        redis.call('SET', KEYS[1], cmsgpack.pack(b), 'KEEPTTL')
        return b.clock";
    redis::Script::new(SCRIPT)
        .key(key(bucket))
        .arg(u64::try_from(step.as_micros()).unwrap())
        .invoke_async(&mut plain_connection(&servers::redis_url()).await)
        .await
        .expect("a bucket")
}

fn key(bucket: &Bucket) -> String {
    format!("hubferry:budget:{{{}}}:{}", bucket.portal_id, bucket.name.as_str())
}

async fn plain_connection(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("a connection")
}
