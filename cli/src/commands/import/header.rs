//! The first line: which column means what.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::records::{Record, RecordFault};
use crate::arguments::RowDefaults;

/// Begins the name of a column that holds a property of the contact.
const PROPERTY_PREFIX: &str = "properties.";

/// Longest name of a property, as the database's door has it.
const LONGEST_PROPERTY: usize = 100;

/// The columns with a fixed name.
const COLUMNS: [(&str, Column); 10] = [
    ("email", Column::Email),
    ("brand", Column::Brand),
    ("product", Column::Product),
    ("desired_state", Column::DesiredState),
    ("key", Column::Key),
    ("legal_basis", Column::LegalBasis),
    ("explanation", Column::Explanation),
    ("given_at", Column::GivenAt),
    ("lane", Column::Lane),
    ("idempotency_key", Column::IdempotencyKey),
];

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Column {
    Email,
    Brand,
    Product,
    DesiredState,
    Key,
    LegalBasis,
    Explanation,
    GivenAt,
    Lane,
    IdempotencyKey,
    /// A property of the contact, by the application's name.
    Property(String),
}

/// The columns of a file, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) columns: Vec<Column>,
}

impl Column {
    /// The name that the header gives it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Property(name) => format!("{PROPERTY_PREFIX}{name}"),
            fixed => COLUMNS.iter().find(|(_, column)| column == fixed).map_or("", |(name, _)| name).to_owned(),
        }
    }

    /// Reads a name. People's programs write `Email` or ` email`; a property's name is theirs, letter by letter.
    fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        if let Some(property) = name.strip_prefix(PROPERTY_PREFIX) {
            return is_property(property).then(|| Self::Property(property.to_owned()));
        }
        COLUMNS.iter().find(|(fixed, _)| fixed.eq_ignore_ascii_case(name)).map(|(_, column)| column.clone())
    }
}

impl Header {
    /// Reads the first record. The fault names everything that is wrong, and what is allowed.
    pub(super) fn read(first: Option<Record>, delimiter: u8, defaults: &RowDefaults) -> Result<Self, String> {
        let names = match first.ok_or("the file is empty")?.fields {
            Ok(names) => names,
            Err(RecordFault::NotUtf8(_)) => {
                return Err("the first line is no UTF-8: save the file as CSV in UTF-8".into());
            }
            Err(_) => return Err("the first line is no header: it is far too long, or a quote is not closed".into()),
        };
        let columns: Vec<Option<Column>> = names.iter().map(|name| Column::parse(name)).collect();
        if columns.iter().all(Option::is_none) {
            return Err(no_header(&names, delimiter));
        }
        let faults = faults(&names, &columns, defaults);
        if faults.is_empty() {
            Ok(Self { columns: columns.into_iter().flatten().collect() })
        } else {
            Err(told(&faults))
        }
    }
}

fn faults(names: &[String], columns: &[Option<Column>], defaults: &RowDefaults) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = HashSet::new();
    for (index, (name, column)) in names.iter().zip(columns).enumerate() {
        match column {
            None => faults.push(format!("column {} ({}) is not known", index + 1, shown(name))),
            Some(column) if !seen.insert(column) => {
                faults.push(format!("column {} ({}) is there twice", index + 1, column.name()));
            }
            Some(_) => {}
        }
    }
    let needed = [
        (Column::Email, None, ""),
        (Column::Brand, defaults.brand.as_ref(), " and no --brand"),
        (Column::Product, defaults.product.as_ref(), " and no --product"),
        (Column::DesiredState, defaults.desired_state.as_ref(), " and no --desired-state"),
    ];
    for (column, default, option) in needed {
        if !seen.contains(&column) && default.is_none() {
            faults.push(format!("there is no column {}{option}", column.name()));
        }
    }
    faults
}

/// Nothing of such a line is shown: it may be a person's.
fn no_header(names: &[String], delimiter: u8) -> String {
    let other = [',', ';', '\t', '|'].into_iter().find(|other| {
        u8::try_from(*other) != Ok(delimiter)
            && names.len() == 1
            && names[0].split(*other).any(|part| Column::parse(part.trim_matches('"')).is_some())
    });
    match other {
        Some('\t') => "its columns are separated by tabs: add --delimiter tab".into(),
        Some(other) => format!("its columns are separated by {other} : add --delimiter '{other}'"),
        None => told(&["the first line names no column".to_owned()]),
    }
}

fn told(faults: &[String]) -> String {
    let mut text = "the header is wrong".to_owned();
    for fault in faults {
        let _ = write!(text, "\n  {fault}");
    }
    let allowed: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let _ = write!(
        text,
        "\nallowed are {} and {PROPERTY_PREFIX}NAME, where NAME is 1 to {LONGEST_PROPERTY} letters, digits and underscores, a letter first",
        allowed.join(", ")
    );
    text
}

/// A name as it may be shown: an address in a first line that is no header is not.
fn shown(name: &str) -> &str {
    let name = name.trim();
    let is_plain = name.len() <= LONGEST_PROPERTY && name.chars().all(|c| c.is_alphanumeric() || "_.- ".contains(c));
    if name.is_empty() {
        "without a name"
    } else if is_plain {
        name
    } else {
        "a name with other characters"
    }
}

fn is_property(name: &str) -> bool {
    name.len() <= LONGEST_PROPERTY
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_defaults() -> RowDefaults {
        let set = |text: &str| Some(text.to_owned());
        RowDefaults {
            brand: set("acme"),
            product: set("newsletter"),
            desired_state: set("subscribed"),
            ..RowDefaults::default()
        }
    }

    fn header_with(line: &str, defaults: &RowDefaults) -> Result<Header, String> {
        let fields = Ok(line.split(',').map(str::to_owned).collect());
        Header::read(Some(Record { line: 1, lines: 1, fields }), b',', defaults)
    }

    fn header(line: &str) -> Result<Header, String> {
        header_with(line, &all_defaults())
    }

    #[test]
    fn columns_stand_in_any_order_and_a_property_keeps_its_name() {
        let columns = header(" Product,properties.firstName,EMAIL").unwrap().columns;
        assert_eq!(columns, [Column::Product, Column::Property("firstName".into()), Column::Email]);
        assert_eq!(columns.iter().map(Column::name).collect::<Vec<_>>(), ["product", "properties.firstName", "email"]);
    }

    #[test]
    fn every_fault_is_named_and_what_is_allowed() {
        let fault = header_with("brand,mail,brand,properties.a b,,product", &RowDefaults::default()).unwrap_err();
        for part in [
            "column 2 (mail) is not known",
            "column 3 (brand) is there twice",
            "column 4 (properties.a b) is not known",
            "column 5 (without a name) is not known",
            "no column email",
            "no column desired_state and no --desired-state",
            "allowed are email, brand,",
        ] {
            assert!(fault.contains(part), "{part} is missing in: {fault}");
        }
    }

    #[test]
    fn a_person_in_the_first_line_is_not_shown() {
        for line in ["ada@example.test,Ada", "email,ada@example.test"] {
            let fault = header(line).unwrap_err();
            assert!(!fault.contains("ada") && !fault.contains("Ada"), "{fault}");
        }
    }

    #[test]
    fn another_delimiter_is_recognised() {
        assert!(header("email;brand;product").unwrap_err().contains("--delimiter ';'"));
        assert!(header("email\tbrand").unwrap_err().contains("--delimiter tab"));
    }

    #[test]
    fn an_empty_file_has_no_header() {
        assert_eq!(Header::read(None, b',', &all_defaults()), Err("the file is empty".into()));
    }
}
