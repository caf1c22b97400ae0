//! From a record to the request that the database's door takes.
//!
//! What a request must hold is said in one place, the door itself; here is only what CSV and PostgreSQL demand.

use std::fs::File;
use std::io;

use hubferry::adapters::db::AcceptFault;
use hubferry::model::email::with_ascii_domain;
use serde_json::{Map, Value};

use super::header::{Column, Header};
use super::progress::Place;
use super::records::{Record, RecordFault, RecordReader};
use crate::arguments::RowDefaults;

/// A batch ends early at this size, so that a file of huge rows needs no more memory and no slower statement than others.
const MOST_BATCH_BYTES: u64 = 4 * 1024 * 1024;

/// The state that needs a consent.
const SUBSCRIBED: &str = "subscribed";

/// What turns records into requests.
pub(super) struct RowRules<'a> {
    pub(super) header: &'a Header,
    pub(super) defaults: &'a RowDefaults,
    /// Begins the idempotency keys of rows that have none; the line's number follows.
    pub(super) key_prefix: String,
}

/// A row of the file.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) line: u64,
    /// What to accept, or why it is not even asked for.
    pub(super) request: Result<Value, AcceptFault>,
}

/// Rows that are accepted together.
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
    /// Where the next batch begins.
    pub(super) next: Place,
}

/// Reads rows by batches.
pub(super) struct RowReader<'a> {
    records: RecordReader<&'a File>,
    rules: RowRules<'a>,
    most_rows: usize,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(records: RecordReader<&'a File>, rules: RowRules<'a>, most_rows: usize) -> Self {
        Self { records, rules, most_rows }
    }

    /// The next rows in order; none at the end of the file.
    pub(super) fn next_batch(&mut self) -> io::Result<Batch> {
        let (mut rows, start) = (Vec::new(), self.records.place().byte);
        while rows.len() < self.most_rows {
            let Some(record) = self.records.next()? else { break };
            rows.extend(self.rules.row(record));
            if !rows.is_empty() && self.records.place().byte - start >= MOST_BATCH_BYTES {
                break;
            }
        }
        Ok(Batch { rows, next: self.records.place() })
    }
}

