//! `hubferry webhooks show`

use hubferry::adapters::db;
use hubferry::config::Environment;
use uuid::Uuid;

use super::super::connection;
use super::super::events::show::text;
use crate::end::{End, Misuse};
use crate::output;

/// What is asked for.
enum Asked {
    Delivery(Uuid),
    Notification([u8; 32]),
}

pub(super) async fn run(id: &str, values: bool, environment: Environment, json: bool) -> anyhow::Result<End> {
    let asked = Asked::read(id).ok_or_else(|| {
        Misuse(format!("{id} is neither the id of a delivery nor the key of a notification (64 hexadecimal digits)"))
    })?;
    let connection = connection(environment).await?;
    let document = match asked {
        Asked::Delivery(delivery) => db::show_delivery(&*connection, delivery, values).await?,
        Asked::Notification(key) => db::show_notification(&*connection, key, values).await?,
    };
    let Some(document) = document else {
        return Err(Misuse(format!("there is no {id}; what came is deleted some day")).into());
    };
    output::result(json, &document, &text(&document));
    Ok(End::Done)
}

impl Asked {
    fn read(id: &str) -> Option<Self> {
        if let Ok(delivery) = id.parse() {
            return Some(Self::Delivery(delivery));
        }
        if id.len() != 64 || !id.is_ascii() {
            return None;
        }
        let mut key = [0; 32];
        for (place, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&id[2 * place..2 * place + 2], 16).ok()?;
        }
        Some(Self::Notification(key))
    }
}
