//! The file: opened once, hashed, its header read.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use super::header::Header;
use super::progress::Place;
use super::records::RecordReader;
use super::row::{RowReader, RowRules};
use crate::arguments::ImportArgs;
use crate::end::Misuse;

/// Bytes hashed at a time.
const HASH_CHUNK_BYTES: usize = 256 * 1024;

/// Characters of the hash in an idempotency key: 64 bits tell an application's files apart.
const KEY_HASH_CHARACTERS: usize = 16;

/// SHA-256 of a file's bytes.
pub(super) struct FileHash([u8; 32]);

/// An open file whose header makes sense.
pub(super) struct Source {
    file: File,
    bytes: u64,
    header: Header,
    first_row: Place,
}

impl Source {
    /// Opens the file and reads its header. Errors: not a readable file, another import of it is running, a header that
    /// does not do.
    pub(super) fn open(args: &ImportArgs) -> anyhow::Result<Self> {
        let name = args.file.display();
        let file = File::open(&args.file).with_context(|| format!("{name} can't be opened"))?;
        let metadata = file.metadata().with_context(|| format!("{name} can't be read"))?;
        if !metadata.is_file() {
            return Err(Misuse(format!("{name} is no ordinary file: an import reads it twice")).into());
        }
        // Some network file systems have no locks. There the receipts alone keep two imports of one file from harm.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            bail!("another import of {name} is running");
        }
        let mut records = RecordReader::new(&file, args.delimiter, Place { line: 1, byte: 0 });
        let first = records.next().with_context(|| format!("{name} can't be read"))?;
        let first_row = records.place();
        let header =
            Header::read(first, args.delimiter, &args.defaults).map_err(|fault| Misuse(format!("{name}: {fault}")))?;
        Ok(Self { file, bytes: metadata.len(), header, first_row })
    }

    /// Length of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the first row after the header is.
    pub(super) fn first_row(&self) -> Place {
        self.first_row
    }

    /// Reads the whole file once.
    pub(super) fn hash(&self) -> anyhow::Result<FileHash> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let (mut hasher, mut chunk) = (Sha256::new(), vec![0; HASH_CHUNK_BYTES]);
        loop {
            let length = file.read(&mut chunk).context("the file can't be read to its end")?;
            if length == 0 {
                return Ok(FileHash(hasher.finalize().into()));
            }
            hasher.update(&chunk[..length]);
        }
    }

    /// The rows from a place on.
    pub(super) fn rows<'a>(
        &'a self,
        from: Place,
        args: &'a ImportArgs,
        hash: &FileHash,
    ) -> anyhow::Result<RowReader<'a>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(from.byte)).context("the file can't be read from its middle")?;
        let records = RecordReader::new(file, args.delimiter, from);
        let rules = RowRules { header: &self.header, defaults: &args.defaults, key_prefix: hash.key_prefix() };
        Ok(RowReader::new(records, rules, usize::from(args.batch_size)))
    }
}

impl FileHash {
    /// In hexadecimal digits.
    pub(super) fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// What idempotency keys of the file's rows begin with.
    fn key_prefix(&self) -> String {
        format!("import:{}:", &self.to_hex()[..KEY_HASH_CHARACTERS])
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
