//! Whether a rule is about a change.

use super::{Change, Condition, PIPELINE, ValueKind, Wanted};

impl Condition {
    /// Whether the change is one that the rule waits for.
    pub(super) fn holds(&self, change: &Change) -> bool {
        let before = change.from.as_deref();
        let pipeline = change.properties.get(PIPELINE).map(String::as_str);
        self.object == change.object_type
            && self.property == change.property
            && self.from.as_ref().is_none_or(|wanted| wanted.is(before, None))
            && self.to.as_ref().is_none_or(|wanted| wanted.is(Some(&change.to), before))
            && self.pipeline.as_ref().is_none_or(|wanted| wanted.is(pipeline, None))
    }
}

impl Wanted {
    /// Whether this value is wanted. One that is not known is none of those that can be named, and counts as empty.
    fn is(&self, value: Option<&str>, before: Option<&str>) -> bool {
        match self {
            Self::Exactly(wanted) => value == Some(wanted.as_str()),
            Self::OneOf(wanted) => value.is_some_and(|value| wanted.iter().any(|one| one == value)),
            Self::Kind(kind) => match kind.is {
                ValueKind::Any => true,
                ValueKind::Changed => value != before,
                ValueKind::Set => value.is_some_and(|value| !value.is_empty()),
                ValueKind::Empty => value.is_none_or(str::is_empty),
            },
        }
    }
}
