//! Queues, and how the worker is given what is in them.

use std::time::Duration;

use serde_json::json;

use super::document::arn_of;
use super::{LANES, main_template};

#[test]
fn a_message_stays_hidden_for_six_time_limits_of_its_worker() {
    let template = main_template();
    let limit = template.resource("WorkerFunction").number("/Timeout");
    for lane in LANES {
        let queue = format!("{lane}Queue");
        let hidden = template.resource(&queue).number("/VisibilityTimeout");
        assert!(hidden >= 6 * limit, "{queue} hides a message for {hidden} s, the worker may take {limit} s");
    }
}

#[test]
fn a_message_dies_after_five_deliveries_and_its_dead_queue_keeps_it_longer() {
    let template = main_template();
    assert_eq!(template.resources("AWS::SQS::Queue").len(), 2 * LANES.len(), "a queue without a lane");
    for lane in LANES {
        let (queue, dead) = (format!("{lane}Queue"), format!("{lane}DeadQueue"));
        let (queue, dead) = (template.resource(&queue), template.resource(&dead));
        assert_eq!(queue.property("/RedrivePolicy/deadLetterTargetArn"), &arn_of(dead.name));
        assert!(queue.number("/RedrivePolicy/maxReceiveCount") >= 5, "{lane}");
        assert!(dead.number("/MessageRetentionPeriod") > queue.number("/MessageRetentionPeriod"), "{lane}");
        assert_eq!(dead.number("/MessageRetentionPeriod"), Duration::from_hours(14 * 24).as_secs());
        assert!(dead.property("/RedrivePolicy").is_null(), "a dead-letter queue of a dead-letter queue");
        for each in [queue, dead] {
            assert_eq!(each.property("/SqsManagedSseEnabled"), &json!(true), "{}", each.name);
        }
    }
}

#[test]
fn every_mapping_takes_partial_answers_and_batches_above_ten_have_a_window() {
    let template = main_template();
    let mappings = template.resource("WorkerFunction").mappings();
    assert_eq!(mappings.len(), LANES.len());
    for (name, mapping) in mappings {
        assert_eq!(mapping["Queue"], arn_of(&format!("{name}Queue")));
        assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]), "{name}");
        let size = mapping["BatchSize"].as_u64().expect("a batch size");
        let window = mapping["MaximumBatchingWindowInSeconds"].as_u64().unwrap_or_default();
        assert!(
            size <= 10 || (size <= 10_000 && window >= 1),
            "{name} has batches of {size} and a window of {window} s"
        );
    }
}

#[test]
fn mappings_together_stay_within_the_reserved_concurrency() {
    let template = main_template();
    let worker = template.resource("WorkerFunction");
    let each: Vec<u64> = worker
        .mappings()
        .iter()
        .map(|(name, mapping)| {
            let most = mapping["ScalingConfig"]["MaximumConcurrency"].as_u64();
            most.unwrap_or_else(|| panic!("{name} has no MaximumConcurrency"))
        })
        .collect();
    assert!(each.iter().all(|most| (2..=1000).contains(most)), "SQS takes 2 to 1000: {each:?}");
    assert!(each.iter().sum::<u64>() <= worker.number("/ReservedConcurrentExecutions"), "{each:?}");
}
