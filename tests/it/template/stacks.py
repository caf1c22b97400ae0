"""Creates the project's stacks in moto's CloudFormation and prints what came of them, as JSON.

Usage: stacks.py FOLDER_OF_THE_PROJECT PARAMETERS_AS_JSON

What moto does not have is taken out of the templates first and listed; what refers to it gets a stand-in.
"""

import io
import ipaddress
import json
import logging
import os
import pathlib
import re
import sys
import warnings
import zipfile

REGION = "eu-west-1"
os.environ |= {"AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

import boto3
import moto.cloudformation.models
from moto import mock_aws
from moto.awslambda.models import LambdaVersion
from moto.cloudformation.parsing import NULL_MODELS, get_model_map
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

PROJECT = pathlib.Path(sys.argv[1])
PARAMETERS = json.loads(sys.argv[2])
BUCKET = "templates"
STACK = "hubferry"
ALIAS = "AWS::Lambda::Alias"
NESTED = "AWS::CloudFormation::Stack"
# moto makes instances, but none of an Aurora cluster.
TOO_SIMPLE = {"AWS::RDS::DBInstance"}


class NoManagedPolicies:
    """Policies that SAM knows by name. The template names them by their ARN."""

    def load(self):
        return {}


def is_known(kind):
    return kind in NULL_MODELS or (kind in get_model_map() and kind not in TOO_SIMPLE)


class Reduced:
    """A template without what moto lacks."""

    def __init__(self, template):
        resources = template["Resources"]
        self.unknown = {name for name, body in resources.items() if not is_known(body["Type"])}
        self.left_out = {resources[name]["Type"] for name in self.unknown}
        # Whoever asks for an alias gets the function.
        self.aliases = {
            name: body["Properties"]["FunctionName"] for name, body in resources.items() if body["Type"] == ALIAS
        }
        self.addresses = template.get("Parameters", {}).get("Cidr", {}).get("Default")
        kept = {name: body for name, body in resources.items() if name not in self.unknown}
        self.template = self.reduced(template | {"Resources": kept})

    def reduced(self, value):
        if isinstance(value, list):
            return [self.reduced(element) for element in value]
        if not isinstance(value, dict):
            return value
        if value.get("Ref") in self.aliases:
            return self.aliases[value["Ref"]]
        if value.get("Ref") in self.unknown:
            return self.stand_in(value["Ref"])
        if (value.get("Fn::GetAtt") or [None])[0] in self.unknown:
            return self.stand_in(*value["Fn::GetAtt"])
        if "Fn::Sub" in value:
            return {"Fn::Sub": self.substituted(value["Fn::Sub"])}
        if "Fn::Cidr" in value:
            self.left_out.add("Fn::Cidr")
            _, count, bits = value["Fn::Cidr"]
            networks = ipaddress.ip_network(self.addresses).subnets(new_prefix=32 - int(bits))
            return [str(network) for network, _ in zip(networks, range(int(count)))]
        if "DependsOn" in value:
            names = value["DependsOn"] if isinstance(value["DependsOn"], list) else [value["DependsOn"]]
            value = value | {"DependsOn": [name for name in names if name not in self.unknown]}
        return {key: self.reduced(element) for key, element in value.items()}

    def substituted(self, value):
        text, names = value if isinstance(value, list) else (value, None)

        def filled(found):
            return self.stand_in(found[1]) if found[1] in self.unknown else found[0]

        text = re.sub(r"\$\{(\w+)(\.\w+)?\}", filled, text)
        return [text, self.reduced(names)] if names else text

    @staticmethod
    def stand_in(name, attribute=None):
        if attribute == "Arn" or name.endswith("Secret"):
            return f"arn:aws:left-out:{REGION}:123456789012:{name}"
        return f"{name}-{attribute}" if attribute else name


def output_of_nested(stack, attribute):
    for output in stack.output_map.values():
        if f"Outputs.{output.key}" == attribute:
            return output.value
    raise KeyError(f"{stack.name} has no {attribute}")


def teach_moto():
    """Attributes that moto's models lack."""
    for model in vars(moto.cloudformation.models).values():
        if isinstance(model, type) and getattr(model, "cloudformation_type", lambda: None)() == NESTED:
            model.get_cfn_attribute = output_of_nested
    LambdaVersion.get_cfn_attribute = lambda version, attribute: version.version


def transformed():
    """What AWS makes of template.yaml, once `sam package` has uploaded what it names."""
    template = yaml_parse((PROJECT / "template.yaml").read_text())
    for body in template["Resources"].values():
        if body["Type"] == "AWS::Serverless::Function":
            body["Properties"]["CodeUri"] = f"s3://{BUCKET}/bootstrap.zip"
        if body["Type"] == NESTED:
            body["Properties"]["TemplateURL"] = f"https://s3.amazonaws.com/{BUCKET}/{body['Properties']['TemplateURL']}"
    return transform(template, PARAMETERS, NoManagedPolicies())


def upload(nested):
    bootstrap = io.BytesIO()
    with zipfile.ZipFile(bootstrap, "w") as archive:
        archive.writestr("bootstrap", "")
    files = boto3.client("s3")
    files.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    files.put_object(Bucket=BUCKET, Key="bootstrap.zip", Body=bootstrap.getvalue())
    for name, reduced in nested.items():
        files.put_object(Bucket=BUCKET, Key=f"infra/{name}", Body=json.dumps(reduced.template))


def report(left_out):
    stacks = boto3.client("cloudformation").describe_stacks()["Stacks"]
    whole = next(stack for stack in stacks if stack["StackName"] == STACK)
    queues = boto3.client("sqs")
    functions = boto3.client("lambda")
    # Attributes of every queue by its ARN.
    made = [
        queues.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        for url in queues.list_queues()["QueueUrls"]
    ]
    return {
        "left_out": sorted(left_out),
        "stacks": {re.sub(r"-[A-Z0-9]{12}$", "", stack["StackName"]): stack["StackStatus"] for stack in stacks},
        "outputs": {output["OutputKey"]: output["OutputValue"] for output in whole["Outputs"]},
        "queues": {queue["QueueArn"]: json.loads(queue.get("RedrivePolicy", "null")) for queue in made},
        "functions": {
            function["FunctionArn"]: function.get("Environment", {}).get("Variables", {})
            for function in functions.list_functions()["Functions"]
        },
        "mappings": [
            {"queue": mapping["EventSourceArn"], "function": mapping["FunctionArn"], "batch": mapping["BatchSize"]}
            for mapping in functions.list_event_source_mappings()["EventSourceMappings"]
        ],
    }


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    teach_moto()
    nested = {path.name: Reduced(yaml_parse(path.read_text())) for path in (PROJECT / "infra").glob("*.yaml")}
    whole = Reduced(transformed())
    with mock_aws():
        upload(nested)
        boto3.client("cloudformation").create_stack(
            StackName=STACK,
            TemplateBody=json.dumps(whole.template),
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in PARAMETERS.items()],
            Capabilities=["CAPABILITY_IAM"],
        )
        left_out = whole.left_out.union(*(reduced.left_out for reduced in nested.values()))
        print(json.dumps(report(left_out), indent=1))


main()
