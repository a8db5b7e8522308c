//! Where a local model computes and in which number format.
//!
//! The only place, beside the flash path of `nn/attn.rs`, that knows the features `cuda` and `metal`.
//! It must not know models.

use std::fmt;
use std::str::FromStr;

use candle_core::{DType, Device};

/// Why a device or a number format cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The text is no device.
    #[error("device `{0}` is unknown; write `auto`, `cpu`, `cuda`, `cuda:N` or `metal`")]
    Unknown(String),
    /// The text is no number format.
    #[error("number format `{0}` is unknown; write `auto`, `f32`, `f16` or `bf16`")]
    UnknownDtype(String),
    /// This build lacks the device.
    #[error(
        "this build cannot use `{device}`: build it with the cargo feature `{feature}` \
         (`cargo build --release --features {feature}`), or choose `cpu`"
    )]
    NotBuilt {
        /// The device that was asked for.
        device: String,
        /// The feature it needs.
        feature: &'static str,
    },
    /// The device is there in name only.
    #[error("device `{device}` cannot be opened: {problem}")]
    Unavailable {
        /// The device that was asked for.
        device: String,
        /// What the driver said.
        problem: String,
    },
}

impl DeviceError {
    /// The key of `[model]` in a config that the error is about.
    pub fn key(&self) -> &'static str {
        match self {
            Self::UnknownDtype(_) => "dtype",
            _ => "device",
        }
    }
}

/// A device as a config names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first accelerator that this build and this machine have, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A CUDA device by its number.
    Cuda(usize),
    /// Apple's GPU.
    Metal,
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "metal" => Ok(Self::Metal),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| DeviceError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Metal => f.write_str("metal"),
        }
    }
}

impl DeviceChoice {
    /// Opens the device and says its name.
    pub fn open(self) -> Result<(Device, String), DeviceError> {
        match self {
            Self::Cpu => Ok((Device::Cpu, "cpu".to_owned())),
            Self::Cuda(number) => Ok((cuda(number)?, self.to_string())),
            Self::Metal => Ok((metal()?, self.to_string())),
            Self::Auto => {
                for choice in [Self::Cuda(0), Self::Metal] {
                    match choice.open() {
                        Ok(opened) => return Ok(opened),
                        Err(DeviceError::NotBuilt { .. }) => {}
                        // A broken driver must not turn hours into days without a word.
                        Err(error) => tracing::warn!("{error}; `device = \"auto\"` goes on without it"),
                    }
                }
                Self::Cpu.open()
            }
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda(number: usize) -> Result<Device, DeviceError> {
    Device::new_cuda(number).map_err(|error| DeviceError::Unavailable {
        device: DeviceChoice::Cuda(number).to_string(),
        problem: error.to_string(),
    })
}

#[cfg(not(feature = "cuda"))]
fn cuda(number: usize) -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt { device: DeviceChoice::Cuda(number).to_string(), feature: "cuda" })
}

#[cfg(feature = "metal")]
fn metal() -> Result<Device, DeviceError> {
    Device::new_metal(0).map_err(|error| DeviceError::Unavailable {
        device: DeviceChoice::Metal.to_string(),
        problem: error.to_string(),
    })
}

#[cfg(not(feature = "metal"))]
fn metal() -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt { device: DeviceChoice::Metal.to_string(), feature: "metal" })
}

/// A number format as a config names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DtypeChoice {
    /// f32 on the CPU; on accelerators bf16, or f16 where the weights are f16.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// 16-bit floats with 10 bits of mantissa.
    F16,
    /// 16-bit floats with 7 bits of mantissa.
    Bf16,
}

impl FromStr for DtypeChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "auto" => Ok(Self::Auto),
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            _ => Err(DeviceError::UnknownDtype(text.to_owned())),
        }
    }
}

impl DtypeChoice {
    /// The format of arithmetic on `device` for weights that are mostly `on_disk`.
    pub fn resolve(self, device: &Device, on_disk: DType) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
            Self::Auto if device.is_cpu() => DType::F32,
            Self::Auto if on_disk == DType::F16 => DType::F16,
            Self::Auto => device.bf16_default_to_f32(),
        }
    }
}

/// The name of a number format in identities and tables.
pub fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_written() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda:0", DeviceChoice::Cuda(0)),
            ("cuda:3", DeviceChoice::Cuda(3)),
            ("metal", DeviceChoice::Metal),
        ] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap(), choice);
            assert_eq!(choice.to_string(), text);
        }
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            let error = wrong.parse::<DeviceChoice>().unwrap_err().to_string();
            assert!(error.contains("`cuda:N`"), "{error}");
        }
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_that_is_not_built_names_its_feature() {
        let error = DeviceChoice::Cuda(1).open().unwrap_err().to_string();
        assert!(error.contains("`cuda:1`") && error.contains("--features cuda"), "{error}");
        assert_eq!(DeviceChoice::Cpu.open().unwrap().1, "cpu");
    }

    #[test]
    fn the_cpu_computes_in_f32_unless_told_otherwise() {
        assert_eq!(DtypeChoice::Auto.resolve(&Device::Cpu, DType::F16), DType::F32);
        assert_eq!(DtypeChoice::Bf16.resolve(&Device::Cpu, DType::F16), DType::BF16);
        assert_eq!("f16".parse::<DtypeChoice>().unwrap().resolve(&Device::Cpu, DType::F32), DType::F16);
        assert!("int8".parse::<DtypeChoice>().is_err());
    }
}
