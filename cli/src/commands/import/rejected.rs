//! The list of rejected rows: where and why, never what stood there.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use hubferry::adapters::db::AcceptFault;

use crate::end::Misuse;

const HEADER: &str = "line,code,field,detail\n";

/// Beside the imported file: `contacts.csv` has `contacts.rejected.csv`.
pub(super) fn path(imported: &Path) -> PathBuf {
    let is_csv = imported.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    let mut path = if is_csv { imported.with_extension("") } else { imported.to_owned() }.into_os_string();
    path.push(".rejected.csv");
    path.into()
}

/// Whether the list is still there, as long as it was left.
pub(super) fn is_whole(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() >= bytes)
}

/// An open list.
pub(super) struct RejectedList {
    path: PathBuf,
    file: File,
    /// Rows that are not written yet; a batch's at the most.
    waiting: csv::Writer<Vec<u8>>,
    bytes: u64,
}

impl RejectedList {
    /// Opens the list with its first `keep` bytes; what follows them belongs to a batch that is repeated. The list of an
    /// earlier run is replaced; any other file is left alone and refused.
    pub(super) fn open(path: PathBuf, imported: &Path, keep: u64) -> anyhow::Result<Self> {
        check_is_ours(&path, imported)?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| cannot_write(&path))?;
        file.set_len(keep).with_context(|| cannot_write(&path))?;
        let mut bytes = file.seek(SeekFrom::End(0)).with_context(|| cannot_write(&path))?;
        if bytes == 0 {
            file.write_all(HEADER.as_bytes()).with_context(|| cannot_write(&path))?;
            bytes = HEADER.len() as u64;
        }
        Ok(Self { path, file, waiting: csv::Writer::from_writer(Vec::new()), bytes })
    }

    /// The list's length.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a row.
    pub(super) fn add(&mut self, line: u64, fault: &AcceptFault) -> anyhow::Result<()> {
        let row = [&line.to_string(), &fault.code, column_of(&fault.field), &fault.detail];
        self.waiting.write_record(row).context("a rejected row can't be written down")
    }

    /// Writes what was added; returns the list's length.
    pub(super) fn sync(&mut self) -> anyhow::Result<u64> {
        let written = std::mem::replace(&mut self.waiting, csv::Writer::from_writer(Vec::new()));
        let rows = written.into_inner().ok().context("rejected rows can't be written down")?;
        if !rows.is_empty() {
            self.file
                .write_all(&rows)
                .and_then(|()| self.file.sync_data())
                .with_context(|| cannot_write(&self.path))?;
            self.bytes += rows.len() as u64;
        }
        Ok(self.bytes)
    }

    /// Removes the list when it is empty; else returns where it is.
    pub(super) fn close(self) -> anyhow::Result<Option<PathBuf>> {
        if self.bytes > HEADER.len() as u64 {
            return Ok(Some(self.path));
        }
        fs::remove_file(&self.path).with_context(|| format!("{} can't be removed", self.path.display()))?;
        Ok(None)
    }
}

fn cannot_write(path: &Path) -> String {
    format!("rejected rows can't be listed in {}", path.display())
}

/// A list of ours, or nothing at all.
fn check_is_ours(path: &Path, imported: &Path) -> anyhow::Result<()> {
    let Ok(existing) = File::open(path) else { return Ok(()) };
    let is_same = fs::canonicalize(path).ok() == fs::canonicalize(imported).ok();
    let mut first = String::new();
    let read = existing.take(HEADER.len() as u64).read_to_string(&mut first);
    let is_ours = read.is_ok() && (first.is_empty() || first == HEADER);
    ensure!(
        !is_same && is_ours,
        Misuse(format!("{} exists and is no list of rejected rows: name another file by --rejected", path.display()))
    );
    Ok(())
}

/// The column that a field of a request comes from.
fn column_of(field: &str) -> &str {
    let field = field.strip_prefix("contact.").unwrap_or(field);
    match field.strip_prefix("consent").unwrap_or(field) {
        "" if field == "consent" => "legal_basis",
        rest => rest.strip_prefix('.').unwrap_or(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(field: &str) -> AcceptFault {
        AcceptFault { code: "invalid_email".into(), field: field.into(), detail: "must be one address, no more".into() }
    }

    #[test]
    fn a_continued_list_loses_what_is_repeated_and_an_empty_one_vanishes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, imported) = (folder.path().join("list.csv"), folder.path().join("contacts.csv"));
        let mut list = RejectedList::open(path.clone(), &imported, 0).unwrap();
        list.add(3, &fault("contact.email")).unwrap();
        let kept = list.sync().unwrap();
        list.add(9, &fault("contact.email")).unwrap();
        list.sync().unwrap();

        let list = RejectedList::open(path.clone(), &imported, kept).unwrap();
        assert_eq!(list.close().unwrap(), Some(path.clone()));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "line,code,field,detail\n3,invalid_email,email,\"must be one address, no more\"\n");

        assert_eq!(RejectedList::open(path.clone(), &imported, 0).unwrap().close().unwrap(), None);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_list_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious.csv");
        fs::write(&path, "email,brand\n").unwrap();
        assert!(RejectedList::open(path.clone(), &folder.path().join("contacts.csv"), 0).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "email,brand\n");
    }

    #[test]
    fn the_list_stands_beside_the_file() {
        let list = |file: &str| path(Path::new(file)).display().to_string();
        assert_eq!(
            ["a/b.csv", "b.CSV", "b.txt", "b"].map(list),
            ["a/b.rejected.csv", "b.rejected.csv", "b.txt.rejected.csv", "b.rejected.csv"]
        );
    }

    #[test]
    fn fields_are_named_as_columns() {
        let columns =
            ["contact.email", "contact.properties.city", "consent", "consent.given_at", "brand", ""].map(column_of);
        assert_eq!(columns, ["email", "properties.city", "legal_basis", "given_at", "brand", ""]);
    }
}
