//! Files that begin well and go wrong.

use proptest::prelude::*;

use super::STORES;
use super::*;
use tidegate_testkit::fuzz::{self, Grammar};

/// Keys, values and signs of a file, and what multiplies itself or goes deep.
const GRAMMAR: Grammar = Grammar {
    whole: &[
        "policies:\n  api: { limit: 100/min, burst: 5 }\n  web: ${RATE}\nroutes:\n  - { match: { path: /* }, policy: api }\n",
        EXAMPLE,
    ],
    words: &[
        "policies:",
        "store:",
        "listen:",
        "routes:",
        "overrides:",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "api",
        "limit: ",
        "100/min",
        "burst: 5",
        "\"",
        "'",
        "${",
        "}",
        "${RATE}",
        "${BURST}",
        "${INJECTED}",
        "${NOPE:-5}",
        "$",
        "$$",
        ":-",
        "&a ",
        "*a",
        "<<: *a",
        "|\n",
        ">\n",
        "# ",
        "!!str ",
        "---\n",
        "...\n",
        "null",
        "~",
        "true",
        "1e400",
        "0x10",
        "-1",
        "9007199254740993",
        "all: [",
        "\t",
        "? ",
        "%YAML 1.2\n",
        "\u{feff}",
        "match: { path: ",
        "/*",
        "telemetry: { otlp: ",
        "drain: 5s",
        "mode: shadow",
    ],
};

proptest! {
    #![proptest_config(fuzz::config(4_000))]

    #[test]
    fn whatever_is_in_a_file_is_taken_or_told_with_its_place(text in fuzz::text_like(GRAMMAR)) {
        // The schema is parsed once, for all files.
        std::sync::LazyLock::force(&SCHEMA);
        let mut parsed = Ok(Config::default());
        let held = allocation_counter::measure(|| parsed = Config::parse(&text, &lookup, STORES)).bytes_max;
        // Even a short file takes a few hundred kilobytes.
        prop_assert!(held <= (1 << 20) + 500 * text.len() as u64, "{held} bytes for {}", text.len());
        for problem in parsed.err().unwrap_or_default() {
            let Position { line, .. } = problem.position;
            prop_assert!(line >= 1 && line <= 1 + text.split(['\n', '\r']).count() as u64, "{problem:?}");
        }
    }
}
