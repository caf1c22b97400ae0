//! Lists and members.

use hubspot_simulator::{AccountConfig, ListConfig, ProcessingType};
use serde_json::json;

use crate::hub::Hub;

const LISTS: &str = "/crm/lists/2026-03";

#[tokio::test]
async fn adding_reports_added_and_missing_and_leaves_out_empty_arrays() {
    let hub = Hub::start().await;
    let id = hub.contact("ann@example.test").await;
    let path = format!("{LISTS}/101/memberships/add");
    let first = hub.put(&path, json!([id, "90299"])).await;
    assert_eq!(first.json, json!({ "recordsIdsAdded": [id], "recordIdsMissing": ["90299"] }));
    let second = hub.put(&path, json!([id])).await;
    assert_eq!((second.status, second.json), (200, json!({})));
}

#[tokio::test]
async fn members_can_be_removed_and_exchanged() {
    let hub = Hub::start().await;
    let ann = hub.contact("ann@example.test").await;
    let bob = hub.contact("bob@example.test").await;
    hub.put(&format!("{LISTS}/101/memberships/add"), json!([ann])).await;
    let body = json!({ "recordIdsToAdd": [bob], "recordIdsToRemove": [ann] });
    let seen = hub.put(&format!("{LISTS}/101/memberships/add-and-remove"), body).await;
    assert_eq!(seen.json, json!({ "recordsIdsAdded": [bob], "recordIdsRemoved": [ann] }));
    let members = hub.get("/crm/v3/lists/101/memberships").await;
    assert_eq!(
        (members.json["total"].as_u64(), members.results()[0]["recordId"].as_str()),
        (Some(1), Some(bob.as_str()))
    );
    let seen = hub.put(&format!("{LISTS}/101/memberships/remove"), json!([bob, ann])).await;
    assert_eq!(seen.json, json!({ "recordIdsRemoved": [bob] }));
}

#[tokio::test]
async fn members_are_paged() {
    let hub = Hub::start().await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(hub.contact(&format!("c{n}@example.test")).await);
    }
    hub.put(&format!("{LISTS}/101/memberships/add"), json!(ids)).await;
    let first = hub.get(&format!("{LISTS}/101/memberships?limit=2")).await;
    let after = first.json["paging"]["next"]["after"].as_str().unwrap();
    let second = hub.get(&format!("{LISTS}/101/memberships?limit=2&after={after}")).await;
    assert_eq!((first.results().len(), second.results().len()), (2, 1));
}

#[tokio::test]
async fn dynamic_unknown_and_foreign_lists_refuse_members() {
    let mut account = AccountConfig::default();
    let mut companies = ListConfig::new(104, "Companies", ProcessingType::Manual);
    companies.object_type_id = "0-53".to_owned();
    account.lists.push(companies);
    let hub = Hub::with(account).await;
    let id = hub.contact("ann@example.test").await;
    let add = async |list: u64| hub.put(&format!("{LISTS}/{list}/memberships/add"), json!([id])).await;
    let dynamic = add(103).await;
    assert_eq!((dynamic.status, dynamic.json["category"].as_str()), (400, Some("VALIDATION_ERROR")));
    let unknown = add(999).await;
    assert_eq!((unknown.status, unknown.json["category"].as_str()), (404, Some("OBJECT_NOT_FOUND")));
    let foreign = add(104).await;
    assert_eq!(foreign.status, 400);
    assert_eq!(foreign.json["subCategory"], "ListError.INVALID_OBJECT_TYPE_FOR_LIST");
}

#[tokio::test]
async fn created_list_is_found_by_id_and_name_until_it_is_deleted() {
    let hub = Hub::start().await;
    let body = json!({ "name": "Brand new", "objectTypeId": "0-1", "processingType": "MANUAL" });
    let created = hub.post(LISTS, body.clone()).await;
    let id = created.json["list"]["listId"].as_str().unwrap();
    assert_eq!(hub.post(LISTS, body).await.status, 400, "names are unique");
    let by_name = hub.get(&format!("{LISTS}/object-type-id/0-1/name/Brand%20new")).await;
    assert_eq!(by_name.json["list"]["listId"], id);
    let found = hub
        .post(&format!("{LISTS}/search"), json!({ "query": "brand", "additionalProperties": [], "offset": 0 }))
        .await;
    assert_eq!(found.json["total"], 1);
    assert_eq!(hub.delete(&format!("{LISTS}/{id}")).await.status, 204);
    assert_eq!(hub.get(&format!("{LISTS}/{id}")).await.status, 404);
}
