//! One API call as its handler sees it.

use axum::body::Bytes;
use serde::de::DeserializeOwned;

use crate::{answer::ApiError, clock::Moment, objects::ObjectType};

/// Inputs of one batch call. Source: the batch endpoints' guides.
pub(crate) const MAX_BATCH_INPUTS: usize = 100;

/// A call that has a handler.
pub(crate) struct Call {
    /// The variable segments of the path, percent-decoded once.
    pub(crate) params: Vec<String>,
    /// The last segment and the query as they came, for HubSpot's habit of echoing them in a 404.
    pub(crate) raw_tail: String,
    /// The type of records in the path; contacts where the path has none.
    pub(crate) object: ObjectType,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) now: Moment,
}

impl Call {
    pub(crate) fn param(&self, index: usize) -> &str {
        self.params.get(index).map_or("", String::as_str)
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.iter();
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Values of a parameter that may be repeated or hold a comma-separated list.
    pub(crate) fn query_list(&self, name: &str) -> Vec<String> {
        let named = self.query.iter().filter(|(key, _)| key == name);
        named.flat_map(|(_, value)| value.split(',')).filter(|value| !value.is_empty()).map(str::to_owned).collect()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // The parser's own text may quote the body, so only the place is repeated.
            let (line, column) = (error.line(), error.column());
            ApiError::invalid(format!("Invalid input JSON on line {line}, column {column}"))
        })
    }
}

/// Refuses empty batches and batches above HubSpot's maximum.
pub(crate) fn check_batch_size(inputs: usize, maximum: usize) -> Result<(), ApiError> {
    if inputs == 0 {
        return Err(ApiError::invalid("The batch must contain at least one input"));
    }
    if inputs > maximum {
        return Err(ApiError::invalid(format!(
            "The maximum number of inputs supported in a batch request is {maximum}, but received {inputs}"
        )));
    }
    Ok(())
}
