//! The bytes of an image in a field: base64, also in a URL of data, or in the member `bytes` of an object, as
//! data sets of Hugging Face have them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{Fields, Reason, Unread, Value};

/// The field with the quality of an image whose hash was made earlier, as exchanges of hashes have it.
pub const QUALITY: &str = "quality";

impl Fields<'_> {
    /// The number in the field `quality`, 0 to 100; `None` if there is none.
    ///
    /// # Errors
    /// If it is something else.
    pub fn quality(&self) -> Result<Option<u8>, Unread> {
        let found = self.get(QUALITY).map(Value::plain).filter(|text| !["", "null"].contains(&&**text));
        let number =
            |text: &String| text.trim().parse().ok().filter(|quality: &f64| (0.0..=100.0).contains(quality));
        found.map_or(Ok(None), |text| match number(&text) {
            Some(quality) => Ok(Some(quality as u8)),
            None => {
                Err(Reason::Value
                    .because(format!("the {} \"quality\" is no number from 0 to 100", self.what)))
            }
        })
    }

    /// The bytes of the image in a field.
    ///
    /// # Errors
    /// If there is none.
    pub fn image(&self, name: &str, option: &str) -> Result<Vec<u8>, Unread> {
        let inner = || self.get(&format!("{name}.bytes"));
        let value = match self.needed(name, option)? {
            Value::Json(json) if json.starts_with('{') => inner().ok_or_else(|| {
                Reason::Field.because(format!("the {} {name:?} has no member \"bytes\"", self.what))
            })?,
            value => value,
        };
        let text = value.string().map_err(|_| {
            Reason::Value
                .because(format!("the {} {name:?} is no base64; {option} names another one", self.what))
        })?;
        let digits = text.split_once(";base64,").map_or(&*text, |(_, digits)| digits);
        BASE64_STANDARD.decode(digits.trim()).map_err(|error| {
            Reason::Value.because(format!("the {} {name:?} is no base64 ({error})", self.what))
        })
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::UTF_8;

    use super::*;

    #[test]
    fn an_image_is_base64_alone_in_a_url_or_in_an_object() {
        for line in [
            r#"{"image": "/9j/"}"#,
            r#"{"image": "data:image/jpeg;base64,/9j/"}"#,
            r#"{"image": {"bytes": "/9j/", "path": "a.jpg"}}"#,
        ] {
            let fields = Fields::of_json(line.as_bytes(), UTF_8).unwrap();
            assert_eq!(fields.image("image", "--image-field").unwrap(), [0xff, 0xd8, 0xff], "{line}");
        }
        for (line, expected) in [
            (r#"{"picture": 1}"#, "there is no field \"image\"; there are picture; --image-field names"),
            (r#"{"image": "?"}"#, "the field \"image\" is no base64"),
            (r#"{"image": 7}"#, "the field \"image\" is no base64"),
            (r#"{"image": null}"#, "there is no value in the field \"image\""),
            (r#"{"image": {"path": "a.jpg"}}"#, "the field \"image\" has no member \"bytes\""),
        ] {
            let fields = Fields::of_json(line.as_bytes(), UTF_8).unwrap();
            let unread = fields.image("image", "--image-field").unwrap_err();
            assert!(unread.detail.starts_with(expected), "{}", unread.detail);
        }
    }
}
