//! The people of a run, what they have in HubSpot's terms, and what was accepted about them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

/// The brand of all requests.
pub(crate) const BRAND: &str = "acme";

/// A product and what it means in HubSpot.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    pub(crate) subscription_type: u64,
    /// The segment of those who subscribed.
    pub(crate) joined: u64,
    /// The segment of those who left.
    pub(crate) left: Option<u64>,
}

/// Two of them share a subscription type.
pub(crate) const PRODUCTS: [Product; 4] = [
    Product { name: "newsletter", subscription_type: 1001, joined: 101, left: None },
    Product { name: "digest", subscription_type: 1001, joined: 102, left: None },
    Product { name: "events", subscription_type: 1003, joined: 104, left: Some(105) },
    Product { name: "news", subscription_type: 1002, joined: 106, left: None },
];

impl Product {
    /// The targets of its mapping.
    pub(crate) fn targets(&self) -> Value {
        let joined = self.joined.to_string();
        let left: Vec<String> = self.left.iter().map(ToString::to_string).collect();
        json!({
            "contact_properties": {"firstname": "firstname", "lastname": "lastname", "company": "company"},
            "subscription_type": self.subscription_type,
            "segments": {
                "subscribed": {"add": [joined], "remove": left},
                "unsubscribed": {"remove": [joined], "add": left},
            },
        })
    }
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Subscribed,
    Unsubscribed,
}

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Subscribed => "subscribed",
            Self::Unsubscribed => "unsubscribed",
        }
    }
}

/// A person, as the newest accepted requests describe them.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) number: usize,
    /// Named by the application; without it the address is what the contact is known by.
    pub(crate) key: Option<String>,
    pub(crate) email: String,
    pub(crate) properties: BTreeMap<&'static str, String>,
    /// The newest accepted request by product.
    pub(crate) newest: BTreeMap<usize, Accepted>,
    /// The erasure's event, once the person was erased: nothing is decided about them after that.
    pub(crate) erased: Option<Uuid>,
}

impl Person {
    pub(crate) fn new(number: usize) -> Self {
        let properties =
            [("firstname", format!("First{number}")), ("lastname", format!("Last{number}"))].into_iter().collect();
        Self {
            number,
            // Every fourth is known by the address alone.
            key: (number % 4 != 3).then(|| format!("person-{number}")),
            email: address(number, 0),
            properties,
            newest: BTreeMap::new(),
            erased: None,
        }
    }

    /// Takes a receipt in: of one stream the highest sequence counts.
    pub(crate) fn note(&mut self, accepted: Accepted) {
        let newest = self.newest.entry(accepted.product).or_insert_with(|| accepted.clone());
        if newest.sequence < accepted.sequence {
            *newest = accepted;
        }
    }

    /// Whether HubSpot has to hold this person in the end.
    pub(crate) fn is_known(&self) -> bool {
        !self.newest.is_empty() && self.erased.is_none()
    }
}

/// One of a person's addresses. Nobody else ever has it.
pub(crate) fn address(person: usize, which: u32) -> String {
    format!("person{person}.{which}@example.test")
}

/// A request that was accepted, as its receipt says.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) product: usize,
    pub(crate) state: State,
    pub(crate) sequence: i64,
    pub(crate) request_id: Uuid,
    pub(crate) event_id: Uuid,
}
