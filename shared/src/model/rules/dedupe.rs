//! What makes two effects the same one.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::template::{RenderFault, render};
use super::{Change, Rule};

/// The key of rules that name none: the same change of the same record is worth one effect a week.
pub(super) const DEFAULT_KEY: &str = "{{ object_type }}:{{ object_id }}:{{ property }}:{{ value }}:{{ week }}";

/// Longest key that is stored as it is, bytes.
const LONGEST_PLAIN_KEY: usize = 200;

/// The key of the effect that a rule makes of a change: unique in its kind, over all portals and rules.
pub(super) fn dedupe_key(rule: &Rule, change: &Change, context: &Value) -> Result<String, RenderFault> {
    let text = render(rule.dedupe_key.as_deref().unwrap_or(DEFAULT_KEY), context)?;
    Ok(format!("{}:{}:{}", change.portal_id, rule.name, in_short(&text)))
}

/// Names and numbers stay readable. Anything else becomes its hash: a value may be an address, and as long as it likes.
fn in_short(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":_-.".contains(c);
    if text.len() <= LONGEST_PLAIN_KEY && text.chars().all(is_plain) {
        return text.to_owned();
    }
    Sha256::digest(text).iter().fold("sha256-".to_owned(), |mut hash, byte| {
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}
