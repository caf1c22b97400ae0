//! An application in another language: the program `psql`.

use std::process::Output;

use tokio::process::Command;

use super::setting::Setting;

/// Runs a script in one session that stops at the first error.
async fn psql(setting: &Setting, script: &str) -> Output {
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]);
    command.args(["--set", "VERBOSITY=verbose", "--dbname", setting.url(), "--command", script]);
    command.kill_on_drop(true).output().await.expect("psql is installed")
}

const ACCEPT: &str =
    "select sequence, status, replayed from hubferry.accept_subscription('acme', 'newsletter', 'sign-up-1',
    '{\"email\": \"ada@example.test\", \"properties\": {\"firstname\": \"Ada\"}}', 'subscribed',
    '{\"legal_basis\": \"CONSENT_WITH_NOTICE\", \"explanation\": \"ticked the box\"}');";

#[tokio::test]
async fn another_program_accepts_inside_its_own_transaction() {
    let setting = Setting::new().await;
    let script =
        format!("begin; create table orders (id int); insert into orders values (1); {ACCEPT} {ACCEPT} commit;");
    let output = psql(&setting, &script).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().collect::<Vec<_>>(), ["1|accepted|f", "1|accepted|t"]);
    let row = setting.ask("select (select count(*) from orders), (select count(*) from hubferry.outbox_events)").await;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 1));
}

#[tokio::test]
async fn another_program_that_rolls_back_leaves_nothing() {
    let setting = Setting::new().await;
    let before = setting.rows().await;
    let output = psql(&setting, &format!("begin; {ACCEPT} rollback;")).await;
    assert!(output.status.success());
    assert_eq!(setting.rows().await, before);
}

#[tokio::test]
async fn another_program_reads_state_field_and_code_of_a_refusal() {
    let setting = Setting::new().await;
    let output = psql(&setting, &ACCEPT.replace("ada@example.test", "nobody")).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for part in ["HF005", "contact.email must be one address", "DETAIL:  invalid_email", "COLUMN NAME:  contact.email"]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}
