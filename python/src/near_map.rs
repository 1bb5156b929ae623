//! `lookalike.NearMap`.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyType};

use super::arguments::{profile, wrong};
use super::images;
use lookalike_dedupe::{Near as Nearest, NearMap as Map, NearMapError};
use lookalike_text::fingerprint::Fingerprint;

/// A stored text that is near another one.
///
/// `id` is its id, and `distance` the number of bits, or of cells of signatures, that differ. `similarity` is
/// the estimated Jaccard similarity, 0 to 1, or None if the profile makes hashes.
///
/// >>> import lookalike as la
/// >>> la.Near("a", 3, None).distance
/// 3
#[pyclass(frozen, eq, get_all, module = "lookalike")]
#[derive(PartialEq)]
pub(crate) struct Near {
    /// Its id.
    id: String,
    /// The distance, in bits or in cells of signatures.
    distance: u32,
    /// The estimated similarity, 0 to 1, or None.
    similarity: Option<f64>,
}

#[pymethods]
impl Near {
    #[new]
    #[pyo3(signature = (id, distance, similarity=None))]
    fn py_new(id: String, distance: u32, similarity: Option<f64>) -> Near {
        Near { id, distance, similarity }
    }

    fn __repr__(&self) -> String {
        let similarity = self.similarity.map(|share| format!(", similarity={share:.3}")).unwrap_or_default();
        format!("Near(id={:?}, distance={}{similarity})", self.id, self.distance)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (&str, u32, Option<f64>)) {
        (py.get_type::<Near>().into_any(), (&self.id, self.distance, self.similarity))
    }
}

impl From<Nearest<String>> for Near {
    fn from(Nearest { id, distance, similarity }: Nearest<String>) -> Near {
        Near { id, distance, similarity }
    }
}

/// Texts under ids, of which near-duplicates are refused: texts in, ids out.
///
/// With a profile of images, `text` is the bytes of an image file or an image of Pillow. One of a quality
/// below 50 is near nothing: flat images have near hashes although they are unlike.
///
/// `profile` compares the texts, and `k` is the largest distance of near ones; by default that of the
/// profile, which for "short-128" depends on the text. It holds 100 bytes for each text with hashes, and
/// some 500 with signatures. Several threads may use it at the same time.
///
/// Raises ValueError if there is no such profile, or `k` is larger than its hashes.
///
/// >>> import lookalike as la
/// >>> near = la.NearMap("copies-128")
/// >>> text = ("The harbour ferry will run every twenty minutes during the summer festival, the city "
/// ...         "council said on Tuesday. Extra boats have been hired from a neighbouring town.")
/// >>> near.insert_if_novel("ferry-1", text) is None
/// True
/// >>> near.insert_if_novel("ferry-2", text.replace("Tuesday", "Friday"))
/// Near(id="ferry-1", distance=11)
/// >>> len(near), "ferry-2" in near
/// (1, False)
#[pyclass(frozen, module = "lookalike")]
pub(crate) struct NearMap(RwLock<Map<String>>);

/// What is stored or sought.
enum Content {
    Text(PyBackedStr),
    Image(Fingerprint),
}

impl NearMap {
    /// A text, or an image if the profile takes images.
    fn content(&self, text: &Bound<'_, PyAny>) -> PyResult<Content> {
        let profile = self.read().profile();
        if profile.takes_images() {
            return Ok(Content::Image(images::one("text", text, profile)?.fingerprint(profile)));
        }
        Ok(Content::Text(text.extract()?))
    }

    /// The map, read. Work with it is done without Python's lock, so that threads wait for each other only
    /// here.
    fn read(&self) -> RwLockReadGuard<'_, Map<String>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map<String>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(error: &NearMapError) -> PyErr {
    let argument = match error {
        NearMapError::TakesNoTexts(_) | NearMapError::Aligns { .. } => "profile",
        NearMapError::Radius(_) => "k",
        NearMapError::Taken => "id",
    };
    wrong(argument, error)
}

#[pymethods]
impl NearMap {
    #[new]
    #[pyo3(signature = (profile="copies-128", k=None))]
    fn py_new(profile: &str, k: Option<u32>) -> PyResult<NearMap> {
        let map = Map::new(self::profile(profile)?, k).map_err(|error| refused(&error))?;
        Ok(NearMap(RwLock::new(map)))
    }

    /// The id of the profile.
    #[getter]
    fn profile(&self) -> String {
        self.read().profile().id().to_string()
    }

    /// The largest distance of near texts; None if it is that of the profile.
    #[getter]
    fn k(&self) -> Option<u32> {
        self.read().k()
    }

