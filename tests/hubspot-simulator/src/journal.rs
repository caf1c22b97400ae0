//! The state on disk: a line of JSON for every change, appended before the call is answered.
//!
//! A line that is complete in the operating system's cache survives `kill -9`; the simulator promises no more, so it
//! does not wait for the disk. A torn last line is the change of a call that was never answered, and is dropped.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write},
    path::Path,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::{account::Account, change::Change, ids::PortalId};

/// Lines above which a start writes the journal afresh, so that it does not grow for ever.
const COMPACT_ABOVE_LINES: usize = 20_000;

#[derive(Serialize, Deserialize)]
struct Line<C> {
    portal: PortalId,
    #[serde(flatten)]
    change: C,
}

/// The open journal.
pub(crate) struct Journal {
    file: File,
}

impl Journal {
    /// Replays the journal into the accounts and opens it for appending.
    pub(crate) fn open(path: &Path, accounts: &mut [Account]) -> anyhow::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).with_context(|| format!("opening {}", path.display()))?;
        let Replayed { lines, good_bytes } = replay(&file, accounts)?;
        file.set_len(good_bytes)?;
        if lines > COMPACT_ABOVE_LINES {
            file = compact(path, accounts)?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// Appends the changes of one call with a single write.
    pub(crate) fn append(&mut self, portal: PortalId, changes: &[Change]) -> anyhow::Result<()> {
        let mut text = Vec::new();
        for change in changes {
            write_line(&mut text, portal, change)?;
        }
        self.file.write_all(&text).context("appending to the state file")
    }
}

struct Replayed {
    lines: usize,
    good_bytes: u64,
}

fn replay(file: &File, accounts: &mut [Account]) -> anyhow::Result<Replayed> {
    let mut reader = BufReader::new(file);
    let mut replayed = Replayed { lines: 0, good_bytes: 0 };
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).context("reading the state file")?;
        if !line.ends_with(b"\n") {
            return Ok(replayed);
        }
        let number = replayed.lines + 1;
        let Line { portal, change }: Line<Change> =
            serde_json::from_slice(&line).with_context(|| format!("line {number} of the state file"))?;
        let account = accounts.iter_mut().find(|account| account.settings.portal_id == portal);
        if let Some(account) = account {
            account.apply(change);
        }
        replayed.lines = number;
        replayed.good_bytes += length as u64;
    }
}

/// Writes the state afresh beside the journal and then takes its place, so that a crash leaves one of the two whole.
fn compact(path: &Path, accounts: &[Account]) -> anyhow::Result<File> {
    let beside = path.with_extension("compacting");
    let mut writer = BufWriter::new(File::create(&beside)?);
    for account in accounts {
        for change in account.as_changes() {
            write_line(&mut writer, account.settings.portal_id, &change)?;
        }
    }
    let file = writer.into_inner().context("compacting the state file")?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    Ok(file)
}

fn write_line(to: &mut impl Write, portal: PortalId, change: &Change) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *to, &Line { portal, change })?;
    to.write_all(b"\n")?;
    Ok(())
}
