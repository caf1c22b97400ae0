//! Which version of HubSpot's API each family of endpoints is called in, and the path that follows from it.
//!
//! Dated versions put the date behind the family (`/crm/objects/2026-09/contacts`), numbered ones before it
//! (`/crm/v3/objects/contacts`), and not every family does it in the same place.

use std::fmt;

/// The version in force when this was written: current until March 2027, supported until March 2028.
const CURRENT: (u16, u8) = (2026, 9);

/// A version of an API family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApiVersion {
    /// `v3`.
    V3,
    /// `v4`.
    V4,
    /// `YYYY-MM`.
    Dated {
        /// Four digits.
        year: u16,
        /// 1 to 12.
        month: u8,
        /// Whether `-beta` follows.
        beta: bool,
    },
}

/// Why a version cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Neither `YYYY-MM`, `YYYY-MM-beta`, `v3` nor `v4`.
    #[error("`{0}` is no API version: it has to be YYYY-MM, YYYY-MM-beta, v3 or v4")]
    Malformed(String),
    /// HubSpot has no such version of the family, or one of another shape than is spoken here.
    #[error("{family} cannot be called in version {version}")]
    NotOfFamily {
        /// The family of endpoints.
        family: Family,
        /// The version that was asked for.
        version: ApiVersion,
    },
}

impl ApiVersion {
    /// Reads `2026-09`, `2027-03-beta`, `v3` or `v4`.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        match text {
            "v3" => Ok(Self::V3),
            "v4" => Ok(Self::V4),
            dated => parse_dated(dated).ok_or_else(|| VersionError::Malformed(text.to_owned())),
        }
    }
}

fn parse_dated(text: &str) -> Option<ApiVersion> {
    let (date, beta) = text.strip_suffix("-beta").map_or((text, false), |date| (date, true));
    let (year, month) = date.split_once('-')?;
    let digits = |part: &str, count| part.len() == count && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(year, 4) || !digits(month, 2) {
        return None;
    }
    let (year, month) = (year.parse().ok()?, month.parse().ok()?);
    (1..=12).contains(&month).then_some(ApiVersion::Dated { year, month, beta })
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V3 => formatter.write_str("v3"),
            Self::V4 => formatter.write_str("v4"),
            Self::Dated { year, month, beta } => {
                write!(formatter, "{year:04}-{month:02}{}", if *beta { "-beta" } else { "" })
            }
        }
    }
}

/// A family of endpoints that moves from version to version together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Contacts.
    Objects,
    /// Subscription statuses.
    CommunicationPreferences,
    /// Lists, which HubSpot also calls segments.
    Lists,
    /// Properties and their groups.
    Properties,
    /// Usage and details of the account.
    AccountInfo,
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Objects => "objects",
            Self::CommunicationPreferences => "communication preferences",
            Self::Lists => "lists",
            Self::Properties => "properties",
            Self::AccountInfo => "account info",
        })
    }
}

/// The version of each family. A newer version may be stricter (2026-09 enforces required properties on writes), so each
/// family moves on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiVersions {
    objects: ApiVersion,
    communication_preferences: ApiVersion,
    lists: ApiVersion,
    properties: ApiVersion,
    account_info: ApiVersion,
}

impl Default for ApiVersions {
    fn default() -> Self {
        let (year, month) = CURRENT;
        let current = ApiVersion::Dated { year, month, beta: false };
        Self {
            objects: current,
            communication_preferences: current,
            lists: current,
            properties: current,
            account_info: current,
        }
    }
}

impl ApiVersions {
    /// Every family in one version, which therefore is a dated one: no numbered version exists in all families.
    pub fn all(version: &str) -> Result<Self, VersionError> {
        let families =
            [Family::Objects, Family::CommunicationPreferences, Family::Lists, Family::Properties, Family::AccountInfo];
        families.into_iter().try_fold(Self::default(), |versions, family| versions.with(family, version))
    }

    /// The same, with another version of one family. The communication preferences are spoken in v4 or dated, since v3
    /// has neither batches nor times; everything else in v3 or dated.
    pub fn with(mut self, family: Family, version: &str) -> Result<Self, VersionError> {
        let version = ApiVersion::parse(version)?;
        let exists = match version {
            ApiVersion::Dated { .. } => true,
            ApiVersion::V4 => family == Family::CommunicationPreferences,
            ApiVersion::V3 => family != Family::CommunicationPreferences,
        };
        if !exists {
            return Err(VersionError::NotOfFamily { family, version });
        }
        *match family {
            Family::Objects => &mut self.objects,
            Family::CommunicationPreferences => &mut self.communication_preferences,
            Family::Lists => &mut self.lists,
            Family::Properties => &mut self.properties,
            Family::AccountInfo => &mut self.account_info,
        } = version;
        Ok(self)
    }

    /// The path below which the family's endpoints stand, without a slash at its end.
    pub(super) fn path(&self, family: Family) -> String {
        match family {
            Family::Objects => crm_path("objects", self.objects),
            Family::Lists => crm_path("lists", self.lists),
            Family::Properties => crm_path("properties", self.properties),
            Family::CommunicationPreferences => {
                format!("/communication-preferences/{}", self.communication_preferences)
            }
            Family::AccountInfo => format!("/account-info/{}", self.account_info),
        }
    }
}

fn crm_path(family: &str, version: ApiVersion) -> String {
    match version {
        ApiVersion::V3 | ApiVersion::V4 => format!("/crm/{version}/{family}"),
        ApiVersion::Dated { .. } => format!("/crm/{family}/{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dated_versions_stand_behind_the_family_and_numbered_ones_before_it() {
        let dated = ApiVersions::default();
        assert_eq!(dated.path(Family::Objects), "/crm/objects/2026-09");
        assert_eq!(dated.path(Family::Lists), "/crm/lists/2026-09");
        assert_eq!(dated.path(Family::CommunicationPreferences), "/communication-preferences/2026-09");
        assert_eq!(dated.path(Family::AccountInfo), "/account-info/2026-09");
        let numbered = dated.with(Family::Objects, "v3").unwrap().with(Family::CommunicationPreferences, "v4").unwrap();
        let numbered = numbered.with(Family::AccountInfo, "v3").unwrap();
        assert_eq!(numbered.path(Family::Objects), "/crm/v3/objects");
        assert_eq!(numbered.path(Family::CommunicationPreferences), "/communication-preferences/v4");
        assert_eq!(numbered.path(Family::AccountInfo), "/account-info/v3");
        assert_eq!(numbered.path(Family::Properties), "/crm/properties/2026-09");
        assert_eq!(ApiVersions::all("2027-03-beta").unwrap().path(Family::Lists), "/crm/lists/2027-03-beta");
    }

    #[test]
    fn what_is_no_version_is_refused_by_name() {
        for text in ["", "v5", "3", "2026", "2026-9", "2026-13", "2026-00", "26-09", "2026-09-alpha", "2026-09/.."] {
            assert_eq!(ApiVersion::parse(text), Err(VersionError::Malformed(text.to_owned())));
        }
        let refused = ApiVersions::default().with(Family::CommunicationPreferences, "v3");
        assert_eq!(refused.unwrap_err().to_string(), "communication preferences cannot be called in version v3");
        assert!(ApiVersions::default().with(Family::Lists, "v4").is_err());
    }
}
