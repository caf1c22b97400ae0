//! Redis away, hanging, answering errors, losing what it knew: no call is ever granted by accident.

mod far_redis;

use hubferry::adapters::budget::Unavailable;

use self::far_redis::{Fault, Interposer, OwnRedis, always_answering, never_answering, port_without_server};
use super::*;

/// Longer than the budget may ever take, and far shorter than a hanging server would.
const GUARD: Duration = Duration::from_secs(5);

fn at(url: &str) -> Budget {
    Budget::connect(url).expect("a URL")
}

/// Twenty workers ask at once; all must be told that the budget is not available.
async fn no_worker_is_granted_anything(url: &str) {
    let (budget, bucket) = (at(url), bucket(100, WINDOW));
    let asking = (0..20).map(|_| budget.reserve(&bucket, Lane::Interactive, 5, HOLD, ANY_WAIT));
    let answers = tokio::time::timeout(GUARD, futures::future::join_all(asking))
        .await
        .expect("the budget waited for longer than it may");
    for answer in answers {
        assert!(matches!(answer, Err(BudgetError::Unavailable { .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_grants_nothing() {
    no_worker_is_granted_anything(&format!("redis://127.0.0.1:{}", port_without_server())).await;
}

#[tokio::test]
async fn a_hanging_server_grants_nothing_and_keeps_nobody_waiting() {
    let (url, _server) = never_answering().await;
    no_worker_is_granted_anything(&url).await;
    let answer = at(&url).inspect(&bucket(1, WINDOW)).await;
    assert!(matches!(answer, Err(BudgetError::Unavailable { source: Unavailable::Timeout })), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_answers_errors_or_nonsense_grants_nothing() {
    for line in [
        "-LOADING Redis is loading the dataset in memory",
        "-READONLY You can't write against a read only replica.",
        "-OOM command not allowed when used memory > 'maxmemory'.",
        "-MASTERDOWN Link with MASTER is down",
        "-NOSCRIPT No matching script.",
        "-ERR user_script:1: attempt to compare nil with number",
        "+OK",
        ":1",
        "$-1",
        "*0",
        "*4\r\n:1\r\n:1\r\n:1\r\n+granted",
        "*6\r\n:1\r\n:1\r\n:1\r\n+perhaps\r\n:0\r\n+",
        "*6\r\n:1\r\n:1\r\n:1\r\n+granted\r\n:-1\r\n+",
        "HTTP/1.1 200 OK",
    ] {
        let (url, _server) = always_answering(line).await;
        no_worker_is_granted_anything(&url).await;
    }
}

#[tokio::test]
async fn no_error_shows_the_password() {
    let password = "not-a-real-password";
    let url = format!("redis://user:{password}@127.0.0.1:{}", port_without_server());
    let budget = at(&url);
    let error = budget.resume(&bucket(1, WINDOW)).await.unwrap_err();
    let invalid = Budget::connect(&format!("rediss://user:{password}@:no port")).unwrap_err();
    for text in [
        format!("{budget:?}"),
        format!("{error:?} {error}"),
        format!("{:?}", std::error::Error::source(&error)),
        format!("{invalid:?} {invalid}"),
    ] {
        assert!(!text.contains(password), "{text}");
    }
}

#[tokio::test]
async fn a_lost_script_cache_is_nobody_s_trouble() {
    let redis = OwnRedis::start().await;
    let (budget, bucket) = (at(&redis.url), bucket(3, WINDOW));
    grant(&budget, &bucket, 1).await;
    redis.command(&["SCRIPT", "FLUSH"]).await;
    grant(&budget, &bucket, 1).await;
    assert_eq!(state(&budget, &bucket).await.held, 2);
}

#[tokio::test]
async fn after_a_flush_the_limit_is_held_back_until_what_was_under_way_has_ended() {
    let redis = OwnRedis::start().await;
    let (budget, bucket) = (at(&redis.url), bucket(10, seconds(20)));
    let holder = grant(&budget, &bucket, 3).await;
    redis.command(&["FLUSHALL"]).await;

    full(ask(&budget, &bucket, 1).await);
    assert_eq!(state(&budget, &bucket).await.held, 10);
    let booked = book(&budget, &bucket, Lane::Interactive, 1).await;
    assert!(booked.start_in > seconds(20), "a window and the calls of the holder: {:?}", booked.start_in);
    assert!(booked.start_in < seconds(20) + HOLD + seconds(1), "{:?}", booked.start_in);

    assert_eq!(budget.confirm(&holder).await.unwrap(), Confirmation::Gone);
    let settlement = budget.settle(&holder, &[NO_WAIT]).await.unwrap();
    assert_eq!(settlement.coverage, Coverage::Unknown);
}

#[tokio::test]
async fn a_holder_that_settles_first_after_a_flush_tells_everybody() {
    let redis = OwnRedis::start().await;
    let (budget, other, bucket) = (at(&redis.url), at(&redis.url), bucket(10, WINDOW));
    let holder = grant(&budget, &bucket, 3).await;
    redis.command(&["FLUSHALL"]).await;
    budget.settle(&holder, &[NO_WAIT]).await.unwrap();
    full(ask(&other, &bucket, 1).await);
}

#[tokio::test]
async fn a_bucket_that_ended_by_itself_is_not_taken_for_a_lost_one() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    grant(&budget, &bucket, 10).await;
    // As after two idle minutes: the value has expired, and the next one starts late on the same clock.
    redis::Script::new(
        "redis.call('DEL', KEYS[1])
         local time = redis.call('TIME')
         local now = time[1] * 1000000 + time[2] + 200000000
         redis.call('SET', KEYS[1], cmsgpack.pack({ born = now, clock = now, entries = {} }), 'PX', 60000)",
    )
    .key(key(&bucket))
    .invoke_async::<()>(&mut plain_connection(&servers::redis_url()).await)
    .await
    .unwrap();
    grant(&budget, &bucket, 10).await;
}

#[tokio::test]
async fn a_killed_server_grants_nothing_and_a_restarted_one_is_used_at_once() {
    let mut redis = OwnRedis::start().await;
    let (budget, bucket) = (at(&redis.url), bucket(10, seconds(2)));
    let before = grant(&budget, &bucket, 4).await;
    redis.kill();
    for _ in 0..3 {
        let answer = budget.reserve(&bucket, Lane::Interactive, 1, HOLD, ANY_WAIT).await;
        assert!(matches!(answer, Err(BudgetError::Unavailable { .. })), "{answer:?}");
    }

    redis.restart().await;
    let booked = book(&budget, &bucket, Lane::Interactive, 10).await;
    assert!(booked.start_in > seconds(1), "what was called before is not known: {:?}", booked.start_in);
    assert_eq!(budget.confirm(&before).await.unwrap(), Confirmation::Gone);
}

#[tokio::test]
async fn a_lost_answer_is_a_refusal_that_costs_one_charge() {
    let redis = Interposer::start(&servers::redis_url()).await;
    let (through, budget, bucket) = (at(&redis.url), budget(), bucket(10, WINDOW));
    grant(&through, &bucket, 1).await;

    redis.next_script_meets(Fault::AnswerLost);
    let answer = through.reserve(&bucket, Lane::Interactive, 2, HOLD, ANY_WAIT).await;
    assert!(matches!(answer, Err(BudgetError::Unavailable { source: Unavailable::Timeout })), "{answer:?}");
    assert_eq!(state(&budget, &bucket).await.held, 3, "charged once, comes back by expiry");
    grant(&through, &bucket, 1).await;
}

#[tokio::test]
async fn a_connection_cut_after_execution_is_made_anew_and_charges_once() {
    let redis = Interposer::start(&servers::redis_url()).await;
    let (through, budget, bucket) = (at(&redis.url), budget(), bucket(10, WINDOW));
    let first = grant(&through, &bucket, 4).await;

    redis.next_script_meets(Fault::CutAfterExecution);
    grant(&through, &bucket, 2).await;
    assert_eq!(state(&budget, &bucket).await.held, 6);

    redis.next_script_meets(Fault::CutAfterExecution);
    let settlement = through.settle(&first, &[NO_WAIT; 2]).await.unwrap();
    assert_eq!((settlement.coverage, settlement.still_reserved), (Coverage::Reserved, 2));
    assert_eq!(state(&budget, &bucket).await.held, 6);
}

#[tokio::test]
async fn only_an_explicit_noscript_is_replayed() {
    let redis = Interposer::start(&servers::redis_url()).await;
    let (through, budget, bucket) = (at(&redis.url), budget(), bucket(10, WINDOW));
    redis.next_script_meets(Fault::Answered("-ERR user_script:1: attempt to compare nil with number"));
    let answer = through.reserve(&bucket, Lane::Interactive, 2, HOLD, ANY_WAIT).await;
    assert!(matches!(answer, Err(BudgetError::Unavailable { .. })), "{answer:?}");
    assert_eq!(state(&budget, &bucket).await.held, 0);

    redis.next_script_meets(Fault::Answered("-NOSCRIPT No matching script."));
    grant(&through, &bucket, 2).await;
    assert_eq!(state(&budget, &bucket).await.held, 2);
}

#[tokio::test]
async fn a_value_that_cannot_be_read_grants_nothing_until_it_is_reset() {
    let (budget, bucket) = (budget(), bucket(10, WINDOW));
    let mut redis = plain_connection(&servers::redis_url()).await;
    for foreign in [["SET", "text"], ["LPUSH", "item"]] {
        redis::cmd("DEL").arg(key(&bucket)).exec_async(&mut redis).await.unwrap();
        redis::cmd(foreign[0]).arg(key(&bucket)).arg(foreign[1]).exec_async(&mut redis).await.unwrap();
        let answer = budget.reserve(&bucket, Lane::Interactive, 1, HOLD, ANY_WAIT).await;
        assert!(matches!(answer, Err(BudgetError::Unavailable { .. })), "{answer:?}");

        budget.reset(&bucket).await.unwrap();
        let booked = book(&budget, &bucket, Lane::Interactive, 10).await;
        assert!(booked.start_in > WINDOW / 2, "{:?}", booked.start_in);
    }
}
