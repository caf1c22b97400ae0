//! A property that HubSpot does not hold as it was wanted, while the rest of its contact was written.

use crate::model::mapping::PropertySource;
use crate::model::outcome::{Class, Refusal};
use crate::model::property_value::ValueError;

/// Code of a property that HubSpot took and did not change, as it does with a lifecycle stage that would move back.
pub const NOT_APPLIED: &str = "not_applied";

/// What it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlawKind {
    /// HubSpot would do so again, so there is nothing to repeat.
    NotApplied,
    /// A person has to look.
    LeftOut,
}

/// What is wrong with one property. No field holds a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flaw {
    /// What it leads to.
    pub kind: FlawKind,
    /// HubSpot's internal name of the property.
    pub property: String,
    /// Stable code in snake case, such as `invalid_date`.
    pub code: String,
    /// A sentence for a person, with the class in front.
    pub summary: String,
}

impl Flaw {
    /// A value that does not go with the type that the mapping names; it was not sent.
    pub(super) fn unsendable(property: &str, source: &PropertySource, error: ValueError) -> Self {
        let of_type = source.kind.map(|kind| format!(" of type {}", kind.as_str())).unwrap_or_default();
        let (class, code) = (Class::RowInvalid, error.code());
        let summary = format!("{class}: {code} (property `{property}`{of_type}); the rest was written");
        Self { kind: FlawKind::LeftOut, property: property.to_owned(), code: code.to_owned(), summary }
    }

    /// A property that HubSpot refused.
    #[must_use]
    pub fn refused(property: &str, refusal: &Refusal) -> Self {
        let (class, code) = (refusal.class, &refusal.code);
        let summary = format!("{class}: {code} (property `{property}`); the rest was written");
        Self { kind: FlawKind::LeftOut, property: property.to_owned(), code: code.clone(), summary }
    }

    /// A property of which HubSpot kept its own value.
    #[must_use]
    pub fn not_applied(property: &str) -> Self {
        let summary = format!("HubSpot took the write and kept another value (property `{property}`)");
        let (property, code) = (property.to_owned(), NOT_APPLIED.to_owned());
        Self { kind: FlawKind::NotApplied, property, code, summary }
    }
}
