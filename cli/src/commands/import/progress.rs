//! Where an import is, in a file beside the imported one, so that a killed run continues instead of starting over.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::source::{FileHash, hex};
use crate::arguments::ImportArgs;

/// A place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The number of its line, from 1.
    pub(super) line: u64,
    /// The bytes before it.
    pub(super) byte: u64,
}

/// Rows so far, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) rows: u64,
    pub(super) accepted: u64,
    pub(super) replayed: u64,
    pub(super) rejected: u64,
}

/// What a later run has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Which import this is; another file, database or value for missing cells makes another import.
    identity: String,
    /// The first row that is not accounted for.
    #[serde(flatten)]
    pub(super) place: Place,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// Length of the list of rejected rows; what follows in it belongs to a batch that is repeated.
    pub(super) rejected_bytes: u64,
    #[serde(skip)]
    path: PathBuf,
}

/// Beside the imported file, so that the same command finds it.
pub(super) fn path(imported: &Path) -> PathBuf {
    let mut path = imported.to_owned().into_os_string();
    path.push(".hubferry-progress");
    path.into()
}

/// Tells an import from every other whose progress must not be mistaken for its own.
pub(super) fn identity(args: &ImportArgs, file: &FileHash, database: &str) -> anyhow::Result<String> {
    let all =
        json!({"file": file.to_hex(), "database": database, "defaults": args.defaults, "delimiter": args.delimiter});
    Ok(hex(&Sha256::digest(serde_json::to_vec(&all)?)))
}

impl Progress {
    /// An import that begins.
    pub(super) fn new(path: PathBuf, identity: String, place: Place) -> Self {
        Self { identity, place, counts: Counts::default(), rejected_bytes: 0, path }
    }

    /// What an earlier run of the same import left. A file that can't be read counts as none: starting over is slower, and
    /// as safe.
    pub(super) fn load(path: PathBuf, identity: &str) -> Option<Self> {
        let progress: Self = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        (progress.identity == identity).then_some(Self { path, ..progress })
    }

    /// Replaces the file as a whole, so that a reader never finds half of it.
    pub(super) fn save(&self) -> anyhow::Result<()> {
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        self.write(Path::new(&beside)).with_context(|| {
            format!("the progress can't be written to {}, and without it no import is begun", self.path.display())
        })
    }

    fn write(&self, beside: &Path) -> std::io::Result<()> {
        let mut file = File::create(beside)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_data()?;
        fs::rename(beside, &self.path)
    }

    /// The import is complete.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_found_by_the_same_import_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contacts.csv.hubferry-progress");
        let mut progress = Progress::new(path.clone(), "a".into(), Place { line: 2, byte: 6 });
        progress.counts.rows = 500;
        progress.save().unwrap();
        assert_eq!(Progress::load(path.clone(), "a"), Some(progress.clone()));
        assert_eq!(Progress::load(path.clone(), "b"), None);
        progress.remove().unwrap();
        assert_eq!(Progress::load(path, "a"), None);
    }

    #[test]
    fn half_a_file_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress");
        fs::write(&path, "{\"identity\": \"a\"").unwrap();
        assert_eq!(Progress::load(path, "a"), None);
    }
}
