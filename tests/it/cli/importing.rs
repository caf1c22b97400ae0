//! `hubferry import`: what becomes of a file.

use super::{Desk, counts};

/// Two rows that are right.
const TWO: &str = "email,desired_state\nada@example.test,subscribed\njan@example.test,unsubscribed\n";

#[tokio::test]
async fn a_wrong_header_is_told_whole_and_nothing_is_written() {
    let desk = Desk::new().await;
    desk.write("a.csv", "email,e-mail,email,properties.\nada@example.test,,,\n");
    let run = desk.import("a.csv", &[]).await;
    let fault = run.failure(2);
    for part in [
        "column 2 (e-mail) is not known",
        "column 3 (email) is there twice",
        "column 4 (properties.) is not known",
        "no column desired_state and no --desired-state",
        "allowed are email, brand, product",
    ] {
        assert!(fault.contains(part), "{part} is missing in: {fault}");
    }
    assert!(!fault.contains("ada"), "{fault}");
    assert_eq!(desk.requests().await, 0);
    assert_eq!(std::fs::read_dir(desk.folder.path()).unwrap().count(), 1, "no file is left beside");
}

#[tokio::test]
async fn an_unknown_option_value_or_a_missing_file_is_told() {
    let desk = Desk::new().await;
    desk.write("a.csv", TWO);
    assert!(desk.import("a.csv", &["--batch-size", "501"]).await.failure(2).contains("1..=500"));
    assert!(desk.import("b.csv", &[]).await.failure(1).contains("b.csv can't be opened"));
}

#[tokio::test]
async fn byte_order_mark_carriage_returns_and_quotes_are_read_as_spreadsheets_write_them() {
    let desk = Desk::new().await;
    let text = "\u{feff}\"email\",desired_state,properties.firstname,properties.note\r\n\
                ada@example.test,subscribed,\"Ada \"\"Countess\"\"\",\"one\r\ntwo, three\"\r\n\
                \r\n\
                ann@ex\u{e4}mple.test,subscribed,,\r\n\
                broken,subscribed,,\r\n\
                ,,,\r\n";
    desk.write("a.csv", text);
    let summary = desk.import("a.csv", &[]).await.json(3);
    assert_eq!(counts(&summary), [3, 2, 0, 1]);

    let sql = "select properties ->> 'firstname', properties ->> 'note' from hubferry.contacts where email = 'ada@example.test'";
    let ada = desk.sql.query_one(sql, &[]).await.unwrap();
    assert_eq!((ada.get(0), ada.get(1)), ("Ada \"Countess\"", "one\r\ntwo, three"));
    let ann = "select count(*) from hubferry.contacts where email = 'ann@xn--exmple-cua.test' and properties = '{}'";
    assert_eq!(desk.count(ann).await, 1);
    // The header is line 1, Ada's record begins on 2 and takes two lines, 4 is empty, Ann is on 5.
    assert!(desk.read("a.rejected.csv").contains("\n6,invalid_email,email,"));
    let keys =
        "select count(*) from hubferry.subscription_requests where idempotency_key ~ '^import:[0-9a-f]{16}:(2|5)$'";
    assert_eq!(desk.count(keys).await, 2);
}

#[tokio::test]
async fn a_bad_row_fails_alone_and_is_listed_without_its_values() {
    let desk = Desk::new().await;
    let mut file = b"email,desired_state,product,properties.city\n".to_vec();
    file.extend_from_slice(b"ada@example.test,subscribed,newsletter,Delft\n");
    file.extend_from_slice(b"not-an-address,subscribed,newsletter,Delft\n");
    file.extend_from_slice(b"bob@example.test,subscribed,newsletter\n");
    file.extend_from_slice(b"cas@example.test,subscribed,newsletter,Z\xfcrich\n");
    file.extend_from_slice(b"dan@example.test,maybe,newsletter,Delft\n");
    file.extend_from_slice(b"eve@example.test,subscribed,catalogue,Delft\n");
    file.extend_from_slice(b"fay@example.test,subscribed,newsletter,De\0lft\n");
    file.extend_from_slice(format!("gus@example.test,subscribed,newsletter,{}\n", "x".repeat(10 << 20)).as_bytes());
    file.extend_from_slice(b"jan@example.test,unsubscribed,newsletter,Delft\n");
    file.extend_from_slice(b"kim@example.test,subscribed,newsletter,\"never closed\n");
    desk.write("a.csv", file);

    let run = desk.import("a.csv", &["--rejected", "list.csv"]).await;
    let summary = run.json(3);
    assert_eq!(counts(&summary), [10, 2, 0, 8]);
    assert_eq!(summary["rejected_file"], "list.csv");
    assert_eq!(desk.requests().await, 2);
    assert_eq!(desk.newest_state("jan@example.test").await, "unsubscribed");

    let list = desk.read("list.csv");
    let expected = [
        "line,code,field",
        "3,invalid_email,email",
        "4,wrong_field_count,",
        "5,invalid_utf8,properties.city",
        "6,invalid_desired_state,desired_state",
        "7,unknown_product,product",
        "8,invalid_request,properties.city",
        "9,row_too_large,",
        "11,open_quote,",
    ];
    for (line, start) in list.lines().zip(expected) {
        assert!(line.starts_with(start), "{line} does not start with {start}");
    }
    assert_eq!(list.lines().count(), expected.len(), "{list}");
    for value in ["not-an-address", "bob@", "dan@", "rich", "maybe", "catalogue", "xxx", "Delft"] {
        assert!(!list.contains(value) && !run.stderr.contains(value), "{value} is shown");
    }
    assert!(!desk.path("a.csv.hubferry-progress").exists());
}

