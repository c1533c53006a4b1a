//! What can be a key, and which keys are the same.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;
use tidegate::{AsKey, Engine, Limiter, Shaper};

#[track_caller]
fn check(key: impl AsKey, spelled: &str) {
    assert_eq!(key.as_key().as_ref(), spelled.as_bytes());
    let limiter = Limiter::new("5/h").unwrap();
    assert!(limiter.check(&key).allowed());
    assert_eq!(limiter.peek(spelled, 0).remaining(), 4, "{spelled}");
    assert_eq!(limiter.check_many(&[&key, &key])[1].remaining(), 2, "{spelled}");
}

#[test]
fn a_key_is_what_its_text_is() {
    check("user-42", "user-42");
    check(String::from("user-42"), "user-42");
    let text = String::from("user-42");
    check(&text, "user-42");
    check(Box::<str>::from("user-42"), "user-42");
    check(Arc::<str>::from("user-42"), "user-42");
    check(Cow::Borrowed("user-42"), "user-42");
    check(b"user-42", "user-42");
    check(&b"user-42"[..], "user-42");
    check(b"user-42".to_vec(), "user-42");
    check(Box::<[u8]>::from(*b"user-42"), "user-42");
    check(Cow::<[u8]>::Owned(b"user-42".to_vec()), "user-42");
    check("", "");

    check(42_u64, "42");
    check(0_u8, "0");
    check(-7_i32, "-7");
    check(i64::MIN, "-9223372036854775808");
    check(u64::MAX, "18446744073709551615");
    check(i128::MIN, "-170141183460469231731687303715884105728");
    check(u128::MAX, "340282366920938463463374607431768211455");

    check(IpAddr::from([203, 0, 113, 7]), "203.0.113.7");
    check(Ipv4Addr::new(203, 0, 113, 7), "203.0.113.7");
    check(Ipv6Addr::LOCALHOST, "::1");
    let longest = "2001:db8:1111:2222:3333:4444:5555:6666";
    check(longest.parse::<IpAddr>().unwrap(), longest);
    check(longest.parse::<Ipv6Addr>().unwrap(), longest);
    // One client, whatever kind of socket it came through.
    check("::ffff:203.0.113.7".parse::<IpAddr>().unwrap(), "203.0.113.7");
    check("::ffff:203.0.113.7".parse::<Ipv6Addr>().unwrap(), "203.0.113.7");
}

#[test]
fn several_parts_are_one_key() {
    check(("acme", 42_u64), "4:acme,2:42,");
    check((String::from("acme"), Ipv4Addr::LOCALHOST, "/login"), "4:acme,9:127.0.0.1,6:/login,");
    check((1, 2, 3, ""), "1:1,1:2,1:3,0:,");
    check((("a", "b"), "c"), "8:1:a,1:b,,1:c,");
}

#[test]
fn a_bad_separator_would_be_noticed() {
    let joined = |(a, b): (&str, &str)| format!("{a},{b}");
    let (one, other) = (("a,b", "c"), ("a", "b,c"));
    assert_eq!(joined(one), joined(other), "the control collides");
    assert_ne!(one.as_key().as_ref(), other.as_key().as_ref());
}

proptest! {
    /// Of few letters, the separators among them, so that many are almost the same.
    #[test]
    fn different_parts_are_different_keys(
        one in ("[,:1a]{0,4}", "[,:1a]{0,4}"),
        other in ("[,:1a]{0,4}", "[,:1a]{0,4}"),
    ) {
        let same = one.as_key().as_ref() == other.as_key().as_ref();
        prop_assert_eq!(same, one == other);
    }
}

#[test]
fn every_method_takes_every_key() {
    let engine = Engine::builder().policy("api", "5/h").build().unwrap();
    assert!(engine.check("api", 42_u64).now().unwrap().decision.allowed());
    let api = engine.policy("api").unwrap();
    assert!(api.check(("acme", 42)).now().unwrap().decision.allowed());
    assert_eq!(api.check("42").now().unwrap().decision.remaining(), 3);
    engine.overrides().set("api", 42_u64, "block", None).now().unwrap();
    assert!(!engine.check("api", "42").now().unwrap().decision.allowed());

    let limiter = Limiter::new("5/h").unwrap();
    limiter.set_override(42_u64, "7/h").unwrap();
    assert_eq!(limiter.check("42").limit(), 7);
    assert_eq!(limiter.refund(42_u64, 1).remaining(), 7);
    limiter.reset(42_u64);
    assert!(limiter.clear_override(42_u64));
    let shaper = Shaper::new("2/s max-wait 5s").unwrap();
    assert!(shaper.reserve(42_u64).accepted());
}
