//! Atomics: those of `std`, each access a point. Not shuttle's own, which are larger than their values.

use std::fmt;
use std::sync::atomic::Ordering;

use super::point::point;

macro_rules! passed_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
            pub fn $name(&self, $($argument: $kind),*) -> $result {
                point();
                self.0.$name($($argument),*)
            }
        )*
    };
}

macro_rules! atomic {
    ($name:ident, $value:ty, [$($generic:ident)?], $zero:expr) => {
        #[repr(transparent)]
        pub struct $name$(<$generic>)?(std::sync::atomic::$name$(<$generic>)?);

        impl$(<$generic>)? $name$(<$generic>)? {
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            passed_on! {
                load(order: Ordering) -> $value;
                swap(value: $value, order: Ordering) -> $value;
                compare_exchange(old: $value, new: $value, success: Ordering, failure: Ordering)
                    -> Result<$value, $value>;
            }

            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, success, failure)
            }

            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut seen = self.load(failure);
                while let Some(next) = update(seen) {
                    match self.compare_exchange(seen, next, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(now) => seen = now,
                    }
                }
                Err(seen)
            }
        }

        impl$(<$generic>)? Default for $name$(<$generic>)? {
            fn default() -> Self {
                Self::new($zero)
            }
        }

        impl$(<$generic>)? fmt::Debug for $name$(<$generic>)? {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                // No point: printing must not change the schedule.
                self.0.fmt(formatter)
            }
        }
    };
}

macro_rules! arithmetic {
    ($($name:ident: $value:ty),*) => {
        $(
            atomic!($name, $value, [], 0);

            impl $name {
                passed_on! {
                    fetch_add(value: $value, order: Ordering) -> $value;
                    fetch_sub(value: $value, order: Ordering) -> $value;
                    fetch_max(value: $value, order: Ordering) -> $value;
                    fetch_min(value: $value, order: Ordering) -> $value;
                    fetch_and(value: $value, order: Ordering) -> $value;
                    fetch_or(value: $value, order: Ordering) -> $value;
                }
            }
        )*
    };
}

arithmetic!(
    AtomicU8: u8,
    AtomicU16: u16,
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
    AtomicI64: i64
);
atomic!(AtomicBool, bool, [], false);
atomic!(AtomicPtr, *mut T, [T], std::ptr::null_mut());

impl AtomicBool {
    passed_on! {
        fetch_and(value: bool, order: Ordering) -> bool;
        fetch_or(value: bool, order: Ordering) -> bool;
    }
}
