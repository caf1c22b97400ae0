//! Many who accept at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::setting::{FAR_TOO_LONG, Setting, keyed, subscribing, unsubscribing, with};
use super::{Outcomes, Receipt, accept, accept_many, try_accept_many};

/// Applications at once, calls of each, and the people they are all about.
const APPLICATIONS: u64 = 8;
const CALLS: usize = 12;
const PEOPLE: usize = 10;

/// Runs one task an application, all starting at once, and returns what each came to.
async fn at_once<T, F>(setting: &Setting, tasks: impl IntoIterator<Item = impl FnOnce(Client) -> F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = tasks.into_iter().collect();
    let start = Arc::new(Barrier::new(tasks.len()));
    let mut running = JoinSet::new();
    for task in tasks {
        let start = start.clone();
        let task = task(setting.application().await);
        running.spawn(async move {
            start.wait().await;
            task.await
        });
    }
    tokio::time::timeout(FAR_TOO_LONG, running.join_all()).await.expect("nobody waits for ever")
}

/// Panics unless every stream has the sequences 1 to n in the order in which they were accepted, and says so itself.
async fn expect_whole_streams(setting: &Setting, context: &str) -> i64 {
    let sql =
        "select r.stream_id, r.sequence, s.last_sequence, e.sequence = r.sequence and e.stream_id = r.stream_id as same
               from hubferry.subscription_requests r join hubferry.subscription_streams s using (stream_id)
               left join hubferry.outbox_events e using (event_id)
               order by r.stream_id, r.accepted_at";
    let rows = setting.application().await.query(sql, &[]).await.expect("rows");
    let mut streams: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for row in &rows {
        assert_eq!(row.get::<_, Option<bool>>(3), Some(true), "{context}: a receipt without its event");
        streams.entry(row.get(0)).or_default().push((row.get(1), row.get(2)));
    }
    for (stream, accepted) in &streams {
        let last = i64::try_from(accepted.len()).expect("a few");
        let expected: Vec<(i64, i64)> = (1..=last).map(|sequence| (sequence, last)).collect();
        assert_eq!(*accepted, expected, "{context}: stream {stream}");
    }
    let events = setting.ask("select count(*) from hubferry.outbox_events").await.get::<_, i64>(0);
    assert_eq!(events, i64::try_from(rows.len()).expect("a few"), "{context}: an event without its receipt");
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_requests_of_one_address_at_once_make_one_contact() {
    let setting = Setting::new().await;
    let tasks = (0..APPLICATIONS).map(|number| {
        move |application: Client| async move {
            let spelling = if number % 2 == 0 { "ada@example.test" } else { "ADA@Example.test" };
            accept(&application, &format!("k{number}"), &subscribing(spelling)).await.expect("accepted").sequence
        }
    });
    let mut sequences = at_once(&setting, tasks).await;
    sequences.sort_unstable();
    assert_eq!(sequences, (1..=8).collect::<Vec<i64>>());
    assert_eq!(setting.ask("select count(*) from hubferry.contacts").await.get::<_, i64>(0), 1);
    expect_whole_streams(&setting, "one address").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_at_once_from_many_makes_one_event() {
    let setting = Setting::new().await;
    let tasks = (0..APPLICATIONS).map(|_| {
        |application: Client| async move {
            accept(&application, "k", &subscribing("ada@example.test")).await.expect("an answer")
        }
    });
    let receipts = at_once(&setting, tasks).await;
    assert_eq!(receipts.iter().filter(|receipt| !receipt.replayed).count(), 1);
    assert!(receipts.iter().all(|receipt| receipt.event_id == receipts[0].event_id && receipt.sequence == 1));
    assert_eq!(expect_whole_streams(&setting, "one key").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_at_once_with_different_requests_goes_to_one_of_them() {
    let setting = Setting::new().await;
    let tasks = (0..APPLICATIONS).map(|number| {
        move |application: Client| async move {
            let answer = accept(&application, "k", &subscribing(&format!("person-{number}@example.test"))).await;
            answer.map_err(|error| error.code().map(|code| code.code().to_owned()))
        }
    });
    let answers = at_once(&setting, tasks).await;
    let accepted: Vec<&Receipt> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    assert!(matches!(accepted[..], [Receipt { replayed: false, .. }]), "{answers:?}");
    assert!(answers.iter().filter_map(|answer| answer.as_ref().err()).all(|code| code.as_deref() == Some("HF009")));
    let contacts = setting.ask("select count(*) from hubferry.contacts").await.get::<_, i64>(0);
    assert_eq!((contacts, expect_whole_streams(&setting, "one key").await), (1, 1), "a refusal left something behind");
}

/// A batch of one application: people in an order of its own, some by key and some by address.
fn batch_of(random: &mut StdRng, application: u64, call: usize) -> Vec<Value> {
    let mut people: Vec<usize> = (0..PEOPLE).collect();
    people.shuffle(random);
    people.truncate(random.random_range(1..=PEOPLE));
    let requests = people.into_iter().map(|person| {
        let email = format!("person-{person}@example.test");
        let request = if random.random() { subscribing(&email) } else { unsubscribing(&email) };
        // Every other person has a key, and now and then an address of the application's.
        let request = match (person % 2, random.random_range(0..4)) {
            (0, _) => request,
            (_, 0) => {
                let moved = format!("person-{person}-{application}@example.test");
                with(with(request, "/contact/key", json!(format!("u{person}"))), "/contact/email", json!(moved))
            }
            _ => with(request, "/contact/key", json!(format!("u{person}"))),
        };
        with(request, "/contact/properties", json!({format!("from{application}"): call, "last": application}))
    });
    let requests: Vec<Value> = requests.collect();
    // Some keys are used by all applications, for requests that may differ.
    let keyed_requests = requests.into_iter().enumerate().map(|(index, request)| match random.random_range(0..8) {
        0 => keyed(&format!("shared-{call}-{index}"), request),
        _ => keyed(&format!("own-{application}-{call}-{index}"), request),
    });
    keyed_requests.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_batches_in_any_order_neither_deadlock_nor_leave_gaps() {
    let seed: u64 = rand::random();
    let setting = Setting::new().await;
    let tasks = (0..APPLICATIONS).map(|number| {
        move |application: Client| async move {
            let mut random = StdRng::seed_from_u64(seed ^ number);
            let mut accepted = 0_i64;
            for call in 0..CALLS {
                let batch = batch_of(&mut random, number, call);
                let answers = try_accept_many(&application, &batch).await;
                for answer in answers.unwrap_or_else(|error| panic!("seed {seed}: {error:?}")) {
                    match answer {
                        Ok(receipt) => accepted += i64::from(!receipt.replayed),
                        Err(code) => assert_eq!(code, "idempotency_conflict", "seed {seed}"),
                    }
                }
            }
            accepted
        }
    });
    let accepted: i64 = at_once(&setting, tasks).await.into_iter().sum();
    assert_eq!(expect_whole_streams(&setting, &format!("seed {seed}")).await, accepted, "seed {seed}");
    let row = setting.ask("select count(*) filter (where keyed_by_email), count(distinct email) from hubferry.contacts where keyed_by_email").await;
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1), "seed {seed}: one contact an address");
}

/// One application accepts and keeps its transaction open; another goes through the door meanwhile and has to wait; then
/// the first ends its transaction. Returns what the second got.
async fn behind(setting: &Setting, first: &Value, commit: bool, second: Vec<Value>) -> Outcomes {
    let mut early = setting.application().await;
    let transaction = early.transaction().await.expect("a transaction");
    let answers = accept_many(&transaction, std::slice::from_ref(first)).await;
    assert!(answers[0].as_ref().is_ok_and(|receipt| !receipt.replayed));
    let late = setting.application().await;
    let waiting = tokio::spawn(async move { accept_many(&late, &second).await });
    setting.until_blocked().await;
    if commit { transaction.commit().await } else { transaction.rollback().await }.expect("an end");
    waiting.await.expect("an answer")
}

/// Code, or whether it was replayed and under which sequence.
fn told(answers: &[Result<Receipt, String>]) -> Vec<Result<(bool, i64), &str>> {
    let tell = |receipt: &Receipt| (receipt.replayed, receipt.sequence);
    answers.iter().map(|answer| answer.as_ref().map(tell).map_err(String::as_str)).collect()
}

#[tokio::test]
async fn whoever_comes_second_with_a_key_waits_and_is_answered_by_what_became_of_the_first() {
    let setting = Setting::new().await;
    let request = |key: &str| keyed(key, subscribing("ada@example.test"));
    let answers = behind(&setting, &request("k"), true, vec![request("k")]).await;
    assert_eq!(told(&answers), [Ok((true, 1))]);
    let answers = behind(&setting, &request("l"), false, vec![request("l")]).await;
    assert_eq!(told(&answers), [Ok((false, 2))], "a rollback leaves key and number to the next");
    let other = keyed("m", unsubscribing("ada@example.test"));
    let answers = behind(&setting, &request("m"), true, vec![other]).await;
    assert_eq!(told(&answers), [Err("idempotency_conflict")]);
    let elsewhere = keyed("n", subscribing("grace@example.test"));
    let answers = behind(&setting, &request("n"), true, vec![elsewhere]).await;
    assert_eq!(told(&answers), [Err("idempotency_conflict")]);
    assert_eq!(expect_whole_streams(&setting, "one after the other").await, 4);
}

#[tokio::test]
async fn a_repeat_that_waited_leaves_no_gap_before_its_batch_mates() {
    let setting = Setting::new().await;
    let repeated = keyed("k", subscribing("ada@example.test"));
    let batch = vec![
        repeated.clone(),
        keyed("l", unsubscribing("ada@example.test")),
        keyed("m", subscribing("ada@example.test")),
    ];
    let answers = behind(&setting, &repeated, true, batch).await;
    assert_eq!(told(&answers), [Ok((true, 1)), Ok((false, 2)), Ok((false, 3))]);
    expect_whole_streams(&setting, "a repeat in front").await;
}

#[tokio::test]
async fn sequences_follow_the_order_of_commits() {
    let setting = Setting::new().await;
    let of = |key: &str| keyed(key, with(unsubscribing("ada@example.test"), "/contact/key", json!("u1")));
    assert_eq!(told(&behind(&setting, &of("a"), true, vec![of("b")]).await), [Ok((false, 2))]);
    assert_eq!(told(&behind(&setting, &of("c"), false, vec![of("d")]).await), [Ok((false, 3))]);
    assert_eq!(expect_whole_streams(&setting, "commits").await, 3);
}

#[tokio::test]
async fn an_application_holds_up_only_requests_for_its_own_contact() {
    let setting = Setting::new().await;
    let mut slow = setting.application().await;
    let transaction = slow.transaction().await.expect("a transaction");
    accept(&transaction, "1", &subscribing("ada@example.test")).await.expect("accepted");
    let other = setting.application().await;
    other.batch_execute("set lock_timeout = '5s'").await.expect("a setting");
    accept(&other, "2", &subscribing("grace@example.test")).await.expect("accepted without a wait");
    transaction.rollback().await.expect("a rollback");
}

#[tokio::test]
async fn an_application_that_reads_an_old_snapshot_is_told_to_repeat_and_not_answered_wrongly() {
    let setting = Setting::new().await;
    let early = setting.application().await;
    accept(&early, "before", &subscribing("ada@example.test")).await.expect("accepted");
    for (isolation, round) in [("repeatable read", 1), ("serializable", 2)] {
        let new = format!("new-{round}@example.test");
        let late = setting.application().await;
        // The same key, the same stream, and a contact that the snapshot does not hold.
        for (meanwhile, key, email) in
            [("a", "a", "ada@example.test"), ("b", "c", "ada@example.test"), ("d", "e", &new)]
        {
            let (meanwhile, key) = (format!("{meanwhile}{round}"), format!("{key}{round}"));
            let begin =
                format!("begin isolation level {isolation}; select count(*) from hubferry.subscription_requests");
            late.batch_execute(&begin).await.expect("a snapshot");
            accept(&early, &meanwhile, &subscribing(email)).await.expect("accepted");
            let error = accept(&late, &key, &subscribing(email)).await.expect_err("the snapshot is too old");
            assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{isolation} {key}");
            late.batch_execute("rollback").await.expect("a rollback");
        }
    }
    expect_whole_streams(&setting, "old snapshots").await;
}
