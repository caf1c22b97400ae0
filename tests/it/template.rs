//! `template.yaml` and what it is made of say what the code says, and keep rules of AWS that no linter knows.

mod access;
mod document;
mod packaging;
mod queues;
mod stacks;
mod variables;
mod watching;

use document::{Resource, Template, text};
use hubferry::startup::WORKER_CONNECTIONS;
use serde_json::json;

const TEMPLATES: [&str; 7] = [
    "template.yaml",
    "infra/network.yaml",
    "infra/secrets.yaml",
    "infra/database.yaml",
    "infra/cache.yaml",
    "infra/alarms.yaml",
    "infra/dashboard.yaml",
];

const LANES: [&str; 3] = ["Interactive", "Bulk", "Inbound"];

/// Connections of every other function than the worker.
const ONE_CONNECTION: u64 = 1;

fn main_template() -> Template {
    Template::of("template.yaml")
}

/// The YAML of `CloudFormation` knows no aliases and no merge keys; linters do.
#[test]
fn templates_use_no_yaml_that_cloudformation_does_not_read() {
    for path in TEMPLATES {
        let text = text(path);
        let written = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        let tricks = |line: &&str| {
            let value = line.split_once(": ").map_or(*line, |(_, value)| value).trim_start_matches("- ");
            line.starts_with("<<:") || value.starts_with('&') || (value.starts_with('*') && value.len() > 1)
        };
        let found: Vec<_> = written.filter(tricks).collect();
        assert!(found.is_empty(), "{path} has anchors, aliases or merge keys: {found:?}");
    }
}

#[test]
fn the_local_stack_runs_with_the_same_numbers() {
    let (template, local) = (main_template(), text("cli/src/up/components.rs") + &text("cli/src/up/mod.rs"));
    for (name, mapping) in template.resource("WorkerFunction").mappings() {
        let lane = name.to_uppercase();
        assert_eq!(mapping["BatchSize"], json!(number(&local, &format!("{lane}_BATCH"))));
        assert_eq!(
            mapping["ScalingConfig"]["MaximumConcurrency"],
            json!(number(&local, &format!("{lane}_CONCURRENCY")))
        );
        if name != "Interactive" {
            assert_eq!(mapping["MaximumBatchingWindowInSeconds"], json!(number(&local, &format!("{lane}_WINDOW"))));
        }
    }
    assert_eq!(template.resource("WorkerFunction").number("/Timeout"), number(&local, "INVOCATION_TIME"));
    assert_eq!(
        template.resource("BulkQueue").number("/RedrivePolicy/maxReceiveCount"),
        number(&local, "MOST_RECEIVES")
    );
    for (function, period, name) in
        [("Dispatcher", "rate(1 minute)", "DISPATCHER_PERIOD"), ("Reconciler", "rate(5 minutes)", "RECONCILER_PERIOD")]
    {
        let function_name = format!("{function}Function");
        let schedule = template.resource(&function_name).property("/Events/Tick/Properties/ScheduleExpression");
        assert_eq!(schedule, &json!(period));
        assert_eq!(number(&local, name).to_string(), period.chars().filter(char::is_ascii_digit).collect::<String>());
    }
}

/// It stops beginning rounds shortly before its time limit; what is left has to last until the next tick.
#[test]
fn a_dispatcher_polls_until_the_next_one_begins() {
    let template = main_template();
    let dispatcher = template.resource("DispatcherFunction");
    let margin = number(&text("shared/src/flows/dispatcher.rs"), "ROUND_TIME");
    assert!(dispatcher.number("/Timeout") >= 60 + margin);
    assert!(dispatcher.number("/ReservedConcurrentExecutions") >= 2, "the next one would be refused");
}

