//! The stacks, made by another implementation of `CloudFormation`, as far as it goes: AWS's own translator of SAM, then moto.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use super::TEMPLATES;
use crate::sqs_contract::python;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/it/template/stacks.py");

/// Some seconds are usual; a busy machine takes longer.
const FAR_TOO_LONG: Duration = Duration::from_mins(5);

/// What moto 5.2.1 does not make. The linters and the other tests of the templates see it all.
const NOT_IN_MOTO: [&str; 25] = [
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudWatch::Alarm",
    "AWS::CodeDeploy::Application",
    "AWS::CodeDeploy::DeploymentGroup",
    "AWS::ElastiCache::ParameterGroup",
    "AWS::ElastiCache::ReplicationGroup",
    "AWS::ElastiCache::SubnetGroup",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Logs::MetricFilter",
    "AWS::RDS::DBCluster",
    "AWS::RDS::DBClusterParameterGroup",
    "AWS::RDS::DBInstance",
    "AWS::RDS::DBProxy",
    "AWS::RDS::DBProxyTargetGroup",
    "AWS::SNS::Subscription",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
    "AWS::Scheduler::Schedule",
    "AWS::SecretsManager::Secret",
    "Custom::Migration",
    "Fn::Cidr",
];

/// What came of it, by ARN where not by name.
#[derive(Deserialize)]
struct Made {
    left_out: Vec<String>,
    stacks: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
    queues: BTreeMap<String, Option<Redrive>>,
    functions: BTreeMap<String, BTreeMap<String, String>>,
    mappings: Vec<Mapping>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Redrive {
    dead_letter_target_arn: String,
}

#[derive(Deserialize)]
struct Mapping {
    queue: String,
    function: String,
}

#[tokio::test]
async fn the_transformed_templates_make_their_stacks() {
    let made = made(&json!({})).await;
    assert_eq!(made.left_out, NOT_IN_MOTO, "moto has changed, or the templates name something new");
    assert_eq!(made.stacks.len(), TEMPLATES.len(), "{:?}", made.stacks);
    assert_whole(&made);
}

#[tokio::test]
async fn what_people_already_have_is_not_made_again() {
    let secret = |name: &str| format!("arn:aws:secretsmanager:eu-west-1:123456789012:secret:{name}");
    let theirs = json!({
        "VpcId": "vpc-0a", "PrivateSubnetIds": "subnet-0a,subnet-0b",
        "DatabaseHost": "db.example.test", "DatabaseSecretArn": secret("database"),
        "CacheHost": "cache.example.test", "CacheSecretArn": secret("cache"),
        "HubSpotSecretArn": secret("hubspot"), "WebhookSecretArn": secret("webhook"), "SigningKeySecretArn": secret("key"),
        "WebhookUrl": "https://hooks.example.test/hubspot",
    });
    let made = made(&theirs).await;
    let stacks: Vec<_> = made.stacks.keys().map(String::as_str).collect();
    assert_eq!(stacks, ["hubferry", "hubferry-Alarms", "hubferry-Dashboard", "hubferry-Secrets"]);
    assert_whole(&made);
    for (output, given) in [
        ("WebhookUrl", "WebhookUrl"),
        ("DatabaseSecretArn", "DatabaseSecretArn"),
        ("HubSpotSecretArn", "HubSpotSecretArn"),
    ] {
        assert_eq!(json!(made.outputs[output]), theirs[given]);
    }
    let variables: String = made.functions.values().flat_map(BTreeMap::values).map(String::as_str).collect();
    for name in ["DatabaseHost", "DatabaseSecretArn", "CacheHost", "CacheSecretArn", "HubSpotSecretArn", "WebhookUrl"] {
        assert!(variables.contains(theirs[name].as_str().unwrap_or_default()), "no function is told {name}");
    }
}

/// All is there, and what one thing names of another is what that is called.
fn assert_whole(made: &Made) {
    assert!(made.stacks.values().all(|status| status == "CREATE_COMPLETE"), "{:?}", made.stacks);
    let (dead, alive): (Vec<_>, Vec<_>) = made.queues.iter().partition(|(_, redrive)| redrive.is_none());
    let targets: BTreeSet<&str> =
        alive.iter().filter_map(|(_, redrive)| redrive.as_ref()).map(|to| to.dead_letter_target_arn.as_str()).collect();
    assert_eq!(targets, dead.iter().map(|(arn, _)| arn.as_str()).collect());
    let read: BTreeSet<&str> = made.mappings.iter().map(|mapping| mapping.queue.as_str()).collect();
    assert_eq!(read, alive.iter().map(|(arn, _)| arn.as_str()).collect(), "a queue that nobody reads");
    for mapping in &made.mappings {
        assert!(made.functions.contains_key(&mapping.function), "{} is read by nobody", mapping.queue);
    }
    for (function, variables) in &made.functions {
        for (name, value) in variables {
            assert!(!value.contains("${"), "{name} of {function} is {value}");
        }
    }
}

async fn made(parameters: &Value) -> Made {
    let mut script = Command::new(python());
    script.args([SCRIPT, PROJECT, &parameters.to_string()]).kill_on_drop(true);
    let output = timeout(FAR_TOO_LONG, script.output()).await.expect("an end").expect("the Python of the tests");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the stacks were not made: {errors}");
    serde_json::from_slice(&output.stdout).expect("what was made, as JSON")
}
