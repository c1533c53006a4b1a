//! The one table of headers in which a proxy, or a client that poses as one, says what a request is: who sent it, to
//! which host and path, how, and with which method.

/// Sorted. A name that ends in a hyphen stands for all names that begin with it.
const CLAIMS: [&str; 85] = [
    "ali-cdn-real-ip",
    "cdn-client-ip",
    "cdn-real-ip",
    "cdn-src-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-connecting-o2o",
    "cf-pseudo-ipv4",
    "cf-visitor",
    "client-ip",
    "cloudfront-",
    "do-connecting-ip",
    "fastly-client",
    "fastly-client-ip",
    "fastly-ssl",
    "fly-client-ip",
    "fly-forwarded-",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "http-client-ip",
    "http-x-forwarded-",
    "incap-client-ip",
    "path-info",
    "proxy-",
    "remote-addr",
    "remote-host",
    "remote-ip",
    "remote-port",
    "request-uri",
    "script-name",
    "surrogate-client-ip",
    "true-client-ip",
    "wl-proxy-",
    "x-appengine-remote-addr",
    "x-appengine-user-ip",
    "x-arr-ssl",
    "x-azure-clientip",
    "x-azure-fdid",
    "x-azure-socketip",
    "x-backend-host",
    "x-cdn-src-ip",
    "x-client-address",
    "x-client-ip",
    "x-client-port",
    "x-clientip",
    "x-cluster-client-ip",
    "x-connecting-ip",
    "x-custom-ip-authorization",
    "x-envoy-",
    "x-forward-for",
    "x-forwarded",
    "x-forwarded-",
    "x-host",
    "x-host-override",
    "x-http-destinationurl",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-lb-client-ip",
    "x-method-override",
    "x-middleware-subrequest",
    "x-nf-client-connection-ip",
    "x-original-",
    "x-originally-forwarded-",
    "x-originating-",
    "x-override-url",
    "x-proxyuser-ip",
    "x-real-",
    "x-remote-addr",
    "x-remote-host",
    "x-remote-ip",
    "x-remote-port",
    "x-request-uri",
    "x-rewrite-",
    "x-scheme",
    "x-script-name",
    "x-source-ip",
    "x-sucuri-",
    "x-true-client-ip",
    "x-true-ip",
    "x-tunneled-method",
    "x-url-scheme",
    "x-varnish-client-ip",
    "x-vercel-",
];

/// Headers that frame a message. A server that ignores how a name is punctuated would read their other spellings too.
const FRAMING: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];

/// Whether a header, by its name in lower case, claims something about the request that only a proxy can know.
pub fn is_claim(name: &str) -> bool {
    // In a sorted table, nothing stands between a name and the beginning that it shares.
    let after = CLAIMS.partition_point(|claim| *claim <= name);
    let nearest = CLAIMS[..after].last();
    nearest.is_some_and(|claim| *claim == name || (claim.ends_with('-') && name.starts_with(claim)))
}

/// Whether a header, by its name in lower case, is a claim or frames a message for a server that reads all punctuation
/// as underscores, as CGI does, but not for others: `x_forwarded_for`. No proxy writes such a name.
pub fn is_respelled(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.bytes().all(is_usual) {
        return false;
    }
    let usual = name.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
    is_claim(&usual) || FRAMING.contains(&usual.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_no_entry_hides_another() {
        assert!(CLAIMS.is_sorted());
        for claim in CLAIMS {
            assert!(is_claim(claim), "{claim}");
            let longer = format!("{claim}x");
            assert_eq!(
                is_claim(&longer),
                claim.ends_with('-') || CLAIMS.contains(&&*longer),
                "{longer}"
            );
        }
    }

    #[test]
    fn whatever_forges_an_address_a_target_or_a_method_is_a_claim() {
        for name in [
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-user",
            "wl-proxy-client-ip",
            "proxy-client-ip",
            "cf-connecting-ip",
            "cf-connecting-ipv6",
            "true-client-ip",
            "x-real-ip",
            "x-client-ip",
            "x-cluster-client-ip",
            "x-originating-ip",
            "x-remote-ip",
            "x-remote-addr",
            "fastly-client-ip",
            "x-original-url",
            "x-original-remote-addr",
            "x-rewrite-url",
            "x-http-method",
            "x-http-method-override",
            "x-method-override",
            "x-vercel-forwarded-for",
            "x-envoy-external-address",
            "cloudfront-viewer-address",
            "x-lb-client-ip",
            "x-clientip",
            "x-varnish-client-ip",
            "x-real-host",
            "x-real-port",
            "remote-addr",
            "x-host-override",
            "x-override-url",
            "x-script-name",
            "script-name",
            "x-azure-fdid",
            "x-middleware-subrequest",
        ] {
            assert!(is_claim(name), "{name}");
            assert!(!is_respelled(name), "{name}");
            assert!(is_respelled(&name.replace('-', "_")) || !name.contains('-'), "{name}");
            assert!(is_respelled(&name.replace('-', ".")) || !name.contains('-'), "{name}");
        }
        for name in [
            "x-forwarder",
            "x-user",
            "x-realm",
            "x-methods",
            "proxyfoo",
            "x-request-id",
            "cf-ray",
            "remote-user",
            "x-client-cert",
        ] {
            assert!(!is_claim(name), "{name}");
        }
        for name in ["content_length", "transfer.encoding", "x_forwarded-for"] {
            assert!(is_respelled(name), "{name}");
        }
        assert!(!is_respelled("x_user"));
    }
}
