//! `hubferry token`

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hubferry::adapters::db;
use hubferry::config::Environment;
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::connection;
use crate::arguments::TokenCommand;
use crate::end::{End, Misuse};
use crate::output;

/// Marks a token as ours, for people and for scanners that look for secrets.
const TOKEN_PREFIX: &str = "hf_";

/// 256 bits: nothing to guess, so that its plain hash is safe to store.
const TOKEN_BYTES: usize = 32;

pub(crate) async fn run(command: TokenCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    let TokenCommand::Create { name, brands } = command;
    if !(1..=100).contains(&name.chars().count()) {
        return Err(Misuse("the name must have 1 to 100 characters".into()).into());
    }
    let connection = connection(environment).await?;
    for brand in &brands {
        if db::brand_portal(&*connection, brand).await?.is_none() {
            return Err(Misuse(format!("there is no brand {brand}: `hubferry mapping push` creates brands")).into());
        }
    }
    let token = new_token()?;
    let id = db::create_token(&*connection, &name, &token, &brands).await?;
    let shown = token.expose_secret();
    let text =
        format!("{shown}\nThis token is shown once; only its hash is stored. It may act for {}.", brands.join(", "));
    output::result(json, &json!({"token": shown, "token_id": id, "name": name, "brands": brands}), &text);
    Ok(End::Done)
}

fn new_token() -> anyhow::Result<SecretString> {
    let mut bytes = [0; TOKEN_BYTES];
    OsRng.try_fill_bytes(&mut bytes)?;
    Ok(format!("{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_256_random_bits_and_says_whose_it_is() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_eq!(one.expose_secret().len(), TOKEN_PREFIX.len() + 43);
        assert_ne!(one.expose_secret(), other.expose_secret());
    }
}
