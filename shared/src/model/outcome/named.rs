//! What a refusal names: the rows, and the property.

use std::collections::BTreeSet;
use std::fmt;

/// The rows and the property that a refusal names. Ids may be e-mail addresses, so `Debug` shows only how many there are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Values of `objectWriteTraceId`.
    pub trace_ids: BTreeSet<String>,
    /// Record ids, values of the id property or e-mail addresses, all in lower case.
    pub ids: BTreeSet<String>,
    /// The internal name of the property, when exactly the refusal's cause names one.
    pub property: Option<String>,
    /// Every property that it names.
    pub properties: BTreeSet<String>,
    /// The subscription type, when the refusal names one.
    pub subscription_id: Option<i64>,
}

impl Named {
    /// Whether any row is named.
    #[must_use]
    pub fn names_rows(&self) -> bool {
        !self.trace_ids.is_empty() || !self.ids.is_empty()
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Named")
            .field("trace_ids", &self.trace_ids)
            .field("ids", &format_args!("{} redacted", self.ids.len()))
            .field("property", &self.property)
            .field("properties", &self.properties)
            .field("subscription_id", &self.subscription_id)
            .finish()
    }
}