#[tokio::test]
async fn consent_is_not_made_up() {
    let desk = Desk::new().await;
    desk.write("a.csv", TWO);
    let run = desk.run(&["--json", "import", "a.csv", "--brand", "acme", "--product", "newsletter"]).await;
    assert_eq!(counts(&run.json(3)), [2, 1, 0, 1]);
    let list = desk.read("a.rejected.csv");
    assert!(list.contains("\n2,invalid_consent,legal_basis,"), "{list}");
}

#[tokio::test]
async fn a_second_run_of_the_same_file_changes_nothing() {
    let desk = Desk::new().await;
    desk.write("a.csv", TWO);
    assert_eq!(counts(&desk.import("a.csv", &[]).await.json(0)), [2, 2, 0, 0]);
    let before = desk.count("select sum(last_sequence)::bigint from hubferry.subscription_streams").await;
    let again = desk.import("a.csv", &["--batch-size", "1"]).await;
    assert_eq!(counts(&again.json(0)), [2, 0, 2, 0]);
    assert_eq!(desk.count("select sum(last_sequence)::bigint from hubferry.subscription_streams").await, before);
    assert_eq!(desk.requests().await, 2);
}

#[tokio::test]
async fn of_two_rows_about_one_contact_the_later_one_wins() {
    for batch_size in ["1", "500"] {
        let desk = Desk::new().await;
        let rows = ["subscribed", "unsubscribed", "subscribed", "unsubscribed"]
            .map(|state| format!("Ada@example.test,{state}\n"));
        desk.write("a.csv", format!("email,desired_state\n{}", rows.concat()));
        assert_eq!(counts(&desk.import("a.csv", &["--batch-size", batch_size]).await.json(0)), [4, 4, 0, 0]);
        assert_eq!(desk.newest_state("ada@example.test").await, "unsubscribed");
        let sql = "select count(*) from hubferry.subscription_requests
                   where idempotency_key like '%:' || (sequence + 1)";
        assert_eq!(desk.count(sql).await, 4, "sequences follow the file's order");
    }
}

#[tokio::test]
async fn another_delimiter_is_named_by_the_fault_and_taken_when_it_is_said() {
    let desk = Desk::new().await;
    desk.write("a.csv", TWO.replace(',', ";"));
    assert!(desk.import("a.csv", &[]).await.failure(2).contains("--delimiter ';'"));
    assert_eq!(counts(&desk.import("a.csv", &["--delimiter", ";"]).await.json(0)), [2, 2, 0, 0]);
}

#[tokio::test]
async fn the_list_of_rejected_rows_replaces_no_other_file() {
    let desk = Desk::new().await;
    desk.write("a.csv", TWO);
    desk.write("precious.csv", "email\n");
    for list in ["precious.csv", "a.csv"] {
        assert!(desk.import("a.csv", &["--rejected", list]).await.failure(2).contains("name another file"));
    }
    assert_eq!((desk.read("precious.csv").as_str(), desk.read("a.csv").as_str()), ("email\n", TWO));
    assert_eq!(desk.requests().await, 0);
}

#[tokio::test]
async fn a_file_of_a_header_alone_is_done_at_once() {
    let desk = Desk::new().await;
    desk.write("a.csv", "email,desired_state");
    assert_eq!(counts(&desk.import("a.csv", &[]).await.json(0)), [0, 0, 0, 0]);
}
