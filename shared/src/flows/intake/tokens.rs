//! Bearer tokens, looked up once in a while.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// A revoked token stops working after this, at the latest.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// Tokens remembered at once. Only genuine ones are, so this is more than any deployment has.
const MOST_REMEMBERED: usize = 1000;

/// The brands that a token may act for.
pub(super) type Brands = Arc<HashSet<String>>;

/// Genuine tokens, by their hashes.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    known: Mutex<HashMap<[u8; 32], (Brands, Instant)>>,
}

impl TokenCache {
    pub(super) fn get(&self, token: &SecretString) -> Option<Brands> {
        let known = self.known();
        let (brands, until) = known.get(&hash(token))?;
        (*until > Instant::now()).then(|| brands.clone())
    }

    pub(super) fn remember(&self, token: &SecretString, brands: Vec<String>) -> Brands {
        let brands: Brands = Arc::new(brands.into_iter().collect());
        let mut known = self.known();
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(hash(token), (brands.clone(), Instant::now() + REMEMBERED_FOR));
        brands
    }

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Brands, Instant)>> {
        // Entries are inserted whole, so a panic elsewhere leaves none half-written.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of `Authorization: Bearer`, if there is exactly one such header.
pub(super) fn bearer(headers: &HeaderMap) -> Option<SecretString> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| SecretString::from(token.trim()))
}

fn hash(token: &SecretString) -> [u8; 32] {
    Sha256::digest(token.expose_secret()).into()
}
