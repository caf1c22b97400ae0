//! The fields of one notification, read from their own text.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{LONGEST_NAME, QuarantineReason};

/// The fields of an object by name; of a name that comes twice, the last. Values are read when they are asked for, so
/// that what nobody asks for can't be wrong.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// `None` when it is no object.
    pub(super) fn of(raw: &'a str) -> Option<Self> {
        serde_json::from_str(raw).ok().map(Self)
    }

    /// All of them but this one, in the order of their names, as JSON.
    pub(super) fn without(&self, name: &str) -> String {
        let fields: BTreeMap<&String, &RawValue> =
            self.0.iter().filter(|(field, _)| *field != name).map(|(field, value)| (field, *value)).collect();
        serde_json::to_string(&fields).unwrap_or_default()
    }

    /// A field that is there and not null.
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.get()).filter(|value| *value != "null")
    }

    /// A number, written as one or as text.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        integer(self.get(name)?)
    }

    /// An id: a number from 1 on.
    pub(super) fn id(&self, name: &str) -> Result<Option<i64>, QuarantineReason> {
        self.get(name).map(id).transpose()
    }

    /// A list of ids.
    pub(super) fn ids(&self, name: &str) -> Result<Option<Vec<i64>>, QuarantineReason> {
        let Some(list) = self.get(name) else { return Ok(None) };
        let list: Vec<&RawValue> = serde_json::from_str(list).map_err(|_| QuarantineReason::BadObjectId)?;
        list.into_iter().map(|value| id(value.get())).collect::<Result<Vec<i64>, _>>().map(Some)
    }

    /// A yes or no, written as one or as text.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.trim_matches('"').parse().ok()
    }

    /// A text of any length; numbers, lists and the like as they are written.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, QuarantineReason> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        if !raw.starts_with('"') {
            return storable(raw.to_owned()).map(Some);
        }
        // Of valid JSON, only half of a surrogate pair is no text.
        let text = serde_json::from_str(raw).map_err(|_| QuarantineReason::UnstorableText)?;
        storable(text).map(Some)
    }

    /// The first of these that is there and not empty, no longer than names are.
    pub(super) fn name(&self, names: &[&str]) -> Result<Option<String>, QuarantineReason> {
        for name in names {
            match self.text(name)? {
                Some(text) if text.chars().count() > LONGEST_NAME => return Err(QuarantineReason::NameTooLong),
                Some(text) if !text.is_empty() => return Ok(Some(text)),
                _ => {}
            }
        }
        Ok(None)
    }
}

fn integer(raw: &str) -> Option<i64> {
    match serde_json::from_str::<String>(raw) {
        Ok(text) => text.trim().parse().ok(),
        Err(_) => raw.parse().ok(),
    }
}

fn id(raw: &str) -> Result<i64, QuarantineReason> {
    integer(raw).filter(|id| *id > 0).ok_or(QuarantineReason::BadObjectId)
}

/// PostgreSQL's text has no NUL.
fn storable(text: String) -> Result<String, QuarantineReason> {
    if text.contains('\0') {
        return Err(QuarantineReason::UnstorableText);
    }
    Ok(text)
}
