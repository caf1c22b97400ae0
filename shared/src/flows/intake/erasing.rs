//! `DELETE /v1/contacts/{key}`

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::Intake;
use super::problem::Problem;
use super::request::traceparent;
use crate::adapters::db::{self, EraseFailure};
use crate::failpoint::failpoint;
use crate::model::ids::ContactKey;

/// Erases a contact that belongs to brands of the caller only. The contact of other brands does not exist for the caller; one
/// that is theirs too is refused.
pub(super) async fn erase(
    State(intake): State<Intake>,
    headers: HeaderMap,
    key: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let brands = intake.authorise(&headers).await?;
    // What the database can't hold is nobody's key.
    let key = key.ok().map(|Path(key)| key).filter(|key| !key.contains('\0')).ok_or_else(unknown)?;
    let brands: Vec<&str> = brands.iter().map(String::as_str).collect();
    let trace = traceparent(&headers);
    let key = ContactKey(key);
    let connection = intake.db.connection().await.map_err(|error| Problem::database(&error))?;
    let erase = || db::erase_contact(&*connection, &key, Some(&brands), Some(&trace));
    let erased = db::again_after_conflict(erase).await.map_err(|failure| problem(&failure))?;
    failpoint!("intake.after_commit");
    let status = if erased.replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let body = json!({
        "contact_key": key.0,
        "erased_at": erased.erased_at,
        "replayed": erased.replayed,
        "events": erased.events,
    });
    Ok((status, Json(body)).into_response())
}

fn problem(failure: &EraseFailure) -> Problem {
    match failure {
        EraseFailure::UnknownContact => unknown(),
        EraseFailure::ForeignBrand => Problem::foreign_brand(
            None,
            "the contact belongs to other brands too; use a token that was created for all of them",
        ),
        EraseFailure::Db(failure) => Problem::database(failure),
    }
}

fn unknown() -> Problem {
    Problem::not_found("there is no such contact")
}