/// A tick that waits is of no use: runs would pile up behind one that takes long.
#[test]
fn ticks_are_not_kept() {
    let template = main_template();
    for name in ["DispatcherFunction", "ReconcilerFunction"] {
        let function = template.resource(name);
        assert!(function.number("/ReservedConcurrentExecutions") <= 2);
        for place in ["/EventInvokeConfig", "/Events/Tick/Properties/RetryPolicy"] {
            assert_eq!(function.property(place), &json!({"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}));
        }
    }
}

#[test]
fn all_functions_together_open_fewer_connections_than_the_database_has() {
    let template = main_template();
    let opened: u64 = template
        .functions()
        .iter()
        .map(|function| {
            let each = if function.function() == "worker" { WORKER_CONNECTIONS as u64 } else { ONE_CONNECTION };
            each * function.number("/ReservedConcurrentExecutions")
        })
        .sum();
    let least = template.at("/Parameters/DatabaseMaxConnections/MinValue").as_u64().expect("a number");
    let percent = Template::of("infra/database.yaml")
        .resource("ProxyTargets")
        .number("/ConnectionPoolConfigurationInfo/MaxConnectionsPercent");
    assert!(opened < least * percent / 100, "{opened} connections, and the database may have as few as {least}");
    let database = Template::of("infra/database.yaml");
    assert_eq!(
        database.resource("Settings").property("/Parameters/max_connections"),
        &document::reference("MaxConnections")
    );
}

#[test]
fn every_function_is_deployed_once_the_schema_is_up_to_date() {
    let template = main_template();
    let mut deployed: Vec<String> = template.functions().into_iter().map(Resource::function).collect();
    let folders = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../functions")).expect("the functions");
    let mut built: Vec<String> =
        folders.map(|folder| folder.expect("a folder").file_name().to_string_lossy().into_owned()).collect();
    deployed.sort();
    built.sort();
    assert_eq!(deployed, built);
    for function in template.functions() {
        assert_eq!(function.property("/CodeUri"), &json!(format!("functions/{}", function.function())));
        assert_eq!(function.attribute("Metadata")["BuildMethod"], "rust-cargolambda");
        if function.function() != "migrate" {
            assert_eq!(function.attribute("DependsOn"), "Migration", "{}", function.name);
        }
    }
}

/// What a stack within the stack does not give is noticed by AWS alone, after the database was made.
#[test]
fn stacks_within_the_stack_give_what_is_asked_of_them() {
    let (template, whole) = (main_template(), text("template.yaml"));
    let stacks = template.resources("AWS::CloudFormation::Stack");
    assert_eq!(stacks.len(), TEMPLATES.len() - 1);
    for stack in stacks {
        let path = stack.property("/TemplateURL").as_str().expect("a path");
        let inner = Template::of(path);
        let place = format!("{}.Outputs.", stack.name);
        let asked = whole.split(&place).skip(1);
        for output in asked.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()) {
            inner.at(&format!("/Outputs/{output}"));
        }
        for parameter in stack.property("/Parameters").as_object().expect("parameters").keys() {
            inner.at(&format!("/Parameters/{parameter}"));
        }
    }
}

#[test]
fn logs_end_some_day() {
    let template = main_template();
    let groups = template.resources("AWS::Logs::LogGroup");
    assert_eq!(
        groups.len(),
        template.functions().len() + 1,
        "a function without a log group makes one that lasts for ever"
    );
    for group in groups {
        assert_eq!(group.property("/RetentionInDays"), &document::reference("LogRetentionDays"), "{}", group.name);
    }
    for function in template.functions() {
        let logs = function.name.replace("Function", "Logs");
        assert_eq!(function.property("/LoggingConfig/LogGroup"), &document::reference(&logs));
    }
}

/// Two stacks in one account have to get along: what has a name of its own has the stack's in it.
#[test]
fn no_name_is_the_same_in_another_stack() {
    let template = main_template();
    let named = [
        ("AWS::Serverless::Function", "/FunctionName"),
        ("AWS::SQS::Queue", "/QueueName"),
        ("AWS::Logs::LogGroup", "/LogGroupName"),
        ("AWS::CloudWatch::Alarm", "/AlarmName"),
    ];
    for (kind, place) in named {
        for resource in template.resources(kind) {
            let name = resource.property(place).to_string();
            assert!(name == "null" || name.contains("AWS::StackName"), "{} is called {name}", resource.name);
        }
    }
    for name in ["DispatcherFunction", "ReconcilerFunction"] {
        let schedule = template.resource(name).property("/Events/Tick/Properties/Name").to_string();
        assert!(schedule.contains("AWS::StackName"), "SAM calls a schedule after its function, so {name} needs a name");
    }
}

/// Without it, a change of variables or memory publishes no version, and the alias goes on with the old one.
#[test]
fn a_change_of_any_property_makes_a_version() {
    let template = main_template();
    assert_eq!(template.at("/Globals/Function/AutoPublishAlias"), "live");
    for function in template.functions() {
        assert_eq!(function.property("/AutoPublishAliasAllProperties"), &json!(true), "{}", function.name);
        let description = function.property("/Description").to_string();
        assert!(description.contains("${SecretsRevision}"), "{} does not change with the secrets", function.name);
    }
}

/// The first number in the value of a constant; it stands in the unit that the template uses.
fn number(source: &str, constant: &str) -> u64 {
    let value = source.split_once(&format!("const {constant}:")).and_then(|(_, rest)| rest.split_once('='));
    let value = value.unwrap_or_else(|| panic!("there is no constant {constant}")).1;
    let digits: String = value.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{constant} has no number"))
}
