//! The pages in `docs/` say what the code says, and the statements they give to operators work.

mod pages;
mod sources;

use std::collections::BTreeSet;

use pages::Page;
use serde_json::json;

use crate::program::hubferry;
use crate::servers::{fresh_database, redis_url};
use crate::world::{World, request, with};

/// Words of HubSpot that a row can show; no source of ours spells them.
const WORDS_OF_HUBSPOT: [&str; 3] = ["invalid_authentication", "expired_authentication", "http_401"];

/// The portal that the statements in OPERATIONS.md name.
const SAMPLE_PORTAL: &str = "portal_id = 4711";

#[test]
fn every_variable_is_documented_and_no_other() {
    let documented = Page::of("docs/CONFIGURATION.md").words("Variables");
    let documented = documented.into_iter().map(|name| name.replace("_<portal id>", "_")).collect();
    let used = sources::variables(&["shared/src", "cli/src", "functions", "tests/it"]);
    agree("docs/CONFIGURATION.md, table under \"Variables\"", &documented, "the sources", &used);
}

#[test]
fn every_state_is_documented_and_no_other() {
    let allowed = sources::states();
    for (page, heading) in [("ARCHITECTURE", "4. The states of an event"), ("OPERATIONS", "What a status means")] {
        let documented = Page::of(&format!("docs/{page}.md")).words(heading);
        agree(&format!("docs/{page}.md, table under \"{heading}\""), &documented, "the CHECK constraint", &allowed);
    }
    let drawn = Page::of("docs/ARCHITECTURE.md").drawn_states();
    agree("the state diagram in docs/ARCHITECTURE.md", &drawn, "the CHECK constraint", &allowed);
}

#[test]
fn every_error_code_has_a_row_and_no_row_is_left_over() {
    let documented = Page::of("docs/OPERATIONS.md").words("What last_error_code says");
    let known: BTreeSet<String> =
        sources::error_codes().into_iter().chain(WORDS_OF_HUBSPOT.map(str::to_owned)).collect();
    agree("docs/OPERATIONS.md, table under \"What last_error_code says\"", &documented, "the sources", &known);
}

#[test]
fn every_refusal_of_a_replay_has_a_row_and_no_row_is_left_over() {
    let documented = Page::of("docs/OPERATIONS.md").words("Dead events");
    agree(
        "docs/OPERATIONS.md, table under \"Dead events\"",
        &documented,
        "the functions of the schema",
        &sources::refusals(),
    );
}

#[test]
fn every_sentence_at_level_error_has_a_row_and_no_row_is_left_over() {
    let documented = Page::of("docs/OPERATIONS.md").sentences("What the logs say at level error");
    let logged = sources::error_sentences(&["shared/src", "functions"]);
    agree("docs/OPERATIONS.md, table under \"What the logs say at level error\"", &documented, "the sources", &logged);
}

#[test]
fn constants_have_the_values_that_the_architecture_gives() {
    let rows = Page::of("docs/ARCHITECTURE.md").rows("5. What a crash leaves behind");
    let constants: Vec<_> =
        rows.iter().filter(|row| row[0].chars().all(|c| c.is_ascii_uppercase() || "`_".contains(c))).collect();
    assert!(constants.len() >= 8, "the table of constants in docs/ARCHITECTURE.md is not found");
    for row in constants {
        let (name, file) = (row[0].trim_matches('`'), pages::link_target(&row[2]));
        let value = sources::duration(&format!("docs/{file}"), name);
        assert_eq!(
            value.as_deref(),
            Some(row[1].as_str()),
            "docs/ARCHITECTURE.md gives another value for {name} than {file}"
        );
    }
}

#[test]
fn links_within_pages_lead_to_headings() {
    let dead: Vec<String> = pages::all().iter().flat_map(Page::dead_anchors).collect();
    assert!(dead.is_empty(), "there is no heading for these links: {dead:?}");
}

/// On an empty schema: each statement names tables and columns that exist.
#[tokio::test]
async fn statements_for_operators_are_understood() {
    let database = fresh_database().await;
    let db = hubferry::adapters::db::Db::new(&database.url.clone().into(), 1).unwrap();
    let connection = db.connection().await.unwrap();
    let statements = Page::of("docs/OPERATIONS.md").blocks("sql");
    assert!(!statements.is_empty(), "docs/OPERATIONS.md has no statements");
    for statement in statements {
        let result = connection.batch_execute(&statement).await;
        assert!(result.is_ok(), "PostgreSQL refuses a statement of docs/OPERATIONS.md: {result:?}\n{statement}");
    }
}

