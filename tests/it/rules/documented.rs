//! What docs/RULES.md shows is what happens.

use std::path::PathBuf;

use tokio::process::Command;

use crate::program::hubferry;
use crate::servers::fresh_database;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worked_example_of_rules_works() {
    let page = std::fs::read_to_string(root().join("docs/RULES.md")).unwrap();
    let example = std::fs::read_to_string(root().join("docs/examples/deals.rules.json")).unwrap();
    assert_eq!(blocks(&page, "json"), [example], "docs/RULES.md shows another file");
    let database = fresh_database().await;
    let db = hubferry::adapters::db::Db::new(&database.url.clone().into(), 1).unwrap();
    let sql = "insert into hubferry.portals (portal_id, name) values (4711, 'example')";
    db.connection().await.unwrap().batch_execute(sql).await.unwrap();

    let mut said = Vec::new();
    let blocks_of_commands = blocks(&page, "sh");
    for command in blocks_of_commands.iter().flat_map(|block| block.lines()) {
        let output = Command::new(hubferry())
            .args(command.split_whitespace().skip(1))
            .current_dir(root())
            .env_clear()
            .env("HUBFERRY_DATABASE_URL", &database.url)
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        said.push(String::from_utf8(output.stdout).unwrap());
    }
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0], blocks(&page, "text")[0]);
    assert!(said[1].contains("version 1") && said[2].contains("customer-again"), "{said:?}");
}
