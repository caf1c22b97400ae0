"""Runs one script of SQS operations through boto3 and prints what came back, as JSON.

Usage: sqs_contract.py ENDPOINT_URL

What differs between two services by nature (ids, handles, times, hosts, accounts) is normalised; the rest is printed
as it came, one entry a step, so that two services can be compared step by step.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

SQS = boto3.client(
    "sqs",
    endpoint_url=sys.argv[1],
    region_name="eu-west-1",
    aws_access_key_id="test",
    aws_secret_access_key="test",
    config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30),
)
STEPS = {}
INVISIBLE = {"SentTimestamp", "ApproximateFirstReceiveTimestamp", "SenderId"}


def step(name, action):
    """Does one step and records its answer, or the code and the class of its error."""
    try:
        STEPS[name] = action()
    except ClientError as error:
        STEPS[name] = {"error": error.response["Error"]["Code"], "class": type(error).__name__}


def name_of(url_or_arn):
    return url_or_arn.replace(":", "/").rsplit("/", 1)[-1]


def counts(url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
    attributes = SQS.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return [int(attributes[name]) for name in names]


def receive(url, **options):
    options = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"]} | options
    return SQS.receive_message(QueueUrl=url, **options).get("Messages", [])


def shown(messages):
    """Messages without what differs by nature, in the order of their bodies."""
    return sorted((shown_message(message) for message in messages), key=lambda message: message["Body"])


def shown_message(message):
    attributes = dict(message.get("Attributes", {}))
    for name in INVISIBLE & attributes.keys():
        attributes[name] = "present"
    if "DeadLetterQueueSourceArn" in attributes:
        attributes["DeadLetterQueueSourceArn"] = name_of(attributes["DeadLetterQueueSourceArn"])
    own = {
        name: {key: value.hex() if isinstance(value, bytes) else value for key, value in attribute.items()}
        for name, attribute in message.get("MessageAttributes", {}).items()
    }
    return {
        "Body": message["Body"],
        "MD5OfBody": message["MD5OfBody"],
        "MD5OfMessageAttributes": message.get("MD5OfMessageAttributes"),
        "Attributes": attributes,
        "MessageAttributes": own,
        "has_id": bool(message["MessageId"]),
        "has_handle": bool(message["ReceiptHandle"]),
    }


def shown_batch(answer):
    """What succeeded and what failed, by id."""
    successful = [
        {key: value for key, value in entry.items() if key not in ("MessageId", "SequenceNumber")}
        for entry in answer.get("Successful", [])
    ]
    failed = [[entry["Id"], entry["Code"], entry["SenderFault"]] for entry in answer.get("Failed", [])]
    return {"successful": sorted(successful, key=lambda entry: entry["Id"]), "failed": sorted(failed)}


def text(value, data_type="String"):
    return {"DataType": data_type, "StringValue": value}


def queues():
    dead = SQS.create_queue(QueueName="contract-dead")["QueueUrl"]
    dead_arn = SQS.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2})
    attributes = {"VisibilityTimeout": "60", "RedrivePolicy": policy}

    def create(**changed):
        made = SQS.create_queue(QueueName="contract-work", Attributes=attributes | changed)
        return name_of(made["QueueUrl"])

    step("queue is made", create)
    step("queue is made again alike", create)
    step("queue is made again differently", lambda: create(VisibilityTimeout="61"))
    step("queue name with a space", lambda: SQS.create_queue(QueueName="contract work"))
    step("queue url by name", lambda: name_of(SQS.get_queue_url(QueueName="contract-work")["QueueUrl"]))
    step("queue url of an unknown name", lambda: SQS.get_queue_url(QueueName="contract-none"))
    step("queues by prefix", lambda: sorted(map(name_of, SQS.list_queues(QueueNamePrefix="contract-")["QueueUrls"])))
    step("no queue by prefix", lambda: SQS.list_queues(QueueNamePrefix="nothing").get("QueueUrls", []))
    return SQS.get_queue_url(QueueName="contract-work")["QueueUrl"], dead, dead_arn


def attributes_of_queues(work):
    def settings():
        names = [
            "VisibilityTimeout",
            "DelaySeconds",
            "MessageRetentionPeriod",
            "MaximumMessageSize",
            "ReceiveMessageWaitTimeSeconds",
            "RedrivePolicy",
        ]
        answer = SQS.get_queue_attributes(QueueUrl=work, AttributeNames=names)["Attributes"]
        policy = json.loads(answer.pop("RedrivePolicy"))
        policy["deadLetterTargetArn"] = name_of(policy["deadLetterTargetArn"])
        return {"attributes": answer, "policy": policy}

    def every_name():
        answer = SQS.get_queue_attributes(QueueUrl=work, AttributeNames=["All"])["Attributes"]
        return sorted(answer)

    def change(name, value):
        SQS.set_queue_attributes(QueueUrl=work, Attributes={name: value})
        return settings()["attributes"]

    step("settings", settings)
    step("all attributes by name", every_name)
    step("no attribute asked for", lambda: SQS.get_queue_attributes(QueueUrl=work).get("Attributes"))
    step("unknown attribute", lambda: SQS.get_queue_attributes(QueueUrl=work, AttributeNames=["Colour"]))
    step("setting changed", lambda: change("ReceiveMessageWaitTimeSeconds", "0"))
    step("setting out of range", lambda: change("DelaySeconds", "901"))
    step("setting put right", lambda: change("DelaySeconds", "0"))


def messages(work):
    def send(**fields):
        answer = SQS.send_message(QueueUrl=work, **fields)
        return {key: value for key, value in answer.items() if key.startswith("MD5")}

    own = {"kind": text("contact"), "version": text("1", "Number"), "raw": {"DataType": "Binary", "BinaryValue": b"\0\xff"}}
    trace = {"AWSTraceHeader": text("Root=1-5759e988-bd862e3fe1be46a994272793")}
    step("send plain", lambda: send(MessageBody="plain"))
    step("send with attributes", lambda: send(MessageBody="rich é", MessageAttributes=own))
    step("send with group", lambda: send(MessageBody="grouped", MessageGroupId="brand-a"))
    step("send with trace", lambda: send(MessageBody="traced", MessageSystemAttributes=trace))
    step("send delayed", lambda: send(MessageBody="delayed", DelaySeconds=600))
    step("counts after sending", lambda: counts(work))
    step("send to an unknown queue", lambda: SQS.send_message(QueueUrl=work + "-none", MessageBody="x"))

    received = receive(work)
    step("receive everything", lambda: shown(received))
    step("counts while in flight", lambda: counts(work))
    step("receive nothing", lambda: shown(receive(work)))
    step("receive eleven", lambda: receive(work, MaxNumberOfMessages=11))
    step("receive with too long a wait", lambda: receive(work, WaitTimeSeconds=21))
    step("receive with too long a visibility", lambda: receive(work, VisibilityTimeout=43_201))
    return received


def refused_messages():
    """What is not carried, on a queue of its own: a service that takes such a message may fail at later receives."""
    scrap = SQS.create_queue(QueueName="contract-scrap")["QueueUrl"]

    def send(**fields):
        answer = SQS.send_message(QueueUrl=scrap, **fields)
        return {key: value for key, value in answer.items() if key.startswith("MD5")}

    step("send with too long a delay", lambda: send(MessageBody="x", DelaySeconds=901))
    step("send an unknown attribute type", lambda: send(MessageBody="x", MessageAttributes={"when": text("x", "Date")}))
    step("send an ill named attribute", lambda: send(MessageBody="x", MessageAttributes={"a b": text("x")}))
    step("send a character that is not carried", lambda: send(MessageBody="x\x01"))
    step("send too large a body", lambda: send(MessageBody="x" * 1_048_577))


def visibility(work, received):
    rich = next(message for message in received if message["Body"] == "rich é")
    plain = next(message for message in received if message["Body"] == "plain")

    def show(message):
        SQS.change_message_visibility(QueueUrl=work, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)

    step("visibility ended", lambda: show(rich))
    step("receive again by attribute prefix", lambda: shown(receive(work, MessageAttributeNames=["ver.*", "kind"])))
    step("visibility of a made-up handle", lambda: show({"ReceiptHandle": "made-up"}))
    step("visibility beyond the quota", lambda: SQS.change_message_visibility(
        QueueUrl=work, ReceiptHandle=plain["ReceiptHandle"], VisibilityTimeout=43_201))
    entries = [
        {"Id": "good", "ReceiptHandle": plain["ReceiptHandle"], "VisibilityTimeout": 30},
        {"Id": "bad", "ReceiptHandle": "made-up", "VisibilityTimeout": 30},
    ]
    step("visibility batch", lambda: shown_batch(SQS.change_message_visibility_batch(QueueUrl=work, Entries=entries)))


def deleting(work, received):
    by_body = {message["Body"]: message["ReceiptHandle"] for message in received}

    def delete(handle):
        SQS.delete_message(QueueUrl=work, ReceiptHandle=handle)
        return counts(work)

    step("delete", lambda: delete(by_body["plain"]))
    step("delete again", lambda: delete(by_body["plain"]))
    step("delete by a made-up handle", lambda: delete("made-up"))
    entries = [
        {"Id": "good", "ReceiptHandle": by_body["grouped"]},
        {"Id": "bad", "ReceiptHandle": "made-up"},
    ]
    step("delete batch", lambda: shown_batch(SQS.delete_message_batch(QueueUrl=work, Entries=entries)))
    step("delete batch without entries", lambda: SQS.delete_message_batch(QueueUrl=work, Entries=[]))
    step("delete batch with one id twice", lambda: SQS.delete_message_batch(
        QueueUrl=work, Entries=[{"Id": "a", "ReceiptHandle": by_body["traced"]}] * 2))
    step("counts after deleting", lambda: counts(work))


def batches(work):
    def send(entries):
        return shown_batch(SQS.send_message_batch(QueueUrl=work, Entries=entries))

    def entry(identifier, body="batched", **fields):
        return {"Id": identifier, "MessageBody": body} | fields

    good = [entry("a-1", MessageAttributes={"kind": text("contact")}), entry("b_2", MessageGroupId="brand-b")]
    step("batch", lambda: send(good))
    step("batch with too long a delay", lambda: send([entry("good"), entry("late", DelaySeconds=901)]))
    step("batch with a character that is not carried", lambda: send([entry("good"), entry("bad", "x\x01")]))
    step("batch without entries", lambda: send([]))
    step("batch of eleven", lambda: send([entry(str(number)) for number in range(11)]))
    step("batch with one id twice", lambda: send([entry("same"), entry("same")]))
    step("batch with a colon in an id", lambda: send([entry("1:contact")]))
    step("batch with too long an id", lambda: send([entry("i" * 81)]))
    step("batch too large", lambda: send([entry(str(number), "x" * 110_000) for number in range(10)]))
    step("batch to an unknown queue", lambda: SQS.send_message_batch(QueueUrl=work + "-none", Entries=good))


def redrive(work, dead):
    step("purge", lambda: SQS.purge_queue(QueueUrl=work) and counts(work))
    SQS.send_message(QueueUrl=work, MessageBody="poison")
    for number in (1, 2, 3):
        step(f"redrive receive {number}", lambda: shown(receive(work, VisibilityTimeout=0)))
    step("counts after the redrive", lambda: [counts(work), counts(dead)])
    step("dead letter", lambda: shown(receive(dead)))


def ending(work, dead_arn):
    policy = json.dumps({"deadLetterTargetArn": dead_arn + "-none", "maxReceiveCount": 2})
    step("redrive to an unknown queue", lambda: SQS.set_queue_attributes(
        QueueUrl=work, Attributes={"RedrivePolicy": policy}))
    step("queue is deleted", lambda: SQS.delete_queue(QueueUrl=work) and None)
    step("send to the deleted queue", lambda: SQS.send_message(QueueUrl=work, MessageBody="x"))
    step("receive from the deleted queue", lambda: receive(work))


def main():
    work, dead, dead_arn = queues()
    attributes_of_queues(work)
    received = messages(work)
    refused_messages()
    visibility(work, received)
    deleting(work, received)
    batches(work)
    redrive(work, dead)
    ending(work, dead_arn)
    json.dump(STEPS, sys.stdout, indent=1, sort_keys=True)


main()
