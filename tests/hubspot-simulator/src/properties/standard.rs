//! The properties that a fresh account knows.

use super::{
    PropertyDefinition, PropertyGroup,
    PropertyType::{self, Bool, Date, Datetime, Enumeration, Number, String as Text},
};
use crate::objects::{LIFECYCLE_STAGES, ObjectType};

/// Languages of `hs_language` that the simulator knows; HubSpot's own list is longer.
const LANGUAGES: [&str; 14] =
    ["en", "en-us", "en-gb", "nl", "nl-nl", "nl-be", "de", "de-de", "fr", "fr-fr", "es", "it", "pt", "pl"];

pub(super) fn group(object: ObjectType) -> PropertyGroup {
    let (name, label) = match object {
        ObjectType::Contact => ("contactinformation", "Contact information"),
        ObjectType::Task => ("task", "Task information"),
        ObjectType::Company => ("companyinformation", "Company information"),
        ObjectType::Deal => ("dealinformation", "Deal information"),
        ObjectType::Ticket => ("ticketinformation", "Ticket information"),
        ObjectType::Pet => ("pet_information", "Pet information"),
    };
    PropertyGroup { name: name.to_owned(), label: label.to_owned(), display_order: 0 }
}

pub(super) fn properties(object: ObjectType) -> Vec<PropertyDefinition> {
    let mut all = Vec::from(common(object));
    match object {
        ObjectType::Contact => all.extend(contact()),
        ObjectType::Task => all.extend(task()),
        ObjectType::Company => all.extend(texts(object, &["name", "domain", "city", "country", "phone"])),
        ObjectType::Deal => all.extend(texts(object, &["dealname", "dealstage", "pipeline", "amount"])),
        ObjectType::Ticket => all.extend(texts(object, &["subject", "content", "hs_pipeline_stage"])),
        ObjectType::Pet => all.extend(texts(object, &["name", "city"])),
    }
    all
}

fn common(object: ObjectType) -> [PropertyDefinition; 6] {
    let group = group(object).name;
    let own = |name: &str, kind: PropertyType, field_type: &str| {
        PropertyDefinition::standard(name, name, kind, field_type, &group)
    };
    [
        own("hs_object_id", Number, "number").read_only(),
        own("createdate", Datetime, "date").read_only(),
        own("lastmodifieddate", Datetime, "date").read_only(),
        own("hs_merged_object_ids", Enumeration, "checkbox").read_only(),
        own("hs_timestamp", Datetime, "date"),
        own("hubspot_owner_id", Text, "text"),
    ]
}

/// Properties of types of which only little is simulated.
fn texts(object: ObjectType, names: &[&str]) -> Vec<PropertyDefinition> {
    let group = group(object).name;
    names.iter().map(|name| PropertyDefinition::standard(name, name, Text, "text", &group)).collect()
}

fn contact() -> Vec<PropertyDefinition> {
    let text = |name: &str, label: &str| contact_property(name, label, Text, "text");
    let mut all = vec![
        text("email", "Email").unique(),
        contact_property("hs_additional_emails", "Additional email addresses", Enumeration, "checkbox"),
        contact_property("phone", "Phone number", Text, "phonenumber"),
        contact_property("mobilephone", "Mobile phone number", Text, "phonenumber"),
        contact_property("birthday", "Birthday", Date, "date"),
        contact_property("lifecyclestage", "Lifecycle stage", Enumeration, "radio").options(&LIFECYCLE_STAGES),
        contact_property("hs_language", "Preferred language", Enumeration, "select").options(&LANGUAGES),
        contact_property("hs_email_optout", "Unsubscribed from all email", Bool, "booleancheckbox").read_only(),
        contact_property("hs_calculated_merged_vids", "Merged vids", Enumeration, "checkbox").read_only(),
        contact_property("numemployees", "Number of employees", Number, "number"),
    ];
    let texts = [
        ("firstname", "First name"),
        ("lastname", "Last name"),
        ("salutation", "Salutation"),
        ("company", "Company name"),
        ("jobtitle", "Job title"),
        ("website", "Website URL"),
        ("address", "Street address"),
        ("zip", "Postal code"),
        ("city", "City"),
        ("state", "State/Region"),
        ("country", "Country/Region"),
    ];
    all.extend(texts.map(|(name, label)| text(name, label)));
    all
}

fn contact_property(name: &str, label: &str, kind: PropertyType, field_type: &str) -> PropertyDefinition {
    PropertyDefinition::standard(name, label, kind, field_type, "contactinformation")
}

fn task() -> [PropertyDefinition; 6] {
    let own = |name: &str, label: &str, kind: PropertyType, field_type: &str| {
        PropertyDefinition::standard(name, label, kind, field_type, "task")
    };
    [
        own("hs_task_subject", "Title", Text, "text"),
        own("hs_task_body", "Notes", Text, "html"),
        own("hs_task_reminders", "Reminders", Text, "text"),
        own("hs_task_status", "Status", Enumeration, "select").options(&[
            "NOT_STARTED",
            "IN_PROGRESS",
            "WAITING",
            "COMPLETED",
            "DEFERRED",
        ]),
        own("hs_task_priority", "Priority", Enumeration, "select").options(&["NONE", "LOW", "MEDIUM", "HIGH"]),
        own("hs_task_type", "Type", Enumeration, "select").options(&["TODO", "CALL", "EMAIL"]),
    ]
}