    /// Stores a text and returns None, unless a stored one is near: then returns the nearest, and stores
    /// nothing. A text without words is near nothing.
    ///
    /// Raises ValueError if a text is stored under this id.
    ///
    /// >>> import lookalike as la
    /// >>> near = la.NearMap("short-128")
    /// >>> near.insert_if_novel("a", "Please call me back before noon")
    /// >>> near.insert_if_novel("b", "Please call me back before noon!").id
    /// 'a'
    fn insert_if_novel(&self, py: Python<'_>, id: String, text: &Bound<'_, PyAny>) -> PyResult<Option<Near>> {
        let near = match self.content(text)? {
            Content::Text(text) => py.detach(|| self.write().insert_if_novel(id, &text, ())),
            Content::Image(made) => py.detach(|| self.write().insert_image_if_novel(id, made, ())),
        };
        Ok(near.map_err(|error| refused(&error))?.map(Near::from))
    }

    /// The stored texts that are near, as a list of `Near`, the nearest first. `k` replaces that of the map.
    ///
    /// Raises ValueError if `k` is larger than any distance.
    ///
    /// >>> import lookalike as la
    /// >>> near = la.NearMap("short-128")
    /// >>> near.insert_if_novel("a", "Please call me back before noon")
    /// >>> near.find("please call me back before NOON")
    /// [Near(id="a", distance=0)]
    #[pyo3(signature = (text, k=None))]
    fn find(&self, py: Python<'_>, text: &Bound<'_, PyAny>, k: Option<u32>) -> PyResult<Vec<Near>> {
        let found = match self.content(text)? {
            Content::Text(text) => py.detach(|| self.read().find(&text, k)),
            Content::Image(made) => py.detach(|| self.read().find_image(made, k)),
        };
        Ok(found.map_err(|error| refused(&error))?.into_iter().map(Near::from).collect())
    }

    /// Removes a text, and returns whether it was stored.
    ///
    /// >>> import lookalike as la
    /// >>> near = la.NearMap()
    /// >>> near.insert_if_novel("a", "Please call me back before noon")
    /// >>> near.remove("a"), near.remove("a")
    /// (True, False)
    fn remove(&self, py: Python<'_>, id: String) -> bool {
        py.detach(|| self.write().remove(&id).is_some())
    }

    /// Saves the map in a file, in place of what the file held: after a failure it holds the old bytes.
    ///
    /// Raises OSError if the file cannot be written.
    ///
    /// >>> import lookalike as la, os, tempfile
    /// >>> near = la.NearMap()
    /// >>> near.insert_if_novel("a", "Please call me back before noon")
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     file = os.path.join(folder, "texts.near")
    /// ...     near.save(file)
    /// ...     "a" in la.NearMap.load(file)
    /// True
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| save(&self.read(), &path)).map_err(|error| failed(&path, &error))
    }

    /// The map of a file that `save` wrote.
    ///
    /// Raises OSError if the file cannot be read, is damaged, or names a profile that is not built in.
    ///
    /// >>> import lookalike as la
    /// >>> la.NearMap.load("no such file")
    /// Traceback (most recent call last):
    ///     ...
    /// OSError: no such file: No such file or directory (os error 2)
    #[classmethod]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<NearMap> {
        let map = py.detach(|| Map::read_from(File::open(&path)?)).map_err(|error| failed(&path, &error))?;
        Ok(NearMap(RwLock::new(map)))
    }

    fn __len__(&self) -> usize {
        self.read().len()
    }

    fn __contains__(&self, id: String) -> bool {
        self.read().get(&id).is_some()
    }

    fn __repr__(&self) -> String {
        format!("<lookalike.NearMap: {} texts by {}>", self.read().len(), self.profile())
    }

    /// Rebuilds a pickled map.
    #[classmethod]
    fn _of_bytes(_class: &Bound<'_, PyType>, data: &[u8]) -> PyResult<NearMap> {
        Ok(NearMap(RwLock::new(Map::read_from(data)?)))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let mut bytes = Vec::new();
        self.read().write_to(&mut bytes)?;
        Ok((py.get_type::<NearMap>().getattr("_of_bytes")?, (PyBytes::new(py, &bytes),)))
    }
}

/// Writes the map under another name first, so that the file is the old or the new one.
fn save(map: &Map<String>, path: &Path) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = File::create(&partial).and_then(|file| {
        let mut file = BufWriter::new(file);
        map.write_to(&mut file)?;
        file.into_inner()?.sync_all()?;
        fs::rename(&partial, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

fn failed(path: &Path, error: &io::Error) -> PyErr {
    PyOSError::new_err(format!("{}: {error}", path.display()))
}
