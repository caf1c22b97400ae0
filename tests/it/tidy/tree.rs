//! The files of the repository, and what a rule says about them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Made by tools and people, not part of the project.
const IGNORED_FOLDERS: [&str; 6] = ["target", ".git", ".local", ".aws-sam", ".idea", ".vscode"];

/// What `make fuzz` writes: random text.
const IGNORED_PATHS: [&str; 2] = ["fuzz/found", "fuzz/artifacts"];

/// Written by a tool, under rules of its own.
const IGNORED_FILES: [&str; 1] = ["Cargo.lock"];

/// A text file.
pub(super) struct File {
    /// Relative to the root, with `/` between the parts.
    pub(super) path: String,
    pub(super) text: String,
}

/// A rule broken at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offence {
    pub(super) path: String,
    /// Counted from one.
    pub(super) line: usize,
    /// What is wrong and what to do.
    pub(super) advice: String,
}

impl File {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    pub(super) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    pub(super) fn is_under(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| self.path.starts_with(folder))
    }

    pub(super) fn offence(&self, line: usize, advice: impl Into<String>) -> Offence {
        Offence { path: self.path.clone(), line, advice: advice.into() }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.advice)
    }
}

/// Every text file of the repository, sorted by path; read once a process.
pub(super) fn files() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = Vec::new();
        collect(&root(), &mut files);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        assert!(!files.is_empty(), "found no file under {}", root().display());
        files
    })
}

/// The folder that holds the root manifest.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap_or_else(|error| panic!("no repository: {error}"))
}

fn collect(folder: &Path, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !IGNORED_FOLDERS.contains(&name.as_ref()) && !IGNORED_PATHS.contains(&relative(&path).as_str()) {
                collect(&path, files);
            }
        } else if !IGNORED_FILES.contains(&name.as_ref())
            && let Ok(text) = fs::read_to_string(&path)
        {
            files.push(File { path: relative(&path), text });
        }
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