/// A replay outlives the event that it replays by one round: else that one would need a person again.
#[tokio::test(flavor = "multi_thread")]
async fn the_statement_that_prunes_takes_replayed_events_before_their_replays_and_leaves_what_needs_a_person() {
    let world = World::new().await;
    let people = ["ada@example.test", "bob@example.test"].map(|email| request(email, "subscribed"));
    let accepted = world.accept(people.to_vec()).await;
    let died = "status = 'dead', last_error_code = 'missing_scopes', finished_at = clock_timestamp()";
    world.sql(&format!("update hubferry.outbox_events set {died}")).await;
    world.sql(&format!("select hubferry.replay_events(array['{}'::uuid])", accepted[0].event_id)).await;
    assert_eq!(world.drain().await.synced, 1);
    world.sql("update hubferry.outbox_events set finished_at = finished_at - interval '91 days'").await;
    let dead = ("dead".to_owned(), Some("missing_scopes".to_owned()), 1);

    run(&world, "delete from hubferry.outbox_events").await;
    assert_eq!(world.statuses().await, [dead.clone(), ("synced".into(), None, 1)]);
    run(&world, "delete from hubferry.outbox_events").await;
    assert_eq!(world.statuses().await, [dead], "nobody has looked at this one");
    assert_eq!(world.status_of(&accepted[1]).await.0, "dead");
}

/// On a database that knows nothing: each command and option that operators are told exists.
#[tokio::test]
async fn commands_for_operators_are_understood() {
    let (database, folder) = (fresh_database().await, tempfile::tempdir().unwrap());
    let blocks = Page::of("docs/OPERATIONS.md").blocks("sh");
    let commands: Vec<&str> = blocks.iter().flat_map(|block| block.lines()).collect();
    assert!(commands.len() >= 5, "docs/OPERATIONS.md has no commands");
    for command in commands {
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("hubferry"), "{command}");
        let output = tokio::process::Command::new(hubferry())
            .args(words)
            .current_dir(folder.path())
            .env_clear()
            .env("HUBFERRY_DATABASE_URL", &database.url)
            .env("HUBFERRY_REDIS_URL", redis_url())
            .output()
            .await
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("Usage:"), "docs/OPERATIONS.md has a command that is not understood: {command}\n{said}");
    }
}

/// Section 3 of ARCHITECTURE.md, as far as it can be watched between two steps.
#[tokio::test(flavor = "multi_thread")]
async fn the_walk_of_one_event_leaves_the_rows_that_the_architecture_names() {
    let world = World::new().await;
    let accepted =
        world.accept(vec![with(request("ada@example.test", "subscribed"), json!({"lane": "interactive"}))]).await;
    assert_eq!((accepted[0].sequence, world.status_of(&accepted[0]).await), (1, ("pending".into(), None)));
    world.dispatcher.run_once().await.unwrap();
    assert_eq!(world.status_of(&accepted[0]).await, ("queued".into(), None));
    let summary = world.work_off_queues().await;
    assert_eq!((summary.synced, summary.calls), (1, 4));
    assert_eq!(world.status_of(&accepted[0]).await, ("synced".into(), None));

    let connection = world.db.connection().await.unwrap();
    let sql = "select l.record_id is not null and l.lease_token is null as linked, a.applied_sequence, a.applied_state,
                      (select array_agg(r.operation_key order by r.operation_key)
                       from hubferry.operation_receipts r where r.status = 'done') as receipts
               from hubferry.contact_links l, hubferry.applied_states a";
    let row = connection.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), (true, 1_i64, "subscribed"));
    assert_eq!(row.get::<_, Vec<String>>(3), ["contact", "segment:101:add", "status:1001:subscribed"]);
}

/// Runs the block of OPERATIONS.md that holds this text, for this world's portal.
async fn run(world: &World, holding: &str) {
    let blocks = Page::of("docs/OPERATIONS.md").blocks("sql");
    let block = blocks.iter().find(|block| block.contains(holding));
    let block = block.unwrap_or_else(|| panic!("docs/OPERATIONS.md has no statement with `{holding}`"));
    world.sql(&block.replace(SAMPLE_PORTAL, &format!("portal_id = {}", world.portal))).await;
}

/// Two lists of words are the same, or the test says which words are missing where.
fn agree(here: &str, some: &BTreeSet<String>, there: &str, others: &BTreeSet<String>) {
    let absent: Vec<_> = others.difference(some).collect();
    let unknown: Vec<_> = some.difference(others).collect();
    assert!(absent.is_empty(), "{absent:?} of {there} is missing in {here}: add a row");
    assert!(unknown.is_empty(), "{unknown:?} in {here} is unknown to {there}: correct or remove it");
}
