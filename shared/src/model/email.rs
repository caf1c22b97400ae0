//! Addresses, as far as they are looked at outside the database's door.

/// The address with its domain in ASCII, if the domain is international and can be written so: `ann@exämple.test` is
/// `ann@xn--exmple-cua.test` to every mail server, and to the door.
pub fn with_ascii_domain(email: &str) -> Option<String> {
    let (local, domain) = email.trim().rsplit_once('@')?;
    if domain.is_ascii() {
        return None;
    }
    Some(format!("{local}@{}", idna::domain_to_ascii(domain).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_international_domain_becomes_ascii_and_an_ordinary_one_is_left_alone() {
        assert_eq!(with_ascii_domain(" Ann@exämple.test ").as_deref(), Some("Ann@xn--exmple-cua.test"));
        assert_eq!(with_ascii_domain("ann@example.test"), None);
        assert_eq!(with_ascii_domain("nobody"), None);
    }
}
