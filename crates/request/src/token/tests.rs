use proptest::prelude::*;
use ring::hmac;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use serde_json::json;
use tidegate_testkit::fuzz::{self, Grammar};

use super::*;

/// Keys and tokens of `PyJWT`.
const GOLDEN: &str = include_str!("../../../../testdata/jwt/golden.json");
const ISSUER: &str = "https://issuer.example";
/// A moment at which the golden tokens are valid.
const NOW_S: u64 = 1_700_000_000;
const ALL: [&str; 12] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "EdDSA",
];

fn golden() -> Value {
    serde_json::from_str(GOLDEN).unwrap()
}

fn secret() -> String {
    golden()["secret"].as_str().unwrap().to_owned()
}

fn token(algorithm: &str) -> String {
    golden()["tokens"][algorithm].as_str().unwrap().to_owned()
}

fn pem(algorithm: &str) -> String {
    let name = match &algorithm[..2] {
        "RS" | "PS" => "rsa",
        "Ed" => "ed25519",
        _ => {
            if algorithm == "ES256" {
                "p256"
            } else {
                "p384"
            }
        }
    };
    golden()["pem"][name].as_str().unwrap().to_owned()
}

fn rules(algorithms: &[&str]) -> TokenRules {
    let algorithms = algorithms.iter().map(|name| name.parse().unwrap()).collect();
    TokenRules::new(algorithms, Vec::new(), Vec::new()).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// What `verifier` says of a token at [`NOW_S`]: the claim `sub`, or why there is none.
fn subject(verifier: &TokenVerifier, token: &str) -> Result<Option<String>, BadToken> {
    let claims = verifier.verify(token.as_bytes(), at(NOW_S))?;
    Ok(claims.get(&Claim::read("sub").unwrap()))
}

fn encoded(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

/// A token of an issuer with a secret, whatever its header says.
fn signed_with(secret: &[u8], header: &Value, claims: &str) -> String {
    let signed = format!("{}.{}", encoded(header), URL_SAFE_NO_PAD.encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn signed(claims: &Value) -> String {
    signed_with(secret().as_bytes(), &json!({"alg": "HS256"}), &claims.to_string())
}

fn hs256() -> TokenVerifier {
    TokenVerifier::with_keys(secret().as_bytes(), rules(&["HS256"])).unwrap()
}

#[test]
fn tokens_of_another_implementation_verify_with_its_keys() {
    let set = golden()["jwks"].to_string();
    for algorithm in ALL {
        let rules = rules(&[algorithm]);
        let (from_file, from_set) = if algorithm.starts_with("HS") {
            let key = URL_SAFE_NO_PAD.encode(secret());
            let set = json!({"keys": [{"kty": "oct", "k": key}]}).to_string();
            (secret() + "\n", set)
        } else {
            (pem(algorithm), set.clone())
        };
        for verifier in [
            TokenVerifier::with_keys(from_file.as_bytes(), rules.clone()),
            TokenVerifier::with_key_set(from_set.as_bytes(), rules),
        ] {
            let verifier = verifier.unwrap();
            assert_eq!(subject(&verifier, &token(algorithm)), Ok(Some("ann".to_owned())));
            for (other, expected) in ALL.map(|other| (other, BadToken::Algorithm)) {
                if other != algorithm {
                    assert_eq!(subject(&verifier, &token(other)), Err(expected), "{other}");
                }
            }
        }
    }
}

#[test]
fn one_key_set_serves_all_of_its_public_algorithms() {
    let public: Vec<_> = ALL.into_iter().filter(|name| !name.starts_with("HS")).collect();
    let set = golden()["jwks"].to_string();
    let verifier = TokenVerifier::with_key_set(set.as_bytes(), rules(&public)).unwrap();
    for algorithm in public {
        assert_eq!(subject(&verifier, &token(algorithm)), Ok(Some("ann".to_owned())));
    }
    let several = ["RS256", "ES256", "ES384"].map(pem).concat();
    let mixed = rules(&["RS256", "ES384", "ES256"]);
    let verifier = TokenVerifier::with_keys(several.as_bytes(), mixed).unwrap();
    for algorithm in ["RS256", "ES256", "ES384"] {
        assert_eq!(subject(&verifier, &token(algorithm)), Ok(Some("ann".to_owned())));
    }
}

#[test]
fn a_change_anywhere_breaks_the_signature_and_counts_as_no_token() {
    for algorithm in ["HS256", "RS256", "PS256", "ES256", "EdDSA"] {
        let keys = if algorithm == "HS256" { secret() } else { pem(algorithm) };
        let verifier = TokenVerifier::with_keys(keys.as_bytes(), rules(&[algorithm])).unwrap();
        let right = token(algorithm);
        for place in 0..right.len() {
            let mut bytes = right.clone().into_bytes();
            // Differs in the first bits, since the last ones of the last character have no meaning.
            bytes[place] = if (b'A'..=b'P').contains(&bytes[place]) { b'g' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(subject(&verifier, &changed).is_err(), "{algorithm} at {place}: {changed}");
        }
        let (signed, _) = right.rsplit_once('.').unwrap();
        for wrong in ["", "AA", &"A".repeat(342), &"A".repeat(86)] {
            let forged = format!("{signed}.{wrong}");
            assert_eq!(
                subject(&verifier, &forged),
                Err(BadToken::Signature),
                "{algorithm} {wrong}"
            );
        }
    }
}

#[test]
fn each_hostile_token_counts_as_none_for_its_reason() {
    use BadToken::{Algorithm, Malformed, Signature, TooLong, UnknownKey};
    let claims = json!({"sub": "victim"}).to_string();
    let payload = URL_SAFE_NO_PAD.encode(&claims);
    let (key, public) = (secret(), pem("RS256"));
    let unsigned = |alg: &str| format!("{}.{payload}.", encoded(&json!({"alg": alg})));
    let with = |header: &Value| signed_with(key.as_bytes(), header, &claims);
    let rs256 = TokenVerifier::with_keys(public.as_bytes(), rules(&["RS256"])).unwrap();
    // The public key as the secret of an HMAC.
    for secret in [public.as_bytes(), public.trim().as_bytes()] {
        for algorithm in ["HS256", "hs256", "RS256"] {
            let confused = signed_with(secret, &json!({"alg": algorithm}), &claims);
            let expected = if algorithm == "RS256" { Signature } else { Algorithm };
            assert_eq!(subject(&rs256, &confused), Err(expected), "{algorithm}");
        }
    }
    let set = golden()["jwks"].to_string();
    let set = TokenVerifier::with_key_set(set.as_bytes(), rules(&["RS256", "ES256"])).unwrap();
    let named = |kid: &str| encoded(&json!({"alg": "RS256", "kid": kid}));
    // A key of the set, named for an algorithm that it is not for.
    assert_eq!(subject(&set, &format!("{}.{payload}.AA", named("p256"))), Err(UnknownKey));
    assert_eq!(subject(&set, &format!("{}.{payload}.AA", named("../rsa"))), Err(UnknownKey));
    let (_, rest) =
        token("RS256").split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert_eq!(subject(&set, &format!("{}.{rest}", named("rsa2"))), Err(UnknownKey));
    let long = json!({"sub": "a".repeat(TOKEN_BYTES_MAX)});
    for (token, expected) in [
        (unsigned("none"), Algorithm),
        (unsigned("None"), Algorithm),
        (unsigned("HS256"), Signature),
        (with(&json!({"alg": "none"})), Algorithm),
        (with(&json!({"alg": "HS384"})), Algorithm),
        (with(&json!({"alg": ["HS256"]})), Malformed),
        (with(&json!({"alg": "HS256", "crit": ["b64"], "b64": false})), Malformed),
        (with(&json!({"alg": "HS256", "crit": []})), Malformed),
        (with(&json!({"alg": "HS256", "kid": 7})), Malformed),
        (with(&json!({"typ": "JWT"})), Malformed),
        (with(&json!([])), Malformed),
        (signed(&json!("victim")), Malformed),
        (signed(&json!(["sub"])), Malformed),
        (signed_with(key.as_bytes(), &json!({"alg": "HS256"}), "{\"sub\":\"victim\""), Malformed),
        (signed_with(key.as_bytes(), &json!({"alg": "HS256"}), "{\"sub\":\"\u{0}\"}"), Malformed),
        (signed(&json!({"exp": "2000000000"})), Malformed),
        (signed(&json!({"nbf": null})), Malformed),
        (signed(&long), TooLong),
        (String::new(), Malformed),
        ("..".to_owned(), Malformed),
        ("a.b".to_owned(), Malformed),
        (format!("{}.x", signed(&json!({}))), Malformed),
        (format!(" {}", signed(&json!({}))), Malformed),
        (
            signed_with(
                b"another secret of the same length......",
                &json!({"alg": "HS256"}),
                &claims,
            ),
            Signature,
        ),
    ] {
        assert_eq!(subject(&hs256(), &token), Err(expected), "{token}");
    }
    // The control: the same claims, signed.
    assert_eq!(subject(&hs256(), &with(&json!({"alg": "HS256"}))), Ok(Some("victim".to_owned())));
}

#[test]
fn a_token_without_a_name_of_a_key_is_not_tried_with_several_named_ones() {
    let own = URL_SAFE_NO_PAD.encode(secret());
    let other = URL_SAFE_NO_PAD.encode("a".repeat(32));
    let named = |kid: &str, k: &str| json!({"kty": "oct", "alg": "HS256", "kid": kid, "k": k});
    let unnamed = |k: &str| json!({"kty": "oct", "k": k});
    let (a, b) = (Some("a"), Some("b"));
    for (keys, kid, expected) in [
        (vec![named("a", &own)], None, None),
        (vec![named("a", &own), named("b", &other)], None, Some(BadToken::UnknownKey)),
        (vec![named("a", &own), named("b", &other)], a, None),
        (vec![named("a", &own), named("b", &other)], b, Some(BadToken::Signature)),
        (vec![named("a", &own), unnamed(&other)], None, Some(BadToken::Signature)),
        (vec![unnamed(&other), unnamed(&own)], None, None),
        (vec![unnamed(&other), unnamed(&own)], a, None),
    ] {
        let set = json!({"keys": keys}).to_string();
        let verifier = TokenVerifier::with_key_set(set.as_bytes(), rules(&["HS256"])).unwrap();
        let mut header = json!({"alg": "HS256"});
        if let Some(kid) = kid {
            header["kid"] = json!(kid);
        }
        let token = signed_with(secret().as_bytes(), &header, "{}");
        assert_eq!(
            verifier.verify(token.as_bytes(), at(NOW_S)).err(),
            expected,
            "{keys:?} {kid:?}"
        );
    }
}

#[test]
fn no_spelling_of_a_signature_hides_a_token_from_its_limit() {
    for algorithm in ["HS256", "RS256", "ES256", "EdDSA"] {
        let keys = if algorithm == "HS256" { secret() } else { pem(algorithm) };
        let verifier = TokenVerifier::with_keys(keys.as_bytes(), rules(&[algorithm])).unwrap();
        let right = token(algorithm);
        let (signed, signature) = right.rsplit_once('.').unwrap();
        let (begin, end) = signature.split_at(7);
        for spelling in [
            format!("{signature}="),
            format!("{signature}==="),
            format!("{begin}!{end}"),
            format!("{begin} {end}"),
            signature.replace('-', "+").replace('_', "/"),
        ] {
            let token = format!("{signed}.{spelling}");
            assert_eq!(subject(&verifier, &token), Ok(Some("ann".to_owned())), "{spelling}");
        }
        // What is signed has one spelling.
        let (header, payload) = signed.split_once('.').unwrap();
        for changed in [format!("{header}=.{payload}"), format!("{header}.{payload}=")] {
            assert!(subject(&verifier, &format!("{changed}.{signature}")).is_err(), "{changed}");
        }
    }
}

#[test]
fn times_count_with_a_minute_of_leeway() {
    use BadToken::{Expired, NotYetValid};
    for (claims, expected) in [
        (json!({"exp": NOW_S + 1}), None),
        (json!({"exp": NOW_S - 59}), None),
        (json!({"exp": NOW_S - 60}), Some(Expired)),
        (json!({"exp": 0}), Some(Expired)),
        (json!({"exp": -1}), Some(Expired)),
        (json!({"exp": 1e300}), None),
        (json!({"exp": 1_700_000_000.5}), None),
        (json!({"nbf": NOW_S + 60}), None),
        (json!({"nbf": NOW_S + 61}), Some(NotYetValid)),
        (json!({"nbf": NOW_S + 61, "exp": NOW_S - 61}), Some(Expired)),
        (json!({"iat": NOW_S + 1_000_000}), None),
        (json!({}), None),
    ] {
        assert_eq!(subject(&hs256(), &signed(&claims)).err(), expected, "{claims}");
    }
    // At the beginning of time nothing is subtracted below zero.
    assert!(hs256().verify(signed(&json!({"exp": 5})).as_bytes(), at(0)).is_ok());
}

#[test]
fn a_token_of_another_issuer_or_for_another_audience_is_none() {
    use BadToken::{Audience, Issuer};
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let ours = json!({"iss": ISSUER, "aud": ["api", "shop"]});
    for (issuers, audiences, claims, expected) in [
        (&[ISSUER][..], &["shop"][..], &ours, None),
        (&["other", ISSUER], &["x", "shop"], &ours, None),
        (&[ISSUER], &["shop"], &json!({"iss": ISSUER, "aud": "shop"}), None),
        (&[], &[], &json!({}), None),
        (&[], &[], &json!({"aud": "anything"}), None),
        (&["https://issuer.example/"], &[], &ours, Some(Issuer)),
        (&[ISSUER], &[], &json!({}), Some(Issuer)),
        (&[ISSUER], &[], &json!({"iss": [ISSUER]}), Some(Issuer)),
        (&[], &["SHOP"], &ours, Some(Audience)),
        (&[], &["shop"], &json!({}), Some(Audience)),
        (&[], &["shop"], &json!({"aud": []}), Some(Audience)),
        (&[], &["shop"], &json!({"aud": {"shop": true}}), Some(Audience)),
        (&[], &["shop"], &json!({"aud": [["shop"]]}), Some(Audience)),
    ] {
        let algorithms = vec![TokenAlgorithm::Hs256];
        let rules = TokenRules::new(algorithms, owned(issuers), owned(audiences)).unwrap();
        let verifier = TokenVerifier::with_keys(secret().as_bytes(), rules).unwrap();
        assert_eq!(subject(&verifier, &signed(claims)).err(), expected, "{claims}");
    }
}

#[test]
fn a_claim_is_one_text_number_or_truth_value() {
    let claims = hs256().verify(token("HS256").as_bytes(), at(NOW_S)).unwrap();
    for (name, expected) in [
        ("sub", Some("ann")),
        ("plan", Some("gold")),
        ("exp", Some("2000000000")),
        ("admin", Some("true")),
        ("org.id", Some("7")),
        ("org.tier.name", Some("premium")),
        ("https://shop.example/plan", Some("silver")),
        ("org", None),
        ("org.", None),
        (".org", None),
        ("org.id.x", None),
        ("sub.x", None),
        ("roles", None),
        ("roles.0", None),
        ("aud", None),
        ("SUB", None),
    ] {
        assert_eq!(claims.get(&Claim::read(name).unwrap()).as_deref(), expected, "{name}");
    }
    for (value, expected) in [
        (json!(""), None),
        (json!("a\0b"), None),
        (json!(null), None),
        (json!(7.0), Some("7")),
        (json!(-0.0), Some("0")),
        (json!(0.5), None),
        (json!(9_007_199_254_740_991_u64), Some("9007199254740991")),
        (json!(9_007_199_254_740_993_u64), None),
        (json!(" ann "), Some(" ann ")),
    ] {
        let claims = Claims([("sub".to_owned(), value.clone())].into_iter().collect());
        assert_eq!(claims.get(&Claim::read("sub").unwrap()).as_deref(), expected, "{value}");
    }
    assert_eq!(Claim::read(""), None);
    assert_eq!(Claim::read(&"a.".repeat(9)), None);
}

#[test]
fn keys_that_would_not_protect_are_refused_and_not_repeated() {
    let rsa1024 = json!({"keys": [{"kty": "RSA", "n": "A".repeat(170), "e": "AQAB"}]}).to_string();
    let set = golden()["jwks"].to_string();
    let many = pem("ES256").repeat(17);
    let cut = pem("RS256").replace("AQAB", "");
    let zeros = pem("RS256").replace("MIIBIjAN", "MIIBIjAO");
    let ssh = format!("ssh-ed25519 {} ann@example", "A".repeat(68));
    for (text, algorithms, expected) in [
        ("s3cret", &["HS256"][..], "has a secret of 6 bytes: expected at least 32"),
        ("", &["HS512"], "has a secret of 0 bytes"),
        (&*pem("RS256"), &["HS256"], "has a key in PEM, and HS algorithms need a secret"),
        (&*set, &["HS256"], "is JSON: give a key set as `jwks_file`"),
        (&*format!("\u{feff}\n {set}"), &["HS512"], "is JSON: give a key set as `jwks_file`"),
        (&*ssh, &["HS256"], "has a public key of SSH, and HS algorithms need a secret"),
        ("", &["RS256"], "has no public key: expected PEM"),
        ("a-secret-that-is-long-enough-for-hmac", &["RS256"], "has no public key: expected PEM"),
        (&*pem("ES256"), &["ES256", "RS256"], "has no key for RS256"),
        (&*pem("ES256"), &["ES384"], "has no key for ES384"),
        (&*many, &["ES256"], "has 17 keys: expected at most 16"),
        (&*cut, &["RS256"], "has "),
        (&*zeros, &["RS256"], "has "),
        (
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
            &["RS256"],
            "has a public key that is not RSA",
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            &["RS256"],
            "has a private key, which only the issuer needs: `openssl pkey -in FILE -pubout`",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
            &["RS256"],
            "has a private key",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &["RS256"],
            "has a certificate: `openssl x509 -in FILE -pubkey -noout`",
        ),
        (
            "-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----\n",
            &["RS256"],
            "has a key in PKCS#1: `openssl rsa -RSAPublicKey_in -in FILE -pubout`",
        ),
        (&*set, &["RS256"], "is JSON: give a key set as `jwks_file`"),
    ] {
        let error = TokenVerifier::with_keys(text.as_bytes(), rules(algorithms)).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("s3cret") && !error.contains("AAAA"), "{error}");
    }
    for algorithm in ["RS256", "ES256", "ES384", "EdDSA"] {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem(algorithm).as_bytes()).unwrap();
        let error = TokenVerifier::with_keys(&der, rules(&["HS256"])).unwrap_err();
        assert!(error.starts_with("has a key or a certificate in DER"), "{algorithm}: {error}");
    }
    let short = json!({"keys": [{"kty": "oct", "k": "c2hvcnQ"}]}).to_string();
    let point =
        json!({"keys": [{"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}]}).to_string();
    let nothing = json!({"keys": [{"kty": "EC", "crv": "P-256", "x": "?"}]}).to_string();
    let encrypting = set.replace("\"sig\"", "\"enc\"");
    for (text, algorithms, expected) in [
        ("", &["RS256"][..], "is not a JSON Web Key Set"),
        ("{}", &["RS256"], "is not a JSON Web Key Set"),
        ("[]", &["RS256"], "is not a JSON Web Key Set"),
        (&*pem("RS256"), &["RS256"], "is not a JSON Web Key Set"),
        ("{\"keys\":[]}", &["RS256"], "has no key for RS256"),
        (&*encrypting, &["RS256"], "has no key for RS256"),
        (&*set, &["HS256"], "has no key for HS256"),
        (&*rsa1024, &["RS256"], "keys[0] is not of 2048 to 8192 bits"),
        (&*short, &["HS256"], "keys[0] has a secret of 5 bytes"),
        (&*point, &["ES256"], "keys[0] is not a point of its curve"),
        (&*nothing, &["ES256"], "keys[0] has no `x` in base64url"),
    ] {
        let error = TokenVerifier::with_key_set(text.as_bytes(), rules(algorithms)).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    // Keys of a set for something else are left out.
    let beside =
        set.replacen("\"keys\": [", "\"keys\":[{\"kty\":\"EC\",\"crv\":\"secp256k1\"},", 1);
    let beside =
        beside.replacen("\"keys\":[", "\"keys\":[{\"kty\":\"RSA\",\"alg\":\"RSA-OAEP\"},", 1);
    assert!(TokenVerifier::with_key_set(beside.as_bytes(), rules(&["RS256"])).is_ok());
}

#[test]
fn a_secret_and_public_keys_are_not_accepted_together() {
    use TokenAlgorithm::{EdDsa, Es256, Hs256, Hs512, Rs256};
    for (algorithms, expected) in [
        (&[Rs256, Es256, EdDsa][..], ""),
        (&[Hs256, Hs512], ""),
        (&[], "is empty"),
        (&[Rs256, Hs256], "HS256 needs a secret and RS256 a public key"),
        (&[Hs512, EdDsa], "HS512 needs a secret and EdDSA a public key"),
    ] {
        let read = TokenRules::new(algorithms.to_vec(), Vec::new(), Vec::new());
        let error = read.err().unwrap_or_default();
        assert!(error.starts_with(expected) && error.is_empty() == expected.is_empty(), "{error}");
    }
    for (name, expected) in [
        ("none", ": expected one of HS256"),
        ("RS1", ": expected one of HS256"),
        ("", ": expected one of HS256"),
        ("ES512", ": expected one of HS256"),
        ("rs256", ", did you mean `RS256`?"),
        ("EDDSA", ", did you mean `EdDSA`?"),
    ] {
        let error = name.parse::<TokenAlgorithm>().unwrap_err();
        assert!(error.starts_with(&format!("unknown algorithm `{name}`{expected}")), "{error}");
    }
}

#[test]
fn keys_are_not_printed() {
    let printed = format!("{:?}", hs256());
    assert!(!printed.contains("a-secret") && printed.contains("Hs256"), "{printed}");
}

/// Signed tokens and their parts: `{"alg":"HS256"}`, `{"sub":"ann"}`.
const GRAMMAR: Grammar = Grammar {
    whole: &[
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.",
    ],
    words: &[
        "eyJhbGciOiJIUzI1NiJ9",
        "eyJhbGciOiJub25lIn0",
        "eyJzdWIiOiJhbm4ifQ",
        ".",
        "=",
        "e30",
        "W10",
        "bnVsbA",
        "A",
    ],
};

proptest! {
    #![proptest_config(fuzz::config(10_000))]

    #[test]
    fn no_token_but_a_signed_one_has_claims(token in fuzz::bytes_like(GRAMMAR)) {
        let verifier = hs256();
        let verified = fuzz::held_to(100, &token, || verifier.verify(&token, at(NOW_S)));
        prop_assert!(verified.is_err());
    }

    #[test]
    fn no_bytes_make_the_readers_of_keys_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let pem = [b"-----BEGIN PUBLIC KEY-----\n", &*base64::engine::general_purpose::STANDARD.encode(&text).into_bytes(), b"\n-----END PUBLIC KEY-----\n"].concat();
        let _ = TokenVerifier::with_keys(&pem, rules(&["RS256"]));
        let _ = TokenVerifier::with_keys(&text, rules(&["HS256"]));
        let _ = TokenVerifier::with_key_set(&text, rules(&["ES256"]));
    }
}
