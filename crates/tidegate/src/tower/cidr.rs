//! Networks, as in `10.0.0.0/8`.

use std::net::IpAddr;
use std::str::FromStr;

use super::error::SetupError;

/// IPv4 addresses are counted within `::ffff:0:0/96`, so that there is one width to compare.
const IPV4_OFFSET: u32 = 96;

/// A network, or a single address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    bits: u128,
    prefix: u32,
}

impl Network {
    /// Whether `ip`, in canonical form, is part of it.
    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        // `::/0` speaks of IPv6 alone: who trusts it has not thought of IPv4.
        let same_family = ip.is_ipv6() || self.prefix >= IPV4_OFFSET;
        let differing = self.bits ^ bits(ip);
        same_family && differing.checked_shr(128 - self.prefix).unwrap_or(0) == 0
    }
}

impl FromStr for Network {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let error = |problem| SetupError::Network { text: text.into(), problem };
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
        let prefix = prefix.map_or(Ok(width), str::parse).ok().filter(|prefix| *prefix <= width);
        let prefix = prefix.ok_or_else(|| error(problem))?;
        Ok(Self { bits: bits(ip), prefix: prefix + 128 - width })
    }
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_own_addresses_only() {
        let check = |network: &str, ip: &str, contained: bool| {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(ip.parse().unwrap()), contained, "{network:?} {ip}");
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
        check("fd00::/8", "fdff::1", true);
        check("fd00::/8", "fe00::1", false);
        check("::1", "::1", true);
        check("::ffff:10.0.0.0/104", "10.1.2.3", true); // the mapped spelling of 10.0.0.0/8
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "/8", "10.0.0/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "a"]
        {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
