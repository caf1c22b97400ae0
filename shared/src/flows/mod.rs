//! One flow a function: the entry on top, its steps in order.

pub mod dispatcher;
pub mod intake;
pub mod reconciler;
pub mod webhook;
pub mod worker;
