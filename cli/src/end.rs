//! How a command can end, and the exit code that says so.

use std::process::ExitCode;

/// The codes, as `--help` shows them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed; what was done so far stays, and the same command may be run again
  2  the command, or the file that it names, is wrong; nothing was written
  3  done, and some rows were rejected";

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All of it.
    Done,
    /// All but some rows, which are listed.
    SomeRejected,
    /// It could not be done.
    Failed,
    /// It was asked for wrongly.
    Misused,
}

/// What was asked for can't be done as it was said: a person has to change the command or the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misuse(pub(crate) String);

impl End {
    /// The end that an error stands for.
    pub(crate) fn of_failure(error: &anyhow::Error) -> Self {
        if error.downcast_ref::<Misuse>().is_some() { Self::Misused } else { Self::Failed }
    }
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::SUCCESS,
            End::Failed => Self::from(1),
            End::Misused => Self::from(2),
            End::SomeRejected => Self::from(3),
        }
    }
}
