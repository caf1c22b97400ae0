//! A template as a tree: what `CloudFormation` writes with a tag (`!Ref X`) is read as the object that it stands for.

use serde_json::{Map, Value, json};
use serde_yaml_ng::Value as Yaml;

/// The text of a file, by its path from the root.
pub(super) fn text(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A template.
pub(super) struct Template(Value);

/// A resource with its name.
#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    pub(super) name: &'a str,
    body: &'a Value,
}

impl Template {
    pub(super) fn of(path: &str) -> Self {
        let yaml: Yaml = serde_yaml_ng::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self(plain(yaml))
    }

    /// What stands at this JSON pointer.
    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or_else(|| panic!("the template has nothing at {pointer}"))
    }

    /// Resources of a type.
    pub(super) fn resources(&self, kind: &str) -> Vec<Resource<'_>> {
        let all = self.at("/Resources").as_object().expect("resources by name");
        let of_kind = all.iter().filter(|(_, body)| body["Type"] == kind);
        of_kind.map(|(name, body)| Resource { name, body }).collect()
    }

    pub(super) fn resource<'a>(&'a self, name: &'a str) -> Resource<'a> {
        Resource { name, body: self.at(&format!("/Resources/{name}")) }
    }

    /// The functions that run our code.
    pub(super) fn functions(&self) -> Vec<Resource<'_>> {
        let functions = self.resources("AWS::Serverless::Function");
        assert!(functions.len() >= 6, "template.yaml has too few functions");
        functions
    }
}

impl<'a> Resource<'a> {
    /// A property, or null.
    pub(super) fn property(self, pointer: &str) -> &'a Value {
        self.body["Properties"].pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(super) fn number(self, pointer: &str) -> u64 {
        let value = self.property(pointer);
        value.as_u64().unwrap_or_else(|| panic!("{} has no number at {pointer}, but {value}", self.name))
    }

    /// Beside the properties, such as `DependsOn`.
    pub(super) fn attribute(self, name: &str) -> &'a Value {
        &self.body[name]
    }

    /// The short name of a function: `worker` of `WorkerFunction`.
    pub(super) fn function(self) -> String {
        self.name.trim_end_matches("Function").to_lowercase()
    }

    /// The variables of a function, by name.
    pub(super) fn variables(self) -> &'a Map<String, Value> {
        self.property("/Environment/Variables").as_object().unwrap_or_else(|| panic!("{} has no variables", self.name))
    }

    /// What a function takes from queues: (name, properties).
    pub(super) fn mappings(self) -> Vec<(&'a str, &'a Value)> {
        let events = self.property("/Events").as_object().into_iter().flatten();
        events
            .filter(|(_, event)| event["Type"] == "SQS")
            .map(|(name, event)| (name.as_str(), &event["Properties"]))
            .collect()
    }

    /// What a role may do, as far as it is written here.
    pub(super) fn statements(self) -> Vec<&'a Value> {
        let policies = self.property("/Policies").as_array().into_iter().flatten();
        let documents = policies.map(|policy| &policy["PolicyDocument"]["Statement"]);
        documents.flat_map(|statements| statements.as_array().expect("a list of statements")).collect()
    }
}

/// One value or a list of them, as IAM allows.
pub(super) fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

/// `{"Ref": name}`.
pub(super) fn reference(name: &str) -> Value {
    json!({ "Ref": name })
}

/// `{"Fn::GetAtt": "name.Arn"}`.
pub(super) fn arn_of(name: &str) -> Value {
    json!({ "Fn::GetAtt": format!("{name}.Arn") })
}

fn plain(yaml: Yaml) -> Value {
    match yaml {
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            let name = match tag.trim_start_matches('!') {
                name @ ("Ref" | "Condition") => name.to_owned(),
                name => format!("Fn::{name}"),
            };
            json!({ name: plain(tagged.value) })
        }
        Yaml::Sequence(values) => values.into_iter().map(plain).collect(),
        Yaml::Mapping(entries) => entries
            .into_iter()
            .map(|(key, value)| (key.as_str().map_or_else(|| format!("{key:?}"), str::to_owned), plain(value)))
            .collect::<Map<_, _>>()
            .into(),
        scalar => serde_json::to_value(scalar).expect("a scalar"),
    }
}
