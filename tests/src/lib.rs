//! Integration tests of hubferry live in `it/`; this library target is empty.
