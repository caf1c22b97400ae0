//! The page at `/`.

/// One self-contained file without outside assets, which polls `/__simulator/live`.
pub(crate) const HTML: &str = include_str!("page.html");
