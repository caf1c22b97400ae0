//! The measure of the load: the same notifications as rows alone, which pgbench inserts as fast as PostgreSQL takes them.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;
use url::Url;

use super::{AT_ONCE, IN_A_REQUEST, Latency, Measured};
use crate::servers::pgbench;
use crate::world::World;

/// A table with the same columns, checks and indexes, and all batches ready in another, so that nothing but a number travels.
const STAGE: &str = "
    create table hubferry.plain (like hubferry.webhook_events including all);
    create sequence hubferry.turn;
    create table hubferry.batches as
    select (e.place - 1) / SIZE + 1 as n, array_agg(notification_key) as notification_key, array_agg(delivery_id) as delivery_id,
           array_agg(position) as position, array_agg(portal_id) as portal_id, array_agg(subscription_type) as subscription_type,
           array_agg(object_type) as object_type, array_agg(object_id) as object_id, array_agg(property_name) as property_name,
           array_agg(property_value) as property_value, array_agg(occurred_at) as occurred_at, array_agg(event_id) as event_id,
           array_agg(change_source) as change_source, array_agg(details) as details
    from (select o.*, row_number() over (order by o.received_at, o.notification_key) as place from hubferry.webhook_events o) as e
    group by 1;
    alter table hubferry.batches add primary key (n);
    analyze hubferry.batches";

/// One transaction: one batch.
const INSERT: &str =
    "insert into hubferry.plain (notification_key, delivery_id, position, portal_id, subscription_type, object_type,
    object_id, property_name, property_value, occurred_at, event_id, change_source, details)
select u.*
from (select * from hubferry.batches where n = (select nextval('hubferry.turn'))) as b,
     unnest(b.notification_key, b.delivery_id, b.position, b.portal_id, b.subscription_type, b.object_type,
            b.object_id, b.property_name, b.property_value, b.occurred_at, b.event_id, b.change_source, b.details) as u;
";

/// What pgbench says of its run.
#[derive(Debug, PartialEq)]
struct Said {
    transactions: u32,
    a_second: f64,
    average: Duration,
}

/// Inserts all notifications of this world once more, ten clients at once, a hundred rows a transaction.
pub(super) async fn plain_inserts(world: &World) -> Measured {
    world.sql(&STAGE.replace("SIZE", &IN_A_REQUEST.to_string())).await;
    let batches = super::number(world, "select count(*) from hubferry.batches").await;
    let clients = u64::try_from(AT_ONCE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let said = run(world, folder.path(), clients, batches.div_ceil(clients)).await;
    let rows = super::number(world, "select count(*) from hubferry.plain").await;
    let took = Duration::from_secs_f64(f64::from(said.transactions) / said.a_second);
    let latency = Latency { average: Some(said.average), ..Latency::of(times(folder.path())) };
    Measured { notifications: rows, took, latency: Some(latency) }
}

/// The last of each client's turns may find that no batch is left.
async fn run(world: &World, folder: &Path, clients: u64, each: u64) -> Said {
    let script = folder.join("insert.sql");
    std::fs::write(&script, INSERT).unwrap();
    let url: Url = world.database.url.parse().unwrap();
    let output = Command::new(pgbench())
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--log", "--log-prefix=times"])
        .args([format!("--client={clients}"), format!("--transactions={each}")])
        .arg(format!("--file={}", script.display()))
        .current_dir(folder)
        .env("LC_ALL", "C")
        .env("PGHOST", url.host_str().unwrap())
        .env("PGPORT", url.port().unwrap_or(5432).to_string())
        .env("PGUSER", url.username())
        .env("PGPASSWORD", url.password().unwrap_or_default())
        .env("PGDATABASE", url.path().trim_start_matches('/'))
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let said = read(&text).unwrap_or_else(|| panic!("pgbench speaks another language: {text}"));
    assert_eq!(u64::from(said.transactions), clients * each, "{text}");
    said
}

fn read(text: &str) -> Option<Said> {
    let behind = |mark: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(mark))?;
        rest.split(|c: char| c == '/' || c.is_whitespace()).next()
    };
    let average: f64 = behind("latency average = ")?.parse().ok()?;
    Some(Said {
        transactions: behind("number of transactions actually processed: ")?.parse().ok()?,
        a_second: behind("tps = ")?.parse().ok()?,
        average: Duration::from_secs_f64(average / 1000.0),
    })
}

/// How long each transaction took: the third column of pgbench's logs, in microseconds. A thread has a log of its own.
fn times(folder: &Path) -> Vec<Duration> {
    let logs = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let logs = logs.filter(|entry| entry.file_name().to_string_lossy().starts_with("times."));
    let time = |line: &str| Duration::from_micros(line.split(' ').nth(2).unwrap().parse().unwrap());
    logs.flat_map(|log| std::fs::read_to_string(log.path()).unwrap().lines().map(time).collect::<Vec<_>>()).collect()
}

#[test]
fn what_pgbench_says_is_read() {
    let text = "number of clients: 10\nnumber of transactions actually processed: 350/350\nlatency average = 7.250 ms\n\
                initial connection time = 21.009 ms\ntps = 1025.500000 (without initial connection time)\n";
    let expected = Said { transactions: 350, a_second: 1025.5, average: Duration::from_micros(7250) };
    assert_eq!(read(text), Some(expected));
    assert_eq!(read("number of clients: 10\n"), None);
}
