//! An answer that is there now, or will be later. Only a network makes anybody wait.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future, boxed: the network costs a thousand times more than the box.
///
/// ```
/// use tidegate::{Later, Reply, UnderWay};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let later: Later<'_, u64, UnderWay> = Box::pin(async { Ok(5) });
/// assert_eq!(Reply::later(later).await, Ok(5));
/// # }
/// ```
pub type Later<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// An answer that is known now, or a future of it.
///
/// The store in memory answers at once, without a future or a task switch: [`Reply::now`]. A store over the network
/// answers later: `.await`, which works for both. A question is sent as soon as there is a reply; dropping the
/// reply does not cancel it.
///
/// ```
/// use tidegate::Engine;
///
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder().policy("api", "100/h").build()?;
/// assert!(engine.check("api", "user-42").now()?.decision.allowed());
/// assert!(engine.check("api", "user-42").await?.decision.allowed());
/// # Ok(())
/// # }
/// # let mut task = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(std::pin::pin!(ask()).poll(&mut task).is_ready());
/// ```
#[must_use = "an answer that nobody looks at limits nothing"]
pub struct Reply<'a, T, E>(Kind<'a, T, E>);

enum Kind<'a, T, E> {
    /// `None` once it has been given.
    Now(Option<Result<T, E>>),
    Later(Later<'a, T, E>),
}

/// There is no answer yet: it comes over a network, and has to be awaited.
///
/// ```
/// use tidegate::{Reply, StoreError, StoreErrorKind, UnderWay};
///
/// let reply: Reply<'_, u64, UnderWay> = Reply::later(async { Ok(5) });
/// assert_eq!(reply.now(), Err(UnderWay));
/// // As an error of a store:
/// assert_eq!(StoreError::from(UnderWay).kind(), StoreErrorKind::UnderWay);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnderWay;

impl<'a, T, E> Reply<'a, T, E> {
    /// An answer that is known.
    ///
    /// ```
    /// # use tidegate::{Reply, UnderWay};
    /// let reply: Reply<'_, u64, UnderWay> = Reply::ready(Ok(5));
    /// assert_eq!(reply.now(), Ok(5));
    /// ```
    #[inline]
    pub const fn ready(answer: Result<T, E>) -> Self {
        Self(Kind::Now(Some(answer)))
    }

    /// An answer that is an error.
    ///
    /// ```
    /// # use tidegate::{Reply, UnderWay};
    /// let reply: Reply<'_, u64, UnderWay> = Reply::failed(UnderWay);
    /// assert_eq!(reply.now(), Err(UnderWay));
    /// ```
    #[inline]
    pub fn failed(error: E) -> Self {
        Self::ready(Err(error))
    }

    /// An answer that will be known.
    ///
    /// ```
    /// # use tidegate::{Reply, UnderWay};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let reply: Reply<'_, u64, UnderWay> = Reply::later(async { Ok(5) });
    /// assert_eq!(reply.await, Ok(5));
    /// # }
    /// ```
    pub fn later(answer: impl Future<Output = Result<T, E>> + Send + 'a) -> Self {
        Self(Kind::Later(Box::pin(answer)))
    }

    /// The answer, if it is known now, as it always is with a store in memory; otherwise [`UnderWay`] as an error.
    #[inline]
    pub fn now(self) -> Result<T, E>
    where
        E: From<UnderWay>,
    {
        match self.0 {
            Kind::Now(Some(answer)) => answer,
            Kind::Now(None) | Kind::Later(_) => Err(UnderWay.into()),
        }
    }

    /// The answer where it lies, if it is known now: an answer may be large, and to move it takes time.
    #[inline]
    pub(crate) const fn known(&mut self) -> Option<&mut Result<T, E>> {
        match &mut self.0 {
            Kind::Now(answer) => answer.as_mut(),
            Kind::Later(_) => None,
        }
    }

    /// The answer, or the future of it: for callers that do something else meanwhile.
    ///
    /// ```
    /// # use tidegate::{Reply, UnderWay};
    /// let known: Reply<'_, u64, UnderWay> = Reply::ready(Ok(5));
    /// assert!(known.split().is_ok_and(|answer| answer == Ok(5)));
    /// let unknown: Reply<'_, u64, UnderWay> = Reply::later(async { Ok(5) });
    /// assert!(unknown.split().is_err());
    /// ```
    #[inline]
    pub fn split(self) -> Result<Result<T, E>, Later<'a, T, E>>
    where
        T: Send + 'a,
        E: Send + 'a,
    {
        match self.0 {
            Kind::Now(Some(answer)) => Ok(answer),
            Kind::Now(None) => Err(Box::pin(std::future::pending())),
            Kind::Later(answer) => Err(answer),
        }
    }

    /// What `then` makes of the answer, at once if that is known.
    ///
    /// ```
    /// # use tidegate::{Reply, UnderWay};
    /// let reply: Reply<'_, u64, UnderWay> = Reply::ready(Ok(5));
    /// let doubled: Reply<'_, u64, UnderWay> = reply.then(|five| Ok(2 * five?));
    /// assert_eq!(doubled.now(), Ok(10));
    /// ```
    #[inline]
    pub fn then<U, F>(
        self,
        then: impl FnOnce(Result<T, E>) -> Result<U, F> + Send + 'a,
    ) -> Reply<'a, U, F>
    where
        T: Send + 'a,
        E: Send + 'a,
    {
        match self.0 {
            Kind::Now(answer) => Reply(Kind::Now(answer.map(then))),
            Kind::Later(answer) => Reply::later(async { then(answer.await) }),
        }
    }

    /// Asks again with the answer, unless that is an error.
    pub(crate) fn and_then<U>(
        self,
        next: impl FnOnce(T) -> Reply<'a, U, E> + Send + 'a,
    ) -> Reply<'a, U, E>
    where
        T: Send + 'a,
        U: Send + Unpin + 'a,
        E: Send + Unpin + 'a,
    {
        match self.split() {
            Ok(answer) => answer.map_or_else(Reply::failed, next),
            Err(later) => Reply::later(async { next(later.await?).await }),
        }
    }
}

impl<T: Unpin, E: Unpin> Future for Reply<'_, T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            // Asked again after its answer, a future may stay silent.
            Kind::Now(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Kind::Later(answer) => answer.as_mut().poll(task),
        }
    }
}

impl<T: fmt::Debug, E: fmt::Debug> fmt::Debug for Reply<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Kind::Later(_) => f.write_str("Later"),
        }
    }
}
