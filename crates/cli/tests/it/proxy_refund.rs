//! Requests that no upstream got, and what their refusals say.

use crate::programs::ReservedPort;
use crate::proxy_support::{Origin, Proxy, by_hand, read_head};
use crate::support::{Folder, Reply};

const HTML: (&str, &str) = ("Accept", "text/html,*/*;q=0.8");

/// Two requests an hour for each client.
const TWO: &str =
    "policies: { site: { algorithm: sliding-log, limit: 2/h } }\nroutes: [{ policy: site }]";

#[test]
fn a_request_that_reached_no_upstream_is_not_charged() {
    let folder = Folder::new();
    let reserved = ReservedPort::new();
    let port = reserved.port;
    let keyed = "policies:\n  site:\n    all:\n      \
                 - { name: client, key: client_ip, algorithm: sliding-log, limit: 2/h }\n      \
                 - { name: all, key: global, algorithm: sliding-log, limit: 9/h }\n\
                 routes: [{ policy: site }]";
    for limits in [TWO, keyed] {
        let proxy = Proxy::start(&folder, &format!("http://127.0.0.1:{port}"), "", limits);
        for number in 0..5 {
            assert_eq!(proxy.server.get("/").status, 502, "{number} of {limits}");
        }
        let _origin = Origin::mirror_at(([127, 0, 0, 1], port).into());
        // After three failures in a row it is left alone for a second.
        let answered = || proxy.server.get("/").status;
        crate::processes::wait_until("it is back", crate::support::DEADLINE, || answered() == 200);
        assert_eq!([answered(), answered()], [200, 429], "the whole budget was left: {limits}");
    }
}

#[test]
fn a_request_that_an_upstream_may_have_worked_on_stays_charged() {
    let folder = Folder::new();
    // Closes without an answer.
    let closing = by_hand(|mut stream| drop(read_head(&mut stream)));
    let proxy = Proxy::start(&folder, &format!("http://{closing}"), "", TWO);
    assert_eq!([(); 3].map(|()| proxy.server.get("/").status), [502, 502, 429]);
}

#[test]
fn a_502_for_programs_says_when_to_come_back_and_is_not_cached() {
    let folder = Folder::new();
    let proxy = Proxy::start(&folder, "http://127.0.0.1:1", "", "");
    for headers in [&[("Accept", "application/json")][..], &[]] {
        let reply = proxy.server.send("GET", "/api/x", headers, b"");
        assert_eq!(reply.status, 502);
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
        assert!(
            reply.header("cache-control").is_some_and(|it| it.contains("no-store")),
            "{reply:?}"
        );
    }
}

#[test]
fn the_page_says_whether_the_client_or_the_site_is_the_cause() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let refused = |options: &str, limits: &str| -> Reply {
        let proxy = Proxy::start(&folder, &origin.url(), options, limits);
        for _ in 0..2 {
            assert_eq!(proxy.server.get("/").status, 200);
        }
        proxy.server.send("GET", "/", &[HTML], b"")
    };
    let site = TWO.replace("{ policy: site }", "{ policy: site, key: global }");
    let by_path = TWO.replace("{ policy: site }", "{ policy: site, key: path }");
    let by_user = TWO.replace("{ policy: site }", "{ policy: site, key: header:x-user }");
    for (limits, title, message) in [
        (TWO, "Whoa, Slow Down There!", "Too many requests came from you or your network"),
        (&*by_user, "Whoa, Slow Down There!", "from you or your network"),
        (&*site, "Busy Right Now", "more requests than it can answer"),
        (&*by_path, "Busy Right Now", "more requests than it can answer"),
    ] {
        let page = refused("", limits);
        assert_eq!(page.status, 429, "{limits}");
        assert!(page.body.contains(&format!("<title>{title}</title>")), "{limits}: {}", page.body);
        assert!(page.body.contains(message), "{limits}: {}", page.body);
    }
}
