//! `hubferry import`: a CSV file through the database's door, in the file's order.
//!
//! A batch is accepted by one statement, then its rejected rows are listed, then the progress is written. Whatever happens
//! between two of these, the same command run again repeats at most one batch, and that batch is answered from its receipts.

mod door;
mod header;
mod meter;
mod progress;
mod records;
mod rejected;
mod row;
mod source;
mod stop;

use std::time::Instant;

use anyhow::Context as _;
use hubferry::adapters::db;
use hubferry::config::Environment;
use serde_json::{Value, json};

use super::database;
use crate::arguments::ImportArgs;
use crate::end::End;
use crate::output;

use door::{Door, Unsent};
use meter::Meter;
use progress::{Counts, Place, Progress};
use rejected::{Rejected, RejectedList};
use row::RowReader;
use source::Source;
use stop::Stop;

/// What to do after a stop. The receipts make it safe, the progress makes it quick.
const CONTINUE: &str = "continue by running the same command again";

pub(crate) async fn run(args: ImportArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let db = database(environment)?;
    let source = Source::open(&args)?;
    let identity = db::database_identity(&*db.connection().await?).await.context("is the schema there? Run `hubferry migrate`")?;
    let mut import = Import::begin(&args, &source, &identity)?;
    let door = Door { db, stop: Stop::on_signal() };
    let started = Instant::now();
    import.work(&door).await?;
    let summary = import.end(&args, started)?;
    output::result(json, &summary, &text(&summary));
    Ok(if summary["rejected"] == 0 { End::Done } else { End::SomeRejected })
}

/// An import under way.
struct Import<'a> {
    rows: RowReader<'a>,
    progress: Progress,
    rejected: RejectedList,
    meter: Meter,
    resumed_at_line: Option<u64>,
}

impl<'a> Import<'a> {
    /// From the file's first row, or from where the same import stopped.
    fn begin(args: &'a ImportArgs, source: &'a Source, database: &str) -> anyhow::Result<Self> {
        let hash = source.hash()?;
        let found = Progress::load(&args.file, &hash, &progress::identity(args, database))?;
        let resumed_at_line = found.is_resumed.then_some(found.progress.place.line);
        let mut progress = found.progress;
        if !found.is_resumed {
            progress.place = source.first_row();
        }
        let rejected = RejectedList::open(&rejected::path(args), &args.file, progress.rejected_bytes)?;
        progress.rejected_bytes = rejected.bytes();
        progress.save()?;
        if let Some(line) = resumed_at_line {
            output::note(&format!("continuing at line {line}, after {} rows", progress.counts.rows));
        }
        let rows = source.rows(progress.place, &args.defaults, &hash, usize::from(args.batch_size))?;
        let meter = Meter::new(source.bytes(), &progress);
        Ok(Self { rows, progress, rejected, meter, resumed_at_line })
    }

    async fn work(&mut self, door: &Door) -> anyhow::Result<()> {
        loop {
            if door.stop.is_requested() {
                anyhow::bail!("stopped before line {}: {CONTINUE}", self.progress.place.line);
            }
            let batch = self.rows.next_batch().context("the file can't be read to its end")?;
            if batch.rows.is_empty() {
                return Ok(());
            }
            let (lines, requests): (Vec<u64>, Vec<Value>) =
                batch.rows.iter_mut_requests().unzip();
            let _ = (lines, requests);
        }
    }
}
