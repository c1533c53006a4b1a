//! Networks, as in `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// IPv4 addresses are counted within `::ffff:0:0/96`, so that there is one width to compare.
const IPV4_OFFSET: u32 = 96;

/// A network, or a single address. What does not count is forgotten when it is read: bits of a host, and the spelling
/// of an IPv4 network as a part of IPv6. So equal networks are equal.
///
/// ```
/// use tidegate::Cidr;
///
/// let office: Cidr = "10.1.2.3/8".parse()?;
/// assert_eq!(office.to_string(), "10.0.0.0/8");
/// assert_eq!(office, "::ffff:10.0.0.0/104".parse()?);
/// assert_eq!("2001:DB8::/32".parse::<Cidr>()?.to_string(), "2001:db8::/32");
/// assert_eq!("192.0.2.7/32".parse::<Cidr>()?.to_string(), "192.0.2.7"); // an address
/// # Ok::<(), tidegate::CidrError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cidr {
    bits: u128,
    /// Of how many bits it is, of 128 in both families.
    pub(crate) prefix: u32,
}

/// A text that is no network.
///
/// ```
/// use tidegate::{Cidr, CidrError};
///
/// let (text, problem) = ("10.0.0.0/33".to_owned(), "the prefix is not a number from 0 to 32");
/// assert_eq!("10.0.0.0/33".parse::<Cidr>(), Err(CidrError { text, problem }));
/// let error = "example.org".parse::<Cidr>().map_err(|error| error.to_string());
/// let expected = "expected an address and a prefix, like 10.0.0.0/8 or fd00::/8";
/// assert_eq!(error, Err(format!("network `example.org`: {expected}")));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CidrError {
    /// What was read.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Cidr {
    /// Whether an address is part of it. `::/0` speaks of IPv6 alone: who writes it has not thought of IPv4.
    ///
    /// ```
    /// # use tidegate::Cidr;
    /// # use std::net::IpAddr;
    /// let office: Cidr = "10.0.0.0/8".parse()?;
    /// assert!(office.contains("10.255.0.1".parse()?));
    /// assert!(office.contains("::ffff:10.255.0.1".parse()?)); // as sockets for both families spell it
    /// assert!(!office.contains("11.0.0.0".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, ip: IpAddr) -> bool {
        Self::from(ip).widened(self.prefix) == Some(*self)
    }

    /// Whether all addresses of a network are part of it.
    ///
    /// ```
    /// # use tidegate::Cidr;
    /// let office: Cidr = "10.0.0.0/8".parse()?;
    /// assert!(office.contains_network(&"10.1.0.0/16".parse()?));
    /// assert!(!office.contains_network(&"0.0.0.0/0".parse()?));
    /// # Ok::<(), tidegate::CidrError>(())
    /// ```
    pub fn contains_network(&self, other: &Self) -> bool {
        other.widened(self.prefix) == Some(*self)
    }

    /// The network with a prefix of this length, of 128 bits, that it is a part of; `None` where it is larger itself, or of another family.
    pub(crate) fn widened(self, prefix: u32) -> Option<Self> {
        let fits = prefix <= self.prefix && (!self.is_ipv4() || prefix >= IPV4_OFFSET);
        fits.then(|| Self { bits: self.bits & mask(prefix), prefix })
    }

    /// A key that is an address or a network, as clients of IPv6 are counted.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        // Longer than any: not worth reading.
        let text = std::str::from_utf8(key).ok().filter(|text| text.len() <= 64)?;
        text.parse().ok()
    }

    const fn is_ipv4(&self) -> bool {
        self.prefix >= IPV4_OFFSET && self.bits >> 32 == 0xffff
    }
}

impl From<IpAddr> for Cidr {
    fn from(ip: IpAddr) -> Self {
        Self { bits: bits(ip), prefix: 128 }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let error = |problem| CidrError { text: text.into(), problem };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = address
            .parse()
            .map_err(|_| error("expected an address and a prefix, like 10.0.0.0/8 or fd00::/8"))?;
        let (width, problem) = match ip {
            IpAddr::V4(_) => (32, "the prefix is not a number from 0 to 32"),
            IpAddr::V6(_) => (128, "the prefix is not a number from 0 to 128"),
        };
        let digits = |prefix: &str| prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match prefix {
            None => Some(width),
            Some(prefix) if digits(prefix) => prefix.parse().ok().filter(|it| *it <= width),
            Some(_) => None,
        };
        let prefix = prefix.ok_or_else(|| error(problem))? + 128 - width;
        Ok(Self { bits: bits(ip) & mask(prefix), prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = Ipv6Addr::from_bits(self.bits);
        let mapped = ip.to_ipv4_mapped().filter(|_| self.is_ipv4());
        match mapped {
            Some(ip) => ip.fmt(f)?,
            None => ip.fmt(f)?,
        }
        let offset = if mapped.is_some() { IPV4_OFFSET } else { 0 };
        if self.prefix < 128 { write!(f, "/{}", self.prefix - offset) } else { Ok(()) }
    }
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network `{}`: {}", self.text.escape_debug(), self.problem)
    }
}

impl std::error::Error for CidrError {}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The first `bits` bits.
fn mask(prefix: u32) -> u128 {
    u128::MAX.checked_shl(128 - prefix).unwrap_or(0)
}

/// The network that a key names, if it does. An address of IPv6 does, since it has many spellings.
pub(crate) fn network_of(key: &[u8]) -> Option<Cidr> {
    let may_be = key.contains(&b'/') || key.contains(&b':');
    may_be.then(|| Cidr::from_key(key)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_own_addresses_only() {
        let check = |network: &str, ip: &str, contained: bool| {
            let network: Cidr = network.parse().unwrap();
            assert_eq!(network.contains(ip.parse().unwrap()), contained, "{network} {ip}");
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.0", false);
        check("10.1.2.3/8", "10.9.9.9", true); // host bits do not matter
        check("192.0.2.7", "192.0.2.7", true);
        check("192.0.2.7", "192.0.2.6", false);
        check("0.0.0.0/0", "203.0.113.9", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("::/0", "2001:db8::1", true);
        check("::/0", "203.0.113.9", false);
        check("::/90", "203.0.113.9", false);
        check("::/90", "::40:ffff:1", false);
        check("::/90", "::3f:ffff:1", true);
        check("fd00::/8", "fdff::1", true);
        check("fd00::/8", "fe00::1", false);
        check("::1", "::1", true);
        check("::ffff:10.0.0.0/104", "10.1.2.3", true); // the mapped spelling of 10.0.0.0/8
        check("10.0.0.0/8", "::ffff:10.1.2.3", true);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "/8",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "::/129",
            "a",
            "10.0.0.0/8/8",
            " 10.0.0.0/8",
            "::/4294967297",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_spelling_has_one_canonical_form() {
        for (text, canonical) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::ffff:a01:203/120", "10.1.2.0/24"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:0DB8:0::1/64", "2001:db8::/64"),
            ("::1/0", "::/0"),
        ] {
            let network: Cidr = text.parse().unwrap();
            assert_eq!(network.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(network), "{text}");
        }
    }
}
