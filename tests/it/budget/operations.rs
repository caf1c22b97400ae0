//! Freeze, resume, pin, observe, reset, inspect.

use hubferry::model::budget::{BucketName, Freeze, RateHeaders};

use super::*;

fn headers(max: u32, remaining: u32) -> RateHeaders {
    RateHeaders { max: Some(max), remaining: Some(remaining), interval: None }
}

#[tokio::test]
async fn a_freeze_stops_everybody_and_says_why() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let holder = grant(&budget, &bucket, 2).await;
    budget.freeze(&bucket, seconds(40), "ten_secondly").await.unwrap();

    let Reserved::Refused { retry_in, reason } = ask(&budget, &bucket, 1).await else {
        panic!("a call was granted under a freeze");
    };
    assert_eq!(reason, Refusal::Frozen { reason: "ten_secondly".to_owned() });
    assert!(retry_in > seconds(20) && retry_in < seconds(80), "{retry_in:?}");

    let settlement = budget.settle(&holder, &[NO_WAIT]).await.unwrap();
    assert!(settlement.frozen_for.is_some(), "a holder hears of it when it settles");
    let confirmation = budget.confirm(&holder).await.unwrap();
    assert!(matches!(confirmation, Confirmation::Frozen { .. }), "{confirmation:?}");
}

#[tokio::test]
async fn a_shorter_freeze_never_shortens_a_longer_one() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    budget.freeze(&bucket, seconds(3000), "daily").await.unwrap();
    let remaining = budget.freeze(&bucket, seconds(1), "secondly").await.unwrap();
    assert!(remaining > seconds(2000), "{remaining:?}");
    let Some(Freeze { reason, .. }) = state(&budget, &bucket).await.frozen else {
        panic!("not frozen");
    };
    assert_eq!(reason, "daily");
}

#[tokio::test]
async fn resuming_ends_a_freeze_and_frees_no_token() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    grant(&budget, &bucket, 8).await;
    budget.freeze(&bucket, seconds(3000), "a person").await.unwrap();
    budget.resume(&bucket).await.unwrap();

    full(ask(&budget, &bucket, 3).await);
    grant(&budget, &bucket, 2).await;
    assert_eq!(state(&budget, &bucket).await.frozen, None);
}

#[tokio::test]
async fn a_freeze_outlasts_the_idle_time_after_which_a_bucket_is_forgotten() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let night = seconds(12 * 3600);
    budget.freeze(&bucket, night, "daily").await.unwrap();
    let left: i64 = redis::cmd("PTTL")
        .arg(key(&bucket))
        .query_async(&mut plain_connection(&servers::redis_url()).await)
        .await
        .unwrap();
    assert!(left >= i64::try_from(night.as_millis()).unwrap(), "{left}");
}

#[tokio::test]
async fn freezing_one_bucket_leaves_the_other_alone() {
    let (budget, calls) = (budget(), bucket(10, WINDOW));
    let search = Bucket::search(calls.portal_id);
    budget.freeze(&search, seconds(30), "secondly").await.unwrap();
    grant(&budget, &calls, 10).await;
    assert_eq!(search.name, BucketName::Search);
    assert!(matches!(ask(&budget, &search, 1).await, Reserved::Refused { .. }));
}

#[tokio::test]
async fn a_pin_lowers_the_limit_and_never_raises_it() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    assert_eq!(budget.pin(&bucket, Some(50), seconds(60)).await.unwrap(), 10);
    assert_eq!(budget.pin(&bucket, Some(4), seconds(60)).await.unwrap(), 4);
    let answer = budget.reserve(&bucket, Lane::Interactive, 5, HOLD, ANY_WAIT).await;
    assert!(matches!(answer, Err(BudgetError::ImpossibleCost { calls: 5, limit: 4 })), "{answer:?}");
    grant(&budget, &bucket, 4).await;
    full(ask(&budget, &bucket, 1).await);
    assert_eq!(state(&budget, &bucket).await.pinned, Some(4));

    assert_eq!(budget.pin(&bucket, None, NO_WAIT).await.unwrap(), 10);
    grant(&budget, &bucket, 6).await;
}

#[tokio::test]
async fn a_pin_to_zero_leaves_one_call_and_an_ended_pin_leaves_all() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    assert_eq!(budget.pin(&bucket, Some(0), seconds(60)).await.unwrap(), 1);
    assert_eq!(budget.pin(&bucket, Some(2), NO_WAIT).await.unwrap(), 10);
}

