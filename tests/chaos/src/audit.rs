//! Triggers in the run's own database that write down who changed a row, and make a statement slow on demand.

use anyhow::Context as _;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const INSTALL: &str = "
create schema chaos;
create table chaos.audit (
    id bigserial primary key, at timestamptz not null default clock_timestamp(), session integer not null default pg_backend_pid(),
    process text not null default current_setting('application_name'),
    what text not null, event_id uuid, contact_key text, old_status text, new_status text, sequence bigint,
    old_token uuid, new_token uuid, old_expires_at timestamptz);
create table chaos.slow_finish (seconds double precision not null);

create function chaos.note_event() returns trigger language plpgsql as $$
begin
    insert into chaos.audit (what, event_id, sequence, old_status, new_status, old_token, new_token, old_expires_at)
    values ('event', new.event_id, new.sequence, old.status, new.status, old.lease_token, new.lease_token, old.lease_expires_at);
    return null;
end $$;
create trigger chaos_note_event after update on hubferry.outbox_events for each row
    when (old.status is distinct from new.status or old.lease_token is distinct from new.lease_token)
    execute function chaos.note_event();

create function chaos.note_contact() returns trigger language plpgsql as $$
begin
    insert into chaos.audit (what, contact_key, old_token, new_token, old_expires_at)
    values ('contact', new.contact_key, old.lease_token, new.lease_token, old.lease_expires_at);
    return null;
end $$;
create trigger chaos_note_contact after update on hubferry.contact_links for each row
    when (old.lease_token is distinct from new.lease_token)
    execute function chaos.note_contact();

create function chaos.be_slow() returns trigger language plpgsql as $$
begin
    perform pg_sleep(seconds) from chaos.slow_finish;
    return null;
end $$;
create trigger chaos_be_slow after insert on hubferry.applied_states for each statement execute function chaos.be_slow();
";

/// Installs the triggers.
pub(crate) async fn install(db: &Client) -> anyhow::Result<()> {
    db.batch_execute(INSTALL).await.context("the audit can't be installed")
}

/// Makes every finish take this long, or none with 0.
pub(crate) async fn slow_finish(db: &Client, seconds: f64) -> anyhow::Result<()> {
    db.batch_execute("delete from chaos.slow_finish").await?;
    if seconds > 0.0 {
        db.execute("insert into chaos.slow_finish values ($1)", &[&seconds]).await?;
    }
    Ok(())
}

/// Ends the sessions of workers that are in the middle of a finish. Answers how many.
pub(crate) async fn break_finish(db: &Client) -> anyhow::Result<i64> {
    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and application_name like 'worker-%' and wait_event = 'PgSleep'";
    match db.query_one(sql, &[]).await {
        Ok(row) => Ok(row.get(0)),
        // A session that is just ending has no role any more that could be compared with ours.
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// What the trail shows that must not happen, with the contact's event or key where there is one.
pub(crate) async fn offences(db: &Client) -> anyhow::Result<Vec<String>> {
    let sql = "
        select format('a finished event changed: %s from %s to %s by %s', event_id, old_status, new_status, session)
        from chaos.audit
        where what = 'event' and old_status in ('synced', 'superseded', 'dead', 'cancelled')
          and process <> 'chaos'
          -- An erasure cancels what is dead, so that nobody replays it.
          and (old_status, new_status) <> ('dead', 'cancelled')
        union all
        select format('a live lease on contact %s was taken from its owner %s by %s (%s), %s before its end',
                      contact_key, old_token, new_token, session, old_expires_at - at)
        from chaos.audit
        where what = 'contact' and old_token is not null and new_token is not null and old_expires_at > at
        union all
        select format('a live lease on event %s was taken from its owner %s by %s (%s)', event_id, old_token, new_token, session)
        from chaos.audit
        where what = 'event' and old_status = 'processing' and new_token is not null and old_expires_at > at
        union all
        select format('%s %s was finished by %s in the place of its owner %s (%s), %s before the end of the lease',
                      a.what, coalesce(a.event_id::text, a.contact_key), a.process, owner.process, a.old_token, a.old_expires_at - a.at)
        from chaos.audit a
        join (select distinct new_token as token, process from chaos.audit where what = 'event' and new_status = 'processing') as owner
            on owner.token = a.old_token
        where a.new_token is null and a.process <> 'chaos' and a.process <> owner.process and a.old_expires_at > a.at";
    let rows = db.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// How many events a token lost because its lease had ended.
pub(crate) async fn taken_over(db: &Client, token: uuid::Uuid) -> anyhow::Result<i64> {
    let sql = "select count(distinct event_id) from chaos.audit
               where what = 'event' and old_token = $1 and new_token is distinct from $1 and old_expires_at <= at";
    Ok(db.query_one(sql, &[&token]).await?.get(0))
}

/// Whether somebody works on an event that another owner held before.
pub(crate) async fn is_retaken(db: &Client) -> anyhow::Result<bool> {
    let sql = "select exists (select from hubferry.outbox_events e join chaos.audit a using (event_id)
                              where e.status = 'processing' and a.old_status = 'processing' and a.at > clock_timestamp() - interval '10 s')";
    Ok(db.query_one(sql, &[]).await?.get(0))
}
