//! Records of a CSV file, one at a time and none larger than a limit, each with the line that it begins on.

use std::io::{self, BufRead as _, BufReader, Read};

use csv_core::ReadRecordResult;

use super::progress::Place;

/// Largest record in bytes, far above what a contact's properties need. A larger one is read past, not into memory.
const MOST_RECORD_BYTES: usize = 1024 * 1024;

/// Most fields of a record: HubSpot allows a thousand properties of its own kind on an object.
const MOST_FIELDS: usize = 2048;

/// Bytes read from the file at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Marks a file as UTF-8, as some programs write it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A record, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The line that it begins on.
    pub(super) line: u64,
    /// How many lines it takes.
    pub(super) lines: u64,
    pub(super) fields: Result<Vec<String>, RecordFault>,
}

/// What is wrong with a record before anything is known of its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordFault {
    /// It is larger than [`MOST_RECORD_BYTES`].
    TooLarge,
    /// It has more than [`MOST_FIELDS`].
    TooManyFields,
    /// The file ends within quotes.
    OpenQuote,
    /// A field is no UTF-8; its index.
    NotUtf8(usize),
}

/// Reads records, keeping one.
pub(super) struct RecordReader<R> {
    input: BufReader<R>,
    parser: csv_core::Reader,
    place: Place,
    after_return: bool,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl<R: Read> RecordReader<R> {
    /// Reads from a place that the input stands at: the beginning of the file, or of a record.
    pub(super) fn new(input: R, delimiter: u8, place: Place) -> Self {
        Self {
            input: BufReader::with_capacity(CHUNK_BYTES, input),
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            place,
            after_return: false,
            bytes: vec![0; MOST_RECORD_BYTES],
            ends: vec![0; MOST_FIELDS],
        }
    }

    /// Where the next record begins.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// The next record; `None` at the end of the file. Empty lines are no records.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        if self.place.byte == 0 && self.input.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            self.consume(BYTE_ORDER_MARK.len());
        }
        if !self.skip_line_ends()? {
            return Ok(None);
        }
        let line = self.place.line;
        let shape = self.read_record()?;
        self.finish_line_end()?;
        let fields = shape.and_then(|(bytes, fields)| self.fields(bytes, fields));
        Ok(Some(Record { line, lines: self.place.line - line, fields }))
    }

    /// Feeds the parser until the record ends. What is above a limit is parsed and dropped, so that the next record begins
    /// where it should. Returns how many bytes and fields were kept.
    fn read_record(&mut self) -> io::Result<Result<(usize, usize), RecordFault>> {
        let (mut bytes, mut fields, mut fault) = (0, 0, None);
        loop {
            let input = self.input.fill_buf()?;
            let is_end = input.is_empty();
            // A line end where the file has none: it ends the record, unless quotes are open.
            let input = if is_end { b"\n" } else { input };
            let (result, read, written, ended) =
                self.parser.read_record(input, &mut self.bytes[bytes..], &mut self.ends[fields..]);
            if !is_end {
                self.consume(read);
            }
            (bytes, fields) = (bytes + written, fields + ended);
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::InputEmpty if is_end => {
                    fault.get_or_insert(RecordFault::OpenQuote);
                    break;
                }
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => {
                    fault.get_or_insert(RecordFault::TooLarge);
                    bytes = 0;
                }
                ReadRecordResult::OutputEndsFull => {
                    fault.get_or_insert(RecordFault::TooManyFields);
                    fields = 0;
                }
            }
        }
        Ok(fault.map_or(Ok((bytes, fields)), Err))
    }

    fn fields(&self, bytes: usize, fields: usize) -> Result<Vec<String>, RecordFault> {
        let bytes = &self.bytes[..bytes];
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let bounds = starts.zip(self.ends[..fields].iter().copied());
        bounds
            .enumerate()
            .map(|(index, (start, end))| {
                std::str::from_utf8(&bytes[start..end]).map(str::to_owned).map_err(|_| RecordFault::NotUtf8(index))
            })
            .collect()
    }

    /// Goes to the next byte that is no line end; `false` when there is none.
    fn skip_line_ends(&mut self) -> io::Result<bool> {
        loop {
            let input = self.input.fill_buf()?;
            if input.is_empty() {
                return Ok(false);
            }
            match input.iter().position(|byte| !is_line_end(*byte)).unwrap_or(input.len()) {
                0 => return Ok(true),
                length => self.consume(length),
            }
        }
    }

    /// The parser ends a record at a carriage return; the line feed that belongs to it is left. Places between the two would
    /// count a line twice.
    fn finish_line_end(&mut self) -> io::Result<()> {
        if self.after_return && self.input.fill_buf()?.first() == Some(&b'\n') {
            self.consume(1);
        }
        Ok(())
    }

    /// Moves on, counting lines: a line feed, a carriage return, or both together end one.
    fn consume(&mut self, length: usize) {
        for byte in &self.input.buffer()[..length] {
            if *byte == b'\r' || *byte == b'\n' && !self.after_return {
                self.place.line += 1;
            }
            self.after_return = *byte == b'\r';
        }
        self.place.byte += length as u64;
        self.input.consume(length);
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests;
