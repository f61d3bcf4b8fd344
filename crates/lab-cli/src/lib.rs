//! The engines of the lab as disks.

mod engine_device;

pub use engine_device::EngineDevice;
