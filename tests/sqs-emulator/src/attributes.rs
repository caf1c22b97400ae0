//! Message attributes: what is allowed, how large they are, and the checksum that SDKs verify.
//!
//! Source of the rules: "Amazon SQS message metadata" in the developer guide of SQS.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};

use crate::error::SqsError;

/// Attributes that one message may have (quota of SQS).
const ATTRIBUTES_MAX: usize = 10;
/// Characters of an attribute's name or type (quota of SQS).
const NAME_CHARACTERS_MAX: usize = 256;
/// Marks a value as text in the checksum; numbers are text.
const TRANSPORT_STRING: u8 = 1;
/// Marks a value as bytes in the checksum.
const TRANSPORT_BINARY: u8 = 2;

/// The attributes of a message by name. The order is the one in which the checksum takes them.
pub(crate) type MessageAttributes = BTreeMap<String, MessageAttribute>;

/// A message attribute as the JSON protocol carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, with an optional own suffix such as `Number.float`.
    #[serde(default)]
    pub data_type: String,
    /// The value of a `String` or `Number`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
    /// The value of a `Binary`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_value: Option<String>,
}

/// Refuses attributes that SQS refuses: too many, ill named, of an unknown type, without a value, or not a number.
pub(crate) fn validate(attributes: &MessageAttributes) -> Result<(), SqsError> {
    if attributes.len() > ATTRIBUTES_MAX {
        let count = attributes.len();
        return Err(SqsError::invalid_parameter(format!(
            "Number of message attributes [{count}] exceeds the allowed maximum [{ATTRIBUTES_MAX}]."
        )));
    }
    attributes.iter().try_for_each(|(name, attribute)| {
        validate_name(name)?;
        validate_value(name, attribute)
    })
}

fn validate_name(name: &str) -> Result<(), SqsError> {
    let lower = name.to_ascii_lowercase();
    let characters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let dots = name.starts_with('.') || name.ends_with('.') || name.contains("..");
    let reserved = lower.starts_with("aws.") || lower.starts_with("amazon.");
    if name.is_empty() || name.len() > NAME_CHARACTERS_MAX || !characters || dots || reserved {
        return Err(SqsError::invalid_parameter(format!(
            "The message attribute name '{name}' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore \
             (_), hyphen (-), and period (.) characters."
        )));
    }
    Ok(())
}

fn validate_value(name: &str, attribute: &MessageAttribute) -> Result<(), SqsError> {
    let data_type = attribute.data_type.as_str();
    let base_type = data_type.split('.').next().unwrap_or_default();
    let has_value = match base_type {
        _ if data_type.is_empty() => {
            return Err(SqsError::invalid_parameter(format!(
                "The message attribute '{name}' must contain non-empty message attribute type."
            )));
        }
        "String" => attribute.string_value.as_ref().is_some_and(|value| !value.is_empty()),
        "Number" => attribute.string_value.as_ref().is_some_and(|value| !value.is_empty()),
        "Binary" => attribute.bytes().is_some_and(|value| !value.is_empty()),
        _ => {
            return Err(SqsError::invalid_parameter(format!(
                "The message attribute '{name}' has an invalid message attribute type, the set of supported type \
                 prefixes is Binary, Number, and String."
            )));
        }
    };
    if !has_value {
        return Err(SqsError::invalid_parameter(format!(
            "The message attribute '{name}' must contain non-empty message attribute value for message attribute \
             type '{data_type}'."
        )));
    }
    if base_type == "Number" {
        validate_number(name, attribute.string_value.as_deref().unwrap_or_default())?;
    }
    attribute.string_value.as_deref().map_or(Ok(()), validate_characters)
}

fn validate_number(name: &str, value: &str) -> Result<(), SqsError> {
    if value.parse::<f64>().is_ok_and(f64::is_finite) {
        return Ok(());
    }
    Err(SqsError::invalid_parameter(format!("Can't cast the value of message attribute '{name}' to a number.")))
}

/// Refuses text with characters that SQS does not carry: only those of XML 1.0 are allowed.
pub(crate) fn validate_characters(text: &str) -> Result<(), SqsError> {
    let allowed = |character: char| {
        matches!(character, '\u{9}' | '\u{A}' | '\u{D}' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}')
            || character >= '\u{10000}'
    };
    if text.chars().all(allowed) { Ok(()) } else { Err(SqsError::invalid_message_contents()) }
}

impl MessageAttribute {
    /// A `String` attribute.
    pub fn text(value: impl Into<String>) -> Self {
        Self { data_type: "String".to_owned(), string_value: Some(value.into()), binary_value: None }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.binary_value.as_deref()?).ok()
    }

    fn size(&self, name: &str) -> usize {
        let text = self.string_value.as_ref().map_or(0, String::len);
        let bytes = self.bytes().map_or(0, |bytes| bytes.len());
        name.len() + self.data_type.len() + text + bytes
    }
}

/// Bytes that the attributes add to a message's size: names, types and values.
pub(crate) fn size(attributes: &MessageAttributes) -> usize {
    attributes.iter().map(|(name, attribute)| attribute.size(name)).sum()
}

/// The attributes that a receiver asked for: exact names, `All`, or a prefix that ends in `.*`.
pub(crate) fn select(attributes: &MessageAttributes, wanted: &[String]) -> MessageAttributes {
    let is_wanted = |name: &str| {
        wanted.iter().any(|wish| match wish.strip_suffix(".*") {
            Some(prefix) => name.starts_with(prefix),
            None => wish == "All" || wish == name,
        })
    };
    attributes
        .iter()
        .filter(|(name, _)| is_wanted(name))
        .map(|(name, attribute)| (name.clone(), attribute.clone()))
        .collect()
}

/// MD5 of a message body, in hexadecimal.
pub(crate) fn md5_of_body(body: &str) -> String {
    hexadecimal(&Md5::digest(body.as_bytes()))
}

/// MD5 over the attributes in the order of their names, in hexadecimal; `None` without attributes.
///
/// Each name, type and value goes in with its length in four bytes, the value after a byte for its transport type.
/// Source: "Calculating the MD5 message digest for message attributes" in the developer guide of SQS.
pub(crate) fn md5_of_attributes(attributes: &MessageAttributes) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut digest = Md5::new();
    for (name, attribute) in attributes {
        add_part(&mut digest, name.as_bytes());
        add_part(&mut digest, attribute.data_type.as_bytes());
        match (&attribute.string_value, attribute.bytes()) {
            (Some(text), _) => {
                digest.update([TRANSPORT_STRING]);
                add_part(&mut digest, text.as_bytes());
            }
            (None, bytes) => {
                digest.update([TRANSPORT_BINARY]);
                add_part(&mut digest, &bytes.unwrap_or_default());
            }
        }
    }
    Some(hexadecimal(&digest.finalize()))
}

fn add_part(digest: &mut Md5, part: &[u8]) {
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    digest.update(length.to_be_bytes());
    digest.update(part);
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
