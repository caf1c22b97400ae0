//! What is done once: schema, portal, mapping, token; and the look at how it goes.

use hubferry::adapters::db::{self, Db};
use hubspot_simulator::{AccountConfig, Simulator, SimulatorConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{Desk, PORTAL, Run, counts};

const PORTAL_TOKEN: &str = "simulator-token";

impl Desk {
    /// A portal id of its own, since all tests share one Redis.
    async fn with_hubspot(&self, simulator: &Simulator, arguments: &[&str]) -> Run {
        let mut command = self.command(arguments);
        command.env("HUBFERRY_HUBSPOT_URL", simulator.base_url()).env("HUBFERRY_HUBSPOT_TOKEN", PORTAL_TOKEN);
        Run::of(command.output().await.unwrap())
    }
}

/// A simulated HubSpot with one account of a random id.
async fn hubspot() -> (Simulator, u64) {
    let portal = rand::random_range(1_000_000..1 << 50);
    let config =
        SimulatorConfig { accounts: vec![AccountConfig::new(portal, PORTAL_TOKEN)], ..SimulatorConfig::default() };
    (Simulator::start(config).await.unwrap(), portal)
}

fn example(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(root.join("docs/examples").join(name)).unwrap()
}

#[tokio::test]
async fn a_new_database_is_brought_to_the_examples_by_hand() {
    let desk = Desk::bare().await;
    let (simulator, portal) = hubspot().await;
    desk.sql.batch_execute("drop schema hubferry cascade").await.unwrap();
    assert!(desk.run(&["status"]).await.failure(1).contains("run `hubferry migrate`"));

    let applied = desk.run(&["migrate", "--json"]).await.json(0);
    assert!(applied["applied"].as_array().unwrap().len() as u64 >= applied["version"].as_u64().unwrap());
    let again = desk.run(&["migrate"]).await;
    assert!(again.stdout.starts_with("nothing to apply\n"), "{}", again.stdout);

    let id = portal.to_string();
    assert_eq!(desk.with_hubspot(&simulator, &["--json", "portal", "init", &id]).await.json(0)["created"], true);
    assert_eq!(desk.with_hubspot(&simulator, &["--json", "portal", "init", &id]).await.json(0)["created"], false);

    desk.write("mapping.json", example("newsletter.mapping.json").replace("4711", &id));
    let push = ["--json", "mapping", "push", "mapping.json"];
    let first = json!({"brand": "acme", "product": "newsletter", "version": 1, "unchanged": false});
    assert_eq!(desk.run(&push).await.json(0), first);
    assert_eq!(desk.run(&push).await.json(0)["unchanged"], true);
    assert_eq!(desk.run(&["--json", "mapping", "activate", "acme", "newsletter"]).await.json(0)["version"], 1);

    desk.write("contacts.csv", example("contacts.csv"));
    assert_eq!(counts(&desk.run(&["--json", "import", "contacts.csv"]).await.json(0)), [3, 3, 0, 0]);
    let status = desk.run(&["status", "--json"]).await.json(0);
    assert_eq!((&status["portals"][0]["portal_id"], &status["portals"][0]["pending"]), (&json!(portal), &json!(3)));
    let table = desk.run(&["status"]).await.stdout;
    assert!(table.contains("pending") && table.contains(&id), "{table}");
}

#[tokio::test]
async fn watching_shows_it_again_until_nobody_reads() {
    let desk = Desk::new().await;
    let mut child = desk.command(&["status", "--watch", "--json"]).spawn().unwrap();
    let mut looks = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let look: Value = serde_json::from_str(&looks.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(look["portals"][0]["portal_id"], PORTAL.0);
    }
    drop(looks);
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_property_that_is_not_unique_is_refused() {
    let desk = Desk::bare().await;
    let (simulator, portal) = hubspot().await;
    let run =
        desk.with_hubspot(&simulator, &["portal", "init", &portal.to_string(), "--unique-property", "company"]).await;
    assert!(run.failure(1).contains("need not be unique"), "{}", run.stderr);
    assert_eq!(desk.count("select count(*) from hubferry.portals").await, 0, "nothing is registered that can't work");
}

#[tokio::test]
async fn a_token_of_another_portal_is_refused_before_anything_is_created_there() {
    let desk = Desk::bare().await;
    let (simulator, portal) = hubspot().await;
    let run = desk.with_hubspot(&simulator, &["portal", "init", &(portal + 1).to_string()]).await;
    assert!(run.failure(1).contains(&format!("belongs to portal {portal}")), "{}", run.stderr);
    assert!(!run.stderr.contains(PORTAL_TOKEN));
}

#[tokio::test]
async fn what_is_missing_is_named_at_once() {
    let desk = Desk::bare().await;
    let mut command = desk.command(&["portal", "init", "4711"]);
    command.env_remove("HUBFERRY_DATABASE_URL").env_remove("HUBFERRY_REDIS_URL");
    let run = Run::of(command.output().await.unwrap());
    for name in ["HUBFERRY_DATABASE_URL", "HUBFERRY_REDIS_URL", "HUBFERRY_HUBSPOT_TOKEN"] {
        assert!(run.failure(1).contains(&format!("{name} is not set")), "{}", run.stderr);
    }
}

#[tokio::test]
async fn the_local_stack_s_file_gives_what_is_not_set() {
    let desk = Desk::bare().await;
    std::fs::create_dir_all(desk.path(".local")).unwrap();
    std::fs::create_dir_all(desk.path("below/it")).unwrap();
    let line = format!("HUBFERRY_DATABASE_URL={}\n", desk.database.url);
    desk.write(".local/stack.env", &line);
    desk.write("other.env", &line);
    for arguments in [&["status"][..], &["status", "--env-file", "../../other.env"]] {
        let mut command = desk.command(arguments);
        command.env_remove("HUBFERRY_DATABASE_URL").current_dir(desk.path("below/it"));
        let run = Run::of(command.output().await.unwrap());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stdout.starts_with("there are no portals yet"), "{}", run.stdout);
        assert!(run.stderr.starts_with("using the database of "), "{}", run.stderr);
    }
    desk.write("other.env", "nonsense");
    let run = desk.run(&["status", "--env-file", "other.env"]).await;
    assert!(run.failure(2).contains("line 1") && !run.stderr.contains("nonsense"), "{}", run.stderr);
}

#[tokio::test]
async fn a_mapping_that_can_t_work_is_refused_by_its_field() {
    let desk = Desk::new().await;
    let mut mapping: Value = serde_json::from_str(&example("newsletter.mapping.json")).unwrap();
    let push = ["mapping", "push", "m.json"];
    let mut fault_of = async |pointer: &str, value: Value| {
        let original = std::mem::replace(mapping.pointer_mut(pointer).unwrap(), value);
        desk.write("m.json", mapping.to_string());
        *mapping.pointer_mut(pointer).unwrap() = original;
        desk.run(&push).await.failure(2).to_owned()
    };
    assert!(fault_of("/portal", json!(4712)).await.contains("run `hubferry portal init 4712` first"));
    assert!(fault_of("/brand", json!("Acme")).await.contains("brand must be"));
    assert!(fault_of("/targets/segments", json!({"add": []})).await.contains("targets.segments.add: unknown field"));
    assert!(fault_of("/targets/subscription_type", json!(0)).await.contains("targets.subscription_type must be"));
    assert_eq!(desk.count("select max(version)::bigint from hubferry.mappings").await, 1);
}

#[tokio::test]
async fn a_brand_stays_with_its_portal() {
    let desk = Desk::new().await;
    desk.sql.batch_execute("insert into hubferry.portals (portal_id, name) values (4712, 'other')").await.unwrap();
    desk.write("m.json", example("newsletter.mapping.json").replace("4711", "4712"));
    let fault = desk.run(&["mapping", "push", "m.json"]).await;
    assert!(fault.failure(2).contains(&format!("brand acme belongs to portal {PORTAL}")), "{}", fault.stderr);
}

#[tokio::test]
async fn a_version_that_is_not_there_can_t_be_activated() {
    let desk = Desk::new().await;
    let run = desk.run(&["mapping", "activate", "acme", "newsletter", "9"]).await;
    assert!(run.failure(2).contains("acme/newsletter does not have a version 9"), "{}", run.stderr);
}

#[tokio::test]
async fn a_token_is_shown_once_and_acts_for_its_brands() {
    let desk = Desk::new().await;
    let made = desk.run(&["--json", "token", "create", "shop", "--brand", "acme"]).await.json(0);
    let token = made["token"].as_str().unwrap();
    let db = Db::new(&desk.database.url.clone().into(), 1).unwrap();
    let brands = db::token_brands(&*db.connection().await.unwrap(), &token.into()).await.unwrap();
    assert_eq!(brands, Some(vec!["acme".to_owned()]));
    let stored = format!("select count(*) from hubferry.api_tokens t where t::text like '%{}%'", &token[3..]);
    assert_eq!(desk.count(&stored).await, 0);

    let unknown = desk.run(&["token", "create", "shop", "--brand", "acme", "--brand", "other"]).await;
    assert!(unknown.failure(2).contains("there is no brand other"), "{}", unknown.stderr);
}

#[tokio::test]
async fn a_mapping_is_compared_with_the_portal_s_properties_where_a_token_is_given() {
    let desk = Desk::bare().await;
    let (simulator, portal) = hubspot().await;
    let id = portal.to_string();
    desk.with_hubspot(&simulator, &["--json", "portal", "init", &id]).await.json(0);
    let targets = json!({"contact_properties": {
        "firstname": "first_name",
        "birthday": "born",
        "numemployees": {"property": "seats", "type": "date"},
        "no_such_property": "x",
        "lifecyclestage": {"value": "friend", "type": "enumeration"},
    }});
    let mapping = json!({"portal": portal, "brand": "acme", "product": "news", "targets": targets});
    desk.write("mapping.json", mapping.to_string());
    let run = desk.with_hubspot(&simulator, &["--json", "mapping", "push", "mapping.json"]).await;
    let warnings = run.json(0)["warnings"].clone();
    let warned: Vec<&str> = warnings
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning.as_str().unwrap().split(':').next().unwrap())
        .collect();
    let expected = ["birthday", "lifecyclestage", "no_such_property", "numemployees"];
    assert_eq!(warned, expected.map(|name| format!("contact_properties.{name}")));
    assert_eq!(simulator.stats().calls("properties.list"), 1, "{:?}", simulator.stats());

    let mut away = desk.command(&["--json", "mapping", "push", "mapping.json"]);
    away.env("HUBFERRY_HUBSPOT_URL", "http://127.0.0.1:1").env("HUBFERRY_HUBSPOT_TOKEN", PORTAL_TOKEN);
    let run = Run::of(away.output().await.unwrap());
    assert_eq!(run.json(0)["unchanged"], true, "HubSpot's absence stops nobody");
    assert!(run.stderr.contains("could not be compared with HubSpot"), "{}", run.stderr);
}
