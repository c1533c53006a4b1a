//! The promises of every store, kept over two imitations of DynamoDB.

use tidegate::driver::StoreOptions;
use tidegate::{Ran, StoreErrorKind};
use tidegate_testkit::store_behaviours;

use crate::support::{TABLE, dynalite, moto, open_table, options, take_both};

mod on_moto {
    use super::*;

    store_behaviours!({
        let options = StoreOptions { replays: true, ..options() };
        let store = open_table(&moto().url(TABLE), &options).await;
        ((), move |_| store.clone())
    });
}

/// dynalite has no transactions: all promises but those of several identifiers in one step, which moto keeps above.
mod on_dynalite {
    use super::*;

    store_behaviours! { @common {
        let options = StoreOptions { replays: true, ..options() };
        let store = open_table(&dynalite().url(TABLE), &options).await;
        ((), move |_| store.clone())
    } }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn where_there_are_no_transactions_several_identifiers_fail_and_have_not_run() {
        let store = open_table(&dynalite().url(TABLE), &options()).await;
        let error = take_both(&*store, ["ann", "ben"]).await.unwrap_err();
        assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Other, Ran::No), "{error}");
        assert!(error.to_string().contains("UnknownOperationException"), "{error}");
    }
}
