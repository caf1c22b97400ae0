//! Many messages, straight on the actions: an SDK in between would be what takes the time.

use serde_json::{Value, json};

use crate::actions::{self, Call};
use crate::clock::Clock;
use crate::store::Store;
use crate::{QueueCounts, QueueSettings};

const MESSAGES: usize = 20_000;

struct Queue {
    store: Store,
    clock: Clock,
}

impl Queue {
    fn act(&mut self, action: &str, mut body: Value) -> Value {
        body["QueueUrl"] = json!("work");
        let now = self.clock.now();
        let call = &mut Call { store: &mut self.store, now, base_url: "http://localhost", trace_header: None };
        match action {
            "ReceiveMessage" => actions::receive(call, &actions::parse(&body).unwrap()).unwrap(),
            _ => actions::perform(call, action, &body).unwrap(),
        }
    }

    fn fill(&mut self) {
        for batch in 0..MESSAGES / 10 {
            let entry = |number: usize| json!({"Id": number.to_string(), "MessageBody": format!("{batch} {number}")});
            let entries: Vec<Value> = (0..10).map(entry).collect();
            self.act("SendMessageBatch", json!({ "Entries": entries }));
        }
    }

    fn receive_and_delete(&mut self) -> usize {
        let received = self.act("ReceiveMessage", json!({"MaxNumberOfMessages": 10}));
        let Some(messages) = received["Messages"].as_array() else { return 0 };
        let entry = |(number, message): (usize, &Value)| json!({"Id": number.to_string(), "ReceiptHandle": message["ReceiptHandle"]});
        let entries: Vec<Value> = messages.iter().enumerate().map(entry).collect();
        self.act("DeleteMessageBatch", json!({ "Entries": entries }));
        entries.len()
    }
}

#[test]
fn twenty_thousand_messages_pass_through() {
    let mut queue = Queue { store: Store::default(), clock: Clock::default() };
    let now = queue.clock.now();
    queue.store.put_queue(QueueSettings::new("work"), now).unwrap();
    queue.fill();
    assert_eq!(queue.store.queue("work").unwrap().counts().visible, MESSAGES);
    let mut received = 0;
    while received < MESSAGES {
        let more = queue.receive_and_delete();
        assert!(more > 0, "nothing left after {received}");
        received += more;
    }
    let queue = queue.store.queue("work").unwrap();
    assert_eq!(queue.counts(), QueueCounts::default());
    assert_eq!(queue.stats.deleted, MESSAGES as u64);
}
