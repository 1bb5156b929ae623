//! `lookalike.fingerprint`.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::arguments::{profile, threads, wrong};
use super::hashes::Form;
use super::images;
use super::texts::Texts;
use super::work::interruptible;
use lookalike_dedupe::{Watch, in_parallel};
use lookalike_text::fingerprint::check_takes_texts;

/// The fingerprints of texts: those of the server and of the command `lookalike fingerprint`, bit for bit.
///
/// `texts` is one str, which gives one value, or many: a list of str, or a column of strings of Arrow, polars
/// or pandas, which is not copied if it is Arrow. `profile` is a name or an id of `profiles()`.
///
/// `form` says what the hashes are:
///
/// - "int": int, or a list of int.
/// - "hex": hexadecimal digits, 16 for 64 bits and 32 for 128.
/// - "bytes": 8 or 16 bytes, the most significant first.
/// - "numpy": uint64 of shape (n,) for 64 bits, else uint8 of shape (n, bits / 8).
/// - "arrow": `Hashes`, an Arrow array of fixed-size binary values.
///
/// With a profile of images, "pdq" or "phash-64", `texts` is an image or many: the bytes of a JPEG, PNG, WebP
/// or GIF file or an image of Pillow, a list of them, or a column of bytes, also in structs with a field
/// "bytes" as data sets of Hugging Face have them.
///
/// Of a profile that makes signatures, such as "minhash", the hash is the name of the signature: equal for
/// equal signatures, and otherwise no measure of nearness. Texts without words all have one hash, which is 0
/// unless the profile makes signatures: do not store it. `threads` changes no hash; None is one for each
/// processor.
///
/// Raises ValueError if an argument has no such value or a row has no text, and TypeError if a row is no str.
///
/// >>> import lookalike as la
/// >>> la.fingerprint("Fish and chips", profile="copies-64", form="hex")
/// '786e90249494b1c1'
/// >>> a = la.fingerprint("市政府宣布地铁线路下月开通")
/// >>> b = la.fingerprint("市政府宣布地铁线路将于下月开通")
/// >>> (a ^ b).bit_count() < 64
/// True
#[pyfunction]
#[pyo3(signature = (texts, *, profile="copies-128", form="int", threads=None))]
pub(crate) fn fingerprint(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    profile: &str,
    form: &str,
    threads: Option<usize>,
) -> PyResult<Py<PyAny>> {
    let (profile, form, threads) = (self::profile(profile)?, Form::named(form)?, self::threads(threads)?);
    if profile.takes_images() {
        if images::is_one(texts) {
            return form.one(py, images::one("texts", texts, profile)?.hash);
        }
        let made = images::many("texts", std::slice::from_ref(texts), profile, threads, None)?;
        return form.many(py, profile.width(), &made.iter().map(|made| made.hash).collect::<Vec<_>>());
    }
    check_takes_texts(profile).map_err(|why| wrong("profile", why))?;
    if let Ok(text) = texts.cast::<PyString>() {
        let text = text.to_str()?;
        let hash = py.detach(|| profile.fingerprint(text).hash);
        return form.one(py, hash);
    }
    let held = Texts::of("texts", texts)?;
    let mut texts = Vec::new();
    held.append_to("texts", &mut texts)?;
    let (texts, watch) = (&texts[..], &Watch::default());
    let hashes = interruptible(py, watch, None, || {
        in_parallel(texts.len(), threads, watch, |at| profile.fingerprint(texts[at]).hash)
    })?;
    form.many(py, profile.width(), &hashes.unwrap_or_default())
}