impl RowRules<'_> {
    /// The row of a record; `None` for one whose cells are all empty, as spreadsheets leave them at the end.
    fn row(&self, record: Record) -> Option<Row> {
        let request = match record.fields {
            Ok(cells) if cells.iter().all(|cell| cell.trim().is_empty()) => return None,
            Ok(cells) if cells.len() != self.header.columns.len() => Err(self.wrong_count(cells.len(), record.lines)),
            Ok(cells) => self.check_characters(&cells).map(|()| self.request(record.line, cells)),
            Err(fault) => Err(self.unreadable(fault, record.lines)),
        };
        Some(Row { line: record.line, request })
    }

    fn request(&self, line: u64, cells: Vec<String>) -> Value {
        let (mut row, mut contact, mut consent, mut properties) = (Map::new(), Map::new(), Map::new(), Map::new());
        for (column, cell) in self.header.columns.iter().zip(cells) {
            if cell.trim().is_empty() {
                continue;
            }
            let trimmed = || Value::from(cell.trim());
            match column {
                Column::Email => contact
                    .insert("email".into(), with_ascii_domain(&cell).unwrap_or_else(|| cell.trim().to_owned()).into()),
                Column::Key => contact.insert(column.name(), trimmed()),
                Column::Property(name) => properties.insert(name.clone(), cell.into()),
                Column::LegalBasis | Column::Explanation | Column::GivenAt => consent.insert(column.name(), trimmed()),
                Column::Brand | Column::Product | Column::DesiredState | Column::Lane | Column::IdempotencyKey => {
                    row.insert(column.name(), trimmed())
                }
            };
        }
        self.add_defaults(&mut row, line);
        self.add_consent(&mut row, consent);
        if !properties.is_empty() {
            contact.insert("properties".into(), properties.into());
        }
        row.insert("contact".into(), contact.into());
        row.into()
    }

    fn add_defaults(&self, row: &mut Map<String, Value>, line: u64) {
        let RowDefaults { brand, product, desired_state, lane, .. } = self.defaults;
        let key = format!("{}{line}", self.key_prefix);
        let defaults = [
            ("brand", brand.as_ref()),
            ("product", product.as_ref()),
            ("desired_state", desired_state.as_ref()),
            ("lane", Some(lane)),
            ("idempotency_key", Some(&key)),
        ];
        for (name, value) in defaults {
            if let Some(value) = value.filter(|_| !row.contains_key(name)) {
                row.insert(name.into(), value.as_str().into());
            }
        }
    }

    /// The options speak of people who subscribe. Who leaves needs no consent: theirs is sent only when the row itself has
    /// a legal basis.
    fn add_consent(&self, row: &mut Map<String, Value>, mut consent: Map<String, Value>) {
        if row.get("desired_state").is_some_and(|state| state == SUBSCRIBED) {
            let RowDefaults { legal_basis, explanation, .. } = self.defaults;
            for (name, value) in [("legal_basis", legal_basis), ("explanation", explanation)] {
                if let Some(value) = value.as_ref().filter(|_| !consent.contains_key(name)) {
                    consent.insert(name.into(), value.as_str().into());
                }
            }
        } else if !consent.contains_key("legal_basis") {
            return;
        }
        if !consent.is_empty() {
            row.insert("consent".into(), consent.into());
        }
    }

    /// PostgreSQL's text holds every character but one.
    fn check_characters(&self, cells: &[String]) -> Result<(), AcceptFault> {
        match cells.iter().position(|cell| cell.contains('\0')) {
            Some(index) => {
                Err(fault("invalid_request", &self.column(index), "holds the character U+0000, which can't be stored"))
            }
            None => Ok(()),
        }
    }

    fn wrong_count(&self, count: usize, lines: u64) -> AcceptFault {
        let detail = format!("has {count} fields, and the header has {}{}", self.header.columns.len(), spanning(lines));
        fault("wrong_field_count", "", &detail)
    }

    fn unreadable(&self, why: RecordFault, lines: u64) -> AcceptFault {
        match why {
            RecordFault::TooLarge => fault("row_too_large", "", &format!("is larger than 1 MiB{}", spanning(lines))),
            RecordFault::TooManyFields => {
                fault("wrong_field_count", "", &format!("has thousands of fields{}", spanning(lines)))
            }
            RecordFault::OpenQuote => fault("open_quote", "", "has a quote that is not closed until the file ends"),
            RecordFault::NotUtf8(index) => {
                fault("invalid_utf8", &self.column(index), "is no UTF-8: save the file as CSV in UTF-8")
            }
        }
    }

    fn column(&self, index: usize) -> String {
        self.header.columns.get(index).map_or_else(String::new, Column::name)
    }
}

/// A row over many lines is more often a quote that nobody closed than a text.
fn spanning(lines: u64) -> String {
    if lines > 1 { format!("; it spans {lines} lines: is a quote not closed?") } else { String::new() }
}

