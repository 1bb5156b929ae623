//! Images as arguments: the bytes of files, columns of them, and images of Pillow.
//!
//! An image of Pillow is taken as its pixels, turned as its EXIF says. Its hash is made at once, so that
//! pixels of one image are held at a time.

use std::hash::{DefaultHasher, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::arguments::wrong;
use super::arrow::arrays;
use super::texts::kind;
use super::work::interruptible;
use lookalike_dedupe::{Watch, in_parallel};
use lookalike_hash::{Hash, Width};
use lookalike_images::{Header, Pdq, Raster, phash_64};
use lookalike_text::fingerprint::{Fingerprint, Profile, Status};

/// The most pixels of an image: it takes half a gigabyte.
const PIXELS: u64 = 100_000_000;

/// What an image has.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    pub(crate) hash: Hash,
    /// How much there is to see, 0 to 100.
    pub(crate) quality: u8,
    /// A name of its content.
    pub(crate) digest: u64,
}

impl Made {
    fn of(profile: &Profile, raster: &Raster, content: &[u8]) -> Made {
        let pdq = Pdq::of(raster);
        let hash = if profile.width() == Width::Bits256 { pdq.hash() } else { phash_64(raster) };
        let mut digest = DefaultHasher::new();
        digest.write(content);
        Made { hash, quality: pdq.quality(), digest: digest.finish() }
    }

    fn of_file(profile: &Profile, file: &[u8]) -> Result<Made, String> {
        let raster = Header::read(file, PIXELS).and_then(Header::decode);
        raster.map(|raster| Made::of(profile, &raster, file)).map_err(|refusal| refusal.to_string())
    }

    /// The fingerprint in a map: a flat image is near nothing.
    pub(crate) fn fingerprint(self, profile: &Profile) -> Fingerprint {
        let status = if self.quality < Pdq::GOOD { Status::Empty } else { Status::Ok };
        Fingerprint::of_image(self.hash, status, profile.default_k())
    }
}

/// An image whose hash is not made yet, or is.
enum Image {
    File(PyBackedBytes),
    Value(ArrayRef, usize),
    Made(Made),
}

impl Image {
    fn made(&self, profile: &Profile) -> Result<Made, String> {
        match self {
            Image::File(bytes) => Made::of_file(profile, bytes),
            Image::Value(array, row) => Made::of_file(profile, value(array, *row).unwrap_or_default()),
            Image::Made(made) => Ok(*made),
        }
    }
}

/// Whether an object is one image.
pub(crate) fn is_one(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyBytes>() || is_of_pillow(object)
}

/// What one image has.
pub(crate) fn one(argument: &str, object: &Bound<'_, PyAny>, profile: &Profile) -> PyResult<Made> {
    let image = image(argument, 0, object, profile)?;
    object.py().detach(|| image.made(profile)).map_err(|why| wrong(argument, why))
}

/// What each of many images has: of a list, or of a column of bytes.
pub(crate) fn many(
    argument: &str,
    objects: &[Bound<'_, PyAny>],
    profile: &Profile,
    threads: usize,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Vec<Made>> {
    let mut images = Vec::new();
    for object in objects {
        if let Some(arrays) = arrays(object)? {
            for array in arrays {
                images.extend((0..array.len()).map(|row| Image::Value(ArrayRef::clone(&array), row)));
            }
            continue;
        }
        let is_list = !is_one(object) && !object.is_instance_of::<PyString>();
        let items = object.try_iter().ok().filter(|_| is_list).ok_or_else(|| {
            let kind = kind(object);
            PyTypeError::new_err(format!(
                "{argument}: images are a list of bytes or of images of Pillow, or a column of bytes (Arrow, \
                 polars, pandas), not {kind}"
            ))
        })?;
        for (row, item) in items.enumerate() {
            images.push(image(argument, row, &item?, profile)?);
        }
    }
    let Some(first) = objects.first() else { return Ok(Vec::new()) };
    let (images, watch) = (&images[..], &Watch::default());
    let made = interruptible(first.py(), watch, progress, || {
        in_parallel(images.len(), threads, watch, |row| images[row].made(profile))
    })?;
    let of_row = |(row, made): (usize, Result<Made, String>)| {
        made.map_err(|why| wrong(argument, format!("row {row}: {why}")))
    };
    made.unwrap_or_default().into_iter().enumerate().map(of_row).collect()
}

/// One image of a list.
fn image(argument: &str, row: usize, object: &Bound<'_, PyAny>, profile: &Profile) -> PyResult<Image> {
    if let Ok(bytes) = object.extract::<PyBackedBytes>() {
        return Ok(Image::File(bytes));
    }
    // As data sets of Hugging Face have them.
    if let Ok(dict) = object.cast::<PyDict>()
        && let Some(bytes) = dict.get_item("bytes")?.filter(|bytes| !bytes.is_none())
    {
        return bytes.extract().map(Image::File).map_err(PyErr::from);
    }
    if is_of_pillow(object) {
        let (raster, content) = pixels(object)?;
        let made = object.py().detach(|| Made::of(profile, &raster, &content));
        return Ok(Image::Made(made));
    }
    let kind = kind(object);
    Err(PyTypeError::new_err(format!(
        "{argument}: row {row} is {kind}, not the bytes of an image file or an image of Pillow"
    )))
}

fn is_of_pillow(object: &Bound<'_, PyAny>) -> bool {
    ["mode", "size", "tobytes", "convert"].iter().all(|name| object.hasattr(name).unwrap_or(false))
}

/// The pixels of an image of Pillow, and its bytes.
fn pixels(image: &Bound<'_, PyAny>) -> PyResult<(Raster, PyBackedBytes)> {
    let mode = |image: &Bound<'_, PyAny>| image.getattr("mode")?.extract::<String>();
    let mut image = image.py().import("PIL.ImageOps")?.call_method1("exif_transpose", (image,))?;
    let own = mode(&image)?;
    let has_alpha = image.getattr("has_transparency_data")?.is_truthy()?;
    let wanted = match own.as_str() {
        "LA" | "RGBA" => None,
        _ if has_alpha => Some("RGBA"),
        "L" | "RGB" => None,
        _ if own.starts_with('I') => None,
        _ => Some("RGB"),
    };
    if let Some(wanted) = wanted {
        image = image.call_method1("convert", (wanted,))?;
    }
    let size: (usize, usize) = image.getattr("size")?.extract()?;
    let content: PyBackedBytes = image.call_method0("tobytes")?.extract()?;
    // Of 16 bits the upper 8, also in a mode of 32.
    let upper = |bytes: usize, at: usize| content.iter().skip(at).step_by(bytes).copied().collect();
    let (channels, pixels) = match &*mode(&image)? {
        "I" => (1, upper(4, 1)),
        "I;16B" => (1, upper(2, 0)),
        mode if mode.starts_with('I') => (1, upper(2, 1)),
        "L" => (1, content.to_vec()),
        "LA" => (2, content.to_vec()),
        "RGB" => (3, content.to_vec()),
        _ => (4, content.to_vec()),
    };
    let raster = Raster::of_pixels(size, channels, pixels);
    raster.map(|raster| (raster, content)).ok_or_else(|| wrong("image", format!("it has the mode {own}")))
}

/// The bytes in a row of a column of bytes, or of structs with a field `bytes`.
fn value(array: &ArrayRef, row: usize) -> Option<&[u8]> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Binary => Some(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Some(array.as_binary_view().value(row)),
        DataType::Struct(_) => value(array.as_struct().column_by_name("bytes")?, row),
        _ => None,
    }
}
