//! `arc_swap`, as much of it as is used: each load and each store is one step.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::point::point;

/// Of `ArcSwap<V>` the value is an `Arc<V>`, of `ArcSwapOption<V>` an `Option<Arc<V>>`.
pub struct ArcSwapAny<T>(parking_lot::Mutex<T>);

pub type ArcSwap<V> = ArcSwapAny<Arc<V>>;
pub type ArcSwapOption<V> = ArcSwapAny<Option<Arc<V>>>;

/// What was loaded.
#[derive(Debug)]
pub struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> ArcSwapAny<T> {
    pub fn new(value: T) -> ArcSwapAny<T> {
        ArcSwapAny(parking_lot::Mutex::new(value))
    }

    pub fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    pub fn load_full(&self) -> T {
        point();
        self.0.lock().clone()
    }

    pub fn store(&self, value: T) {
        point();
        let before = std::mem::replace(&mut *self.0.lock(), value);
        // Past the latch: what it drops may come to points of its own.
        drop(before);
    }
}

impl<V> ArcSwapAny<Arc<V>> {
    pub fn from_pointee(value: V) -> ArcSwap<V> {
        ArcSwapAny::new(Arc::new(value))
    }
}

impl<V> ArcSwapAny<Option<Arc<V>>> {
    pub fn empty() -> ArcSwapOption<V> {
        ArcSwapAny::new(None)
    }
}

impl<T: fmt::Debug> fmt::Debug for ArcSwapAny<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ArcSwapAny").field(&*self.0.lock()).finish()
    }
}
