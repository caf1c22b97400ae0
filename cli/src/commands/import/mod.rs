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

use door::Door;
use meter::Meter;
use progress::Progress;
use rejected::RejectedList;
use row::{Batch, RowReader};
use source::Source;
use stop::Stop;

/// What to do after a stop. The receipts make it safe, the progress makes it quick.
const CONTINUE: &str = "continue by running the same command again";

pub(crate) async fn run(args: ImportArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let db = database(environment)?;
    let source = Source::open(&args)?;
    let identity = db::database_identity(&*db.connection().await?).await?;
    let door = Door { db, stop: Stop::on_signal() };
    let started = Instant::now();
    let mut import = Import::begin(&args, &source, &identity)?;
    import.work(&door).await?;
    import.end(started, json)
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
        let identity = progress::identity(args, &hash, database)?;
        let path = progress::path(&args.file);
        let list = args.rejected.clone().unwrap_or_else(|| rejected::path(&args.file));
        // Without the whole list of its rejected rows an import is not worth continuing: starting over makes it again.
        let left =
            Progress::load(path.clone(), &identity).filter(|left| rejected::is_whole(&list, left.rejected_bytes));
        let resumed_at_line = left.as_ref().map(|progress| progress.place.line);
        let mut progress = left.unwrap_or_else(|| Progress::new(path, identity, source.first_row()));
        let rejected = RejectedList::open(list, &args.file, progress.rejected_bytes)?;
        progress.rejected_bytes = rejected.bytes();
        progress.save()?;
        if let Some(line) = resumed_at_line {
            output::note(&format!("continuing at line {line}, after {} rows", progress.counts.rows));
        }
        let rows = source.rows(progress.place, args, &hash)?;
        let meter = Meter::new(source.bytes(), &progress);
        Ok(Self { rows, progress, rejected, meter, resumed_at_line })
    }

    async fn work(&mut self, door: &Door) -> anyhow::Result<()> {
        loop {
            let line = self.progress.place.line;
            anyhow::ensure!(!door.stop.is_requested(), "stopped before line {line}: {CONTINUE}");
            let batch = self.rows.next_batch().context("the file can't be read to its end")?;
            if batch.rows.is_empty() {
                return Ok(());
            }
            self.accept(door, batch)
                .await
                .with_context(|| format!("the import stopped before line {line}: {CONTINUE}"))?;
            self.meter.update(&self.progress);
        }
    }

    /// Commits, lists, notes where to go on: in this order.
    async fn accept(&mut self, door: &Door, mut batch: Batch) -> anyhow::Result<()> {
        let requests = batch.rows.iter_mut().filter_map(|row| row.request.as_mut().ok().map(Value::take)).collect();
        let mut answers = door.accept(requests).await?.into_iter();
        let mut counts = self.progress.counts;
        for row in batch.rows {
            counts.rows += 1;
            let answer = match row.request {
                Ok(_) => answers.next().context("PostgreSQL answered fewer requests than it was sent")?,
                Err(fault) => Err(fault),
            };
            match answer {
                Ok(accepted) if accepted.replayed => counts.replayed += 1,
                Ok(_) => counts.accepted += 1,
                Err(fault) => {
                    counts.rejected += 1;
                    self.rejected.add(row.line, &fault)?;
                }
            }
        }
        self.progress.rejected_bytes = self.rejected.sync()?;
        self.progress.counts = counts;
        self.progress.place = batch.next;
        self.progress.save()
    }

    /// Clears away what only a continuation needs, and says what became of the file.
    fn end(self, started: Instant, json: bool) -> anyhow::Result<End> {
        self.meter.clear();
        let counts = self.progress.counts;
        self.progress.remove()?;
        let list = self.rejected.close()?.map(|path| path.display().to_string());
        let seconds = started.elapsed().as_secs_f64();
        let value = json!({
            "rows": counts.rows, "accepted": counts.accepted, "replayed": counts.replayed, "rejected": counts.rejected,
            "seconds": (seconds * 1000.0).round() / 1000.0, "rejected_file": list, "resumed_at_line": self.resumed_at_line,
        });
        let mut text = format!(
            "{} rows in {seconds:.1}s: {} accepted, {} replayed, {} rejected",
            counts.rows, counts.accepted, counts.replayed, counts.rejected
        );
        if let Some(list) = list {
            text = format!("{text}\nrejected rows are listed in {list}");
        }
        output::result(json, &value, &text);
        Ok(if counts.rejected == 0 { End::Done } else { End::SomeRejected })
    }
}
