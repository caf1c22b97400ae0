//! The door in the database, as an application finds it.

pub(crate) mod setting;