#[tokio::test]
async fn a_limit_lowered_below_what_is_held_waits_for_enough_to_end() {
    let (budget, bucket) = (budget(), bucket(4, WINDOW));
    let calls = grant(&budget, &bucket, 4).await;
    settle_ending_in(&budget, &calls, &[seconds(20), seconds(30), seconds(40), seconds(50)]).await;
    budget.pin(&bucket, Some(2), seconds(3000)).await.unwrap();

    let booked = book(&budget, &bucket, Lane::Interactive, 1).await;
    assert!(booked.start_in > seconds(30), "one may be left beside it: {:?}", booked.start_in);
    assert!(booked.start_in <= seconds(41), "{:?}", booked.start_in);
}

#[tokio::test]
async fn headers_lower_the_limit_by_what_others_use_and_never_raise_it() {
    let (budget, bucket) = (budget(), bucket(100, WINDOW));
    assert_eq!(budget.observe(&bucket, headers(250, 250)).await.unwrap(), Some(100));

    grant(&budget, &bucket, 10).await;
    assert_eq!(budget.observe(&bucket, headers(110, 60)).await.unwrap(), Some(70));
    assert_eq!(budget.observe(&bucket, headers(110, 100)).await.unwrap(), Some(70), "the lowest counts");
    let seen = state(&budget, &bucket).await;
    assert_eq!((seen.limit, seen.effective_limit, seen.foreign), (100, 70, 40));
    assert_eq!(budget.observe(&bucket, headers(110, 0)).await.unwrap(), Some(10));
    assert_eq!(budget.observe(&bucket, headers(0, 0)).await.unwrap(), Some(1), "one call stays possible");
}

#[tokio::test]
async fn our_own_calls_are_not_taken_for_foreign_ones() {
    let (budget, bucket) = (budget(), bucket(100, WINDOW));
    let reservation = grant(&budget, &bucket, 30).await;
    budget.settle(&reservation, &[NO_WAIT; 20]).await.unwrap();
    assert_eq!(budget.observe(&bucket, headers(100, 75)).await.unwrap(), Some(100));
    assert_eq!(state(&budget, &bucket).await.foreign, 0);
}

#[tokio::test]
async fn the_limit_recovers_one_window_after_the_last_sign_of_others() {
    let window = Duration::from_millis(100);
    let (budget, bucket) = (budget(), bucket(100, window));
    let lowered = budget.observe(&bucket, headers(100, 40)).await.unwrap();
    assert_eq!(lowered, Some(40));
    for _ in 0..100_000 {
        if state(&budget, &bucket).await.effective_limit == 100 {
            return;
        }
    }
    panic!("the limit did not recover");
}

#[tokio::test]
async fn headers_that_say_nothing_about_the_window_change_nothing() {
    let (budget, bucket) = (budget(), bucket(100, WINDOW));
    let daily = RateHeaders { interval: Some(seconds(86_400)), ..headers(100, 0) };
    assert_eq!(budget.observe(&bucket, daily).await.unwrap(), None);
    assert_eq!(budget.observe(&bucket, RateHeaders::default()).await.unwrap(), None);
    assert_eq!(state(&budget, &bucket).await.effective_limit, 100);
}

#[tokio::test]
async fn a_reset_forgets_everything_and_holds_the_limit_back_for_one_window() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let holder = granted(budget.reserve(&bucket, Lane::Interactive, 9, seconds(3000), NO_WAIT).await.unwrap());
    budget.freeze(&bucket, seconds(3000), "a person").await.unwrap();
    budget.pin(&bucket, Some(3), seconds(3000)).await.unwrap();
    budget.reset(&bucket).await.unwrap();

    full(ask(&budget, &bucket, 1).await);
    assert_eq!(budget.confirm(&holder).await.unwrap(), Confirmation::Gone);
    let booked = book(&budget, &bucket, Lane::Interactive, 10).await;
    assert!(booked.start_in <= WINDOW + Duration::from_millis(1), "{:?}", booked.start_in);
}

#[tokio::test]
async fn inspecting_changes_nothing_and_an_unused_bucket_is_empty() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let seen = state(&budget, &bucket).await;
    assert_eq!((seen.held, seen.effective_limit, seen.next_free_in), (0, 10, None));
    assert_eq!(seen.interactive_demand, 0);
    let exists: bool = redis::cmd("EXISTS")
        .arg(key(&bucket))
        .query_async(&mut plain_connection(&servers::redis_url()).await)
        .await
        .unwrap();
    assert!(!exists, "looking stores nothing");
}

#[tokio::test]
async fn a_bucket_ends_by_itself_in_redis() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    grant(&budget, &bucket, 10).await;
    let left: i64 = redis::cmd("TTL")
        .arg(key(&bucket))
        .query_async(&mut plain_connection(&servers::redis_url()).await)
        .await
        .unwrap();
    assert!((60..600).contains(&left), "{left} s");
}
