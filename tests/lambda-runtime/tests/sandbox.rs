//! The emulator, by a function that does what it is told.

use std::time::Duration;

use lambda_runtime_emulator::{Function, FunctionError, Instances, Outcome, Sandbox};
use serde_json::{Value, json};
use tokio::process::Command;

/// Far more than any invocation here takes.
const AMPLE: Duration = Duration::from_mins(1);

/// No invocation that hangs ends before this.
const SHORT: Duration = Duration::from_millis(300);

fn odd_function() -> Function {
    Function::new("odd", env!("CARGO_BIN_EXE_odd-function")).with("OF_ITS_OWN", "yes")
}

fn told(what: &str) -> Value {
    json!({"do": what})
}

#[tokio::test]
async fn an_event_comes_to_the_function_and_its_answer_back() {
    let mut sandbox = Sandbox::start(&odd_function()).await.unwrap();
    let answer = sandbox.invoke(&json!({"text": "é"}), AMPLE).await.answer().unwrap();
    assert_eq!(answer["event"], json!({"text": "é"}));
    assert_eq!(answer["arn"], "arn:aws:lambda:eu-west-1:123456789012:function:odd");
    assert!(answer["trace"].as_str().unwrap().starts_with("Root=1-"), "{answer}");
}

#[tokio::test]
async fn a_function_sees_what_lambda_sets_and_nothing_else() {
    let mut sandbox = Sandbox::start(&odd_function()).await.unwrap();
    let answer = sandbox.invoke(&told("tell"), AMPLE).await.answer().unwrap();
    let names: Vec<&str> =
        answer["environment"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"AWS_LAMBDA_RUNTIME_API") && names.contains(&"OF_ITS_OWN"), "{names:?}");
    assert!(!names.contains(&"HOME") && !names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
}

#[tokio::test]
async fn a_process_is_stopped_whenever_it_waits_for_an_event() {
    let mut sandbox = Sandbox::start(&odd_function()).await.unwrap();
    let mut pid = async || sandbox.invoke(&told("tell"), AMPLE).await.answer().unwrap()["pid"].to_string();
    for _ in 0..3 {
        let pid = pid().await;
        let is_stopped = async || {
            let output = Command::new("ps").args(["-o", "state=", "-p", &pid]).output().await.unwrap();
            // What the system says of a process that got SIGSTOP.
            output.stdout.starts_with(b"T")
        };
        let stopped = async {
            while !is_stopped().await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(AMPLE, stopped).await.expect("it goes on running");
    }
}

#[tokio::test]
async fn an_error_is_the_invocation_s_and_the_process_serves_the_next() {
    let instances = Instances::of(odd_function());
    let error = FunctionError { error_type: "Odd.Failed".into(), message: "as it was told".into() };
    assert_eq!(instances.invoke(&told("fail"), AMPLE).await.unwrap(), Outcome::Failed(error));
    assert!(instances.invoke(&told("tell"), AMPLE).await.unwrap().answer().is_ok());
    assert_eq!(instances.started(), 1);
}

#[tokio::test]
async fn a_process_that_hangs_or_ends_is_replaced() {
    let instances = Instances::of(odd_function());
    assert_eq!(instances.invoke(&told("hang"), SHORT).await.unwrap(), Outcome::TimedOut);
    let Outcome::Ended(status) = instances.invoke(&told("exit"), AMPLE).await.unwrap() else { panic!("it goes on") };
    assert_eq!(status.code(), Some(7));
    assert!(instances.invoke(&told("tell"), AMPLE).await.unwrap().answer().is_ok());
    assert_eq!(instances.started(), 3);
}

#[tokio::test]
async fn events_at_once_are_handled_by_as_many_instances() {
    let instances = Instances::of(odd_function());
    let (one, tell) = (told("hang"), told("tell"));
    let (hung, told) = tokio::join!(instances.invoke(&one, SHORT), instances.invoke(&tell, AMPLE));
    assert_eq!(hung.unwrap(), Outcome::TimedOut);
    assert!(told.unwrap().answer().is_ok());
    assert_eq!(instances.started(), 2);
}

#[tokio::test]
async fn a_bootstrap_that_ends_before_its_first_event_is_seen() {
    let sandbox = Sandbox::start(&Function::new("false", "/bin/false")).await.unwrap();
    assert!(sandbox.ready().await.is_err());
    assert_eq!(sandbox.ended().await.unwrap().code(), Some(1));
}