fn fault(code: &str, field: &str, detail: &str) -> AcceptFault {
    AcceptFault { code: code.into(), field: field.into(), detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn defaults() -> RowDefaults {
        let set = |text: &str| Some(text.to_owned());
        RowDefaults {
            brand: set("acme"),
            product: set("newsletter"),
            desired_state: set("subscribed"),
            legal_basis: set("CONSENT_WITH_NOTICE"),
            explanation: set("signed up at the fair"),
            lane: "bulk".into(),
        }
    }

    fn row(
        defaults: &RowDefaults,
        header: &str,
        fields: Result<Vec<&str>, RecordFault>,
    ) -> Option<Result<Value, AcceptFault>> {
        let names = Ok(header.split(',').map(str::to_owned).collect());
        let header = Header::read(Some(Record { line: 1, lines: 1, fields: names }), b',', defaults).unwrap();
        let rules = RowRules { header: &header, defaults, key_prefix: "import:0123456789abcdef:".into() };
        let fields = fields.map(|fields| fields.into_iter().map(str::to_owned).collect());
        rules.row(Record { line: 7, lines: 3, fields }).map(|row| row.request)
    }

    fn request(header: &str, cells: &[&str]) -> Value {
        row(&defaults(), header, Ok(cells.to_vec())).unwrap().unwrap()
    }

    fn fault_of(fields: Result<Vec<&str>, RecordFault>) -> AcceptFault {
        row(&defaults(), "email,properties.city", fields).unwrap().unwrap_err()
    }

    #[test]
    fn options_fill_what_is_missing_or_empty() {
        let request = request("email,brand,properties.city", &[" ada@example.test ", "", " Delft "]);
        let expected = json!({
            "brand": "acme", "product": "newsletter", "desired_state": "subscribed", "lane": "bulk",
            "idempotency_key": "import:0123456789abcdef:7",
            "contact": {"email": "ada@example.test", "properties": {"city": " Delft "}},
            "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "signed up at the fair"},
        });
        assert_eq!(request, expected);
    }

    #[test]
    fn cells_win_over_options() {
        let header = "email,brand,product,desired_state,key,legal_basis,explanation,given_at,lane,idempotency_key";
        let cells = [
            "a@example.test",
            "b",
            "p",
            "subscribed",
            "k",
            "NON_GDPR",
            "e",
            "2026-01-01T00:00:00Z",
            "interactive",
            "i",
        ];
        let expected = json!({
            "brand": "b", "product": "p", "desired_state": "subscribed", "lane": "interactive", "idempotency_key": "i",
            "contact": {"email": "a@example.test", "key": "k"},
            "consent": {"legal_basis": "NON_GDPR", "explanation": "e", "given_at": "2026-01-01T00:00:00Z"},
        });
        assert_eq!(request(header, &cells), expected);
    }

    #[test]
    fn consent_is_not_made_up() {
        let none = RowDefaults { legal_basis: None, explanation: None, ..defaults() };
        let request = row(&none, "email", Ok(vec!["a@example.test"])).unwrap().unwrap();
        assert_eq!(request.get("consent"), None);
    }

    #[test]
    fn who_leaves_has_a_consent_only_when_the_row_names_its_basis() {
        let header = "email,desired_state,legal_basis,explanation";
        let leaves = |basis| request(header, &["a@example.test", "unsubscribed", basis, "asked by phone"]);
        assert_eq!(leaves("").get("consent"), None);
        assert_eq!(leaves("NON_GDPR")["consent"], json!({"legal_basis": "NON_GDPR", "explanation": "asked by phone"}));
    }

    #[test]
    fn an_international_domain_becomes_ascii() {
        assert_eq!(request("email", &["ann@ex\u{e4}mple.test"])["contact"]["email"], "ann@xn--exmple-cua.test");
    }

    #[test]
    fn a_row_of_empty_cells_is_no_row() {
        assert!(row(&defaults(), "email,brand", Ok(vec!["", " "])).is_none());
    }

    #[test]
    fn what_can_t_be_asked_for_is_told_by_code_and_column() {
        let told = |fault: AcceptFault| (fault.code, fault.field);
        let pair = |code: &str, field: &str| (code.to_owned(), field.to_owned());
        assert_eq!(told(fault_of(Ok(vec!["a@example.test", "x\0"]))), pair("invalid_request", "properties.city"));
        assert_eq!(told(fault_of(Err(RecordFault::NotUtf8(1)))), pair("invalid_utf8", "properties.city"));
        assert_eq!(told(fault_of(Err(RecordFault::TooLarge))), pair("row_too_large", ""));
        assert_eq!(told(fault_of(Err(RecordFault::OpenQuote))), pair("open_quote", ""));
        let fault = fault_of(Ok(vec!["a@example.test"]));
        assert_eq!(fault.detail, "has 1 fields, and the header has 2; it spans 3 lines: is a quote not closed?");
    }
}
