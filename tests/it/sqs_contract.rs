//! The SQS emulator against another one: one script of operations through boto3, compared step by step.
//!
//! boto3 and moto are written by others from the documentation of SQS, so that an error of ours in reading it shows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sqs_emulator::SqsEmulator;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Answers by the name of the script's step.
type Steps = BTreeMap<String, Value>;

/// The Python with boto3 and moto.
const PYTHON_VARIABLE: &str = "HUBFERRY_TEST_PYTHON";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/it/sqs_contract.py");
const LOCALHOST: &str = "127.0.0.1:0";
/// Between two looks whether moto listens.
const START_PAUSE: Duration = Duration::from_millis(100);
/// Looks before moto counts as not started: a minute, for machines that are busy with other tests.
const START_LOOKS_MAX: usize = 600;

#[tokio::test]
async fn the_sqs_emulator_answers_boto3_as_moto_does() {
    let python = python();
    let emulator = SqsEmulator::start(LOCALHOST.parse().unwrap()).await.unwrap();
    let moto = Moto::start(&python).await;
    let ours = run_script(&python, emulator.endpoint_url());
    let theirs = run_script(&python, moto.endpoint_url());
    let (ours, theirs) = tokio::join!(ours, theirs);
    let deviations = deviations();
    assert_eq!(names(&ours), names(&theirs));
    for (step, answer) in &ours {
        match deviations.get(step.as_str()) {
            None => assert_eq!(answer, &theirs[step], "step `{step}`"),
            Some(expected) => {
                assert_eq!(answer, expected, "step `{step}`, in which moto deviates");
                assert_ne!(answer, &theirs[step], "moto no longer deviates in step `{step}`");
            }
        }
    }
    assert!(deviations.keys().all(|step| ours.contains_key(*step)));
}

/// Where moto is known to differ from SQS, with what SQS answers.
fn deviations() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        // moto carries characters that SQS refuses.
        (
            "send a character that is not carried",
            json!({"class": "InvalidMessageContents", "error": "InvalidMessageContents"}),
        ),
        (
            "batch with a character that is not carried",
            json!({
                "failed": [["bad", "InvalidMessageContents", true]],
                "successful": [{"Id": "good", "MD5OfMessageBody": "d2f6520849a4f012d0af6bbd2854b0c7"}],
            }),
        ),
        // moto says "true" as text where the protocol has a truth value.
        (
            "batch with too long a delay",
            json!({
                "failed": [["late", "InvalidParameterValue", true]],
                "successful": [{"Id": "good", "MD5OfMessageBody": "d2f6520849a4f012d0af6bbd2854b0c7"}],
            }),
        ),
        // moto has no checksum of system attributes.
        (
            "send with trace",
            json!({
                "MD5OfMessageBody": "811b93782eec22f6be139a4bfae49197",
                "MD5OfMessageSystemAttributes": "62a56dd927315f2b2e12832b84617ea5",
            }),
        ),
        // moto does not tell from which queue a dead letter comes.
        (
            "dead letter",
            json!([{
                "Attributes": {
                    "ApproximateFirstReceiveTimestamp": "present",
                    "ApproximateReceiveCount": "3",
                    "DeadLetterQueueSourceArn": "contract-work",
                    "SenderId": "present",
                    "SentTimestamp": "present",
                },
                "Body": "poison",
                "MD5OfBody": "35393c24384b8862798716628f7bc6f4",
                "MD5OfMessageAttributes": null,
                "MessageAttributes": {},
                "has_handle": true,
                "has_id": true,
            }]),
        ),
        // moto says that the queue itself does not exist.
        ("redrive to an unknown queue", json!({"class": "ClientError", "error": "InvalidParameterValue"})),
        // moto takes any number.
        ("setting out of range", json!({"class": "InvalidAttributeValue", "error": "InvalidAttributeValue"})),
    ])
}

fn names(steps: &Steps) -> Vec<&String> {
    steps.keys().collect()
}

#[expect(clippy::disallowed_methods, reason = "the test's own setting, which no function of hubferry knows")]
pub(crate) fn python() -> String {
    std::env::var(PYTHON_VARIABLE)
        .unwrap_or_else(|_| panic!("{PYTHON_VARIABLE} is not set: run `make test`, which installs what it needs"))
}

async fn run_script(python: &str, endpoint_url: String) -> Steps {
    let output = Command::new(python).arg(SCRIPT).arg(&endpoint_url).kill_on_drop(true).output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the script failed against {endpoint_url}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// moto's server, which ends with this value.
struct Moto {
    address: SocketAddr,
    process: Child,
}

impl Moto {
    async fn start(python: &str) -> Self {
        let address = free_address().await;
        let process = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut moto = Self { address, process };
        moto.listening().await;
        moto
    }

    fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the process, which has no other way to say that it listens.
    async fn listening(&mut self) {
        for _ in 0..START_LOOKS_MAX {
            if TcpStream::connect(self.address).await.is_ok() {
                return;
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "moto's server did not start: run `make test`, which installs moto");
            tokio::time::sleep(START_PAUSE).await;
        }
        panic!("moto's server does not listen on {}", self.address);
    }
}

/// An address that was free a moment ago: moto cannot say which port it took.
async fn free_address() -> SocketAddr {
    TcpListener::bind(LOCALHOST).await.unwrap().local_addr().unwrap()
}
