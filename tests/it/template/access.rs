//! Who may do what.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::document::{Resource, arn_of, list, reference};
use super::{LANES, main_template};

/// Actions that know no resources.
const WITHOUT_RESOURCES: [&str; 2] = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"];

#[test]
fn every_function_has_a_role_of_its_own() {
    let template = main_template();
    let mut roles = BTreeSet::new();
    for function in template.functions() {
        let role = function.name.replace("Function", "Role");
        assert_eq!(function.property("/Role"), &arn_of(&role));
        assert!(function.property("/Policies").is_null(), "{}: SAM would make a role", function.name);
        let managed = template.resource(&role).property("/ManagedPolicyArns");
        assert_eq!(managed, &json!([reference("FunctionBasics")]), "{role}: policies of AWS allow more than needed");
        roles.insert(role);
    }
    assert_eq!(roles.len(), template.functions().len());
}

#[test]
fn roles_name_what_they_allow_and_on_what() {
    let template = main_template();
    for role in template.resources("AWS::IAM::Role") {
        for statement in role.statements() {
            let actions = list(&statement["Action"]);
            let named = |action: &Value| action.as_str().is_some_and(|action| !action.contains('*'));
            assert!(actions.iter().all(named), "{} allows by wildcard: {actions:?}", role.name);
            let unnamed = list(&statement["Resource"]).contains(&json!("*"));
            let traces = actions.iter().all(|action| WITHOUT_RESOURCES.iter().any(|known| action == known));
            assert!(!unnamed || traces, "{} allows on everything: {actions:?}", role.name);
        }
    }
}

#[test]
fn only_the_dispatcher_sends_and_only_the_worker_takes() {
    assert_eq!(who_may("sqs:SendMessage"), [("DispatcherRole".to_owned(), lanes())]);
    for action in ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"] {
        assert_eq!(who_may(action), [("WorkerRole".to_owned(), lanes())]);
    }
}

#[test]
fn the_reconciler_may_look_into_all_queues() {
    let of_reconciler = who_may("sqs:GetQueueAttributes").into_iter().find(|(role, _)| role == "ReconcilerRole");
    let (_, queues) = of_reconciler.expect("the reconciler looks into dead-letter queues");
    let all = LANES.iter().flat_map(|lane| [arn_of(&format!("{lane}Queue")), arn_of(&format!("{lane}DeadQueue"))]);
    assert_eq!(queues, all.collect::<Vec<_>>());
}

/// What a function's variables name is what its configuration shows.
#[test]
fn a_secret_reaches_only_those_who_need_it() {
    assert_eq!(who_is_given("HubSpotSecretArn"), ["worker"]);
    assert_eq!(who_is_given("WebhookSecretArn"), ["webhook"]);
    assert_eq!(who_is_given("SigningKeySecretArn"), ["dispatcher", "worker"]);
    assert_eq!(who_is_given("CacheSecretArn"), ["worker"]);
}

#[test]
fn only_those_who_call_somebody_reach_the_internet() {
    let template = main_template();
    let out = template
        .functions()
        .into_iter()
        .filter(|function| list(function.property("/VpcConfig/SecurityGroupIds")).contains(&reference("HttpsClients")));
    let mut out: Vec<String> = out.map(Resource::function).collect();
    out.sort();
    assert_eq!(out, ["dispatcher", "reconciler", "worker"]);
}

#[test]
fn access_logs_hold_no_path_and_no_address() {
    let template = main_template();
    let format = template.resource("ApiStage").property("/AccessLogSettings/Format").to_string();
    for personal in ["context.path", "sourceIp", "identity", "userAgent", "authorizer"] {
        assert!(!format.contains(personal), "access logs hold {personal}");
    }
    assert_eq!(template.resource("ApiStage").property("/StageName"), "$default", "a named stage is a part of the path");
}

fn lanes() -> Vec<Value> {
    LANES.iter().map(|lane| arn_of(&format!("{lane}Queue"))).collect()
}

/// Roles with this action, and on what.
fn who_may(action: &str) -> Vec<(String, Vec<Value>)> {
    let template = main_template();
    let mut found = Vec::new();
    for role in template.resources("AWS::IAM::Role") {
        for statement in
            role.statements().into_iter().filter(|statement| list(&statement["Action"]).contains(&json!(action)))
        {
            found.push((role.name.to_owned(), list(&statement["Resource"])));
        }
    }
    found
}

/// Functions whose variables hold something of this secret.
fn who_is_given(secret: &str) -> Vec<String> {
    let template = main_template();
    let place = format!("Secrets.Outputs.{secret}");
    let functions = template.functions().into_iter();
    let given = functions.filter(|function| function.property("/Environment").to_string().contains(&place));
    let mut names: Vec<String> = given.map(Resource::function).collect();
    names.sort();
    names
}
