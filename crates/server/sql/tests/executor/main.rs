//! Plans and executions over tables in memory, against plain loops.

mod algebra;
mod changes;
mod explain;
mod joins;
mod memory_storage;
mod nulls;
mod rows;
