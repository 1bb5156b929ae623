//! The forms in which systems write hashes: hexadecimal digits, decimal numbers with and without a sign, and
//! base64.
//!
//! Reading is exact: a text is one hash in a form, or it is refused. If no form is named, only those forms
//! are read that cannot be mistaken for another one, for any hash: hexadecimal digits, and base64 with its
//! padding. Decimal numbers are not among them: as texts, one in 2,000 of 64 bits has 16 digits and would be
//! read as hexadecimal, and as numbers of JSON many programs round them (ADR 38). Every hash that is written
//! is read back as itself, with its width. *Absent*: which form a request or an option names.

use std::fmt;
use std::str::FromStr;

use super::hash::{Hash, HashError, Width};
use super::wide::WideHash;

/// A number of up to 256 bits, the least significant limb first.
type Number = [u64; 4];

/// The widths, and the decimal digits of the largest number of each.
const WIDTHS: [(Width, usize); 3] = [(Width::Bits64, 20), (Width::Bits128, 39), (Width::Bits256, 78)];

/// A form of hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashForm {
    /// Hexadecimal digits, the most significant first, all of them: `f776119227163845`.
    #[default]
    Hex,
    /// Hexadecimal digits after `0x`: `0xf776119227163845`. Zeros after `0x` may be left out in what is read.
    Prefixed,
    /// The value as a decimal number without a sign: `17831459094038722629`.
    Decimal,
    /// The bits as a decimal number in two's complement: `-615284979670828987`. Databases have such integers.
    Signed,
    /// The bytes, the least significant first, in base64 with padding: `RTgWJ5IRdvc=`.
    Base64,
}

/// Why a text is not a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// It is not in hexadecimal digits, and in no other form that needs no name.
    #[error(
        "{0}. Other forms are 0x with digits, base64 with its padding, and those that hash_format names: \
         hex, 0x, decimal, signed, base64"
    )]
    Unknown(HashError),
    /// It has decimal digits, and no form is named.
    #[error(
        "a hash in decimal digits needs hash_format=decimal or signed: without it some of these hashes \
         would be read as hexadecimal digits"
    )]
    Unnamed,
    /// It is a number, and no form is named.
    #[error(
        "a hash is a string of hexadecimal digits. A number is read with hash_format=decimal or signed only, \
         because many programs round numbers above 2^53"
    )]
    Number,
    /// It is not in hexadecimal digits.
    #[error(transparent)]
    Hex(#[from] HashError),
    /// It is not in the form that was named.
    #[error("the hash is not in the form {form}, {shape}", form = .0, shape = .0.shape())]
    Shape(HashForm),
    /// The number is larger than the widest hash.
    #[error("the number is too large: the widest hash has {} bits", WIDTHS[WIDTHS.len() - 1].0.bits())]
    TooLarge,
    /// A number of JSON that is no whole number of 64 bits.
    #[error(
        "the number is not a whole number of 64 bits: a program may have rounded it. Send a wider hash as a \
         string of digits"
    )]
    Inexact,
    /// An unsigned number where one with a sign is expected.
    #[error(
        "the number exceeds {bits} bits with a sign; send it with hash_format=decimal, which has no sign",
        bits = .0
    )]
    Unsigned(u32),
    /// A negative number where one without a sign is expected.
    #[error("the number is negative; send it with hash_format=signed")]
    Negative,
}

/// A name that is not that of a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no form {0:?}; the forms are hex, 0x, decimal, signed, base64")]
pub struct NoForm(String);

impl HashForm {
    /// The forms and their names.
    pub const NAMES: [(&'static str, HashForm); 5] = [
        ("hex", HashForm::Hex),
        ("0x", HashForm::Prefixed),
        ("decimal", HashForm::Decimal),
        ("signed", HashForm::Signed),
        ("base64", HashForm::Base64),
    ];

    /// What a hash of 64 bits looks like in this form.
    fn shape(self) -> &'static str {
        match self {
            HashForm::Hex => "16 digits such as f776119227163845",
            HashForm::Prefixed => "such as 0xf776119227163845",
            HashForm::Decimal => "digits such as 17831459094038722629",
            HashForm::Signed => "digits that may follow a minus, such as -615284979670828987",
            HashForm::Base64 => "12 characters such as RTgWJ5IRdvc= for 8 bytes, the least significant first",
        }
    }

    /// The hash that a text is in this form; in a form that needs no name, if it is `None`.
    ///
    /// Its width is the smallest one that has so many digits. A wider hash with so small a value is written
    /// with zeros before it.
    ///
    /// ```
    /// use lookalike_hash::{FormError, Hash, HashForm};
    /// let hash: Hash = "f776119227163845".parse()?;
    /// assert_eq!(HashForm::read("RTgWJ5IRdvc=", None)?, hash);
    /// assert_eq!(HashForm::read("-615284979670828987", Some(HashForm::Signed))?, hash);
    /// assert_eq!(HashForm::Decimal.write(hash), "17831459094038722629");
    /// assert_eq!(HashForm::read("17831459094038722629", None), Err(FormError::Unnamed));
    /// # Ok::<(), FormError>(())
    /// ```
    ///
    /// # Errors
    /// [`FormError`]
    pub fn read(text: &str, form: Option<HashForm>) -> Result<Hash, FormError> {
        match form {
            None => text.parse().or_else(|error| unnamed(text, error)),
            Some(HashForm::Hex) => Ok(text.parse()?),
            Some(HashForm::Prefixed) => prefixed(text).ok_or(FormError::Shape(HashForm::Prefixed))?,
            Some(form @ (HashForm::Decimal | HashForm::Signed)) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                    return Err(FormError::Shape(form));
                }
                of_decimal(digits, digits.len() < text.len(), form)
            }
            Some(HashForm::Base64) => of_base64(text, false).ok_or(FormError::Shape(HashForm::Base64)),
        }
    }

    /// The hash that a number of JSON is in this form, which must be named.
    ///
    /// # Errors
    /// [`FormError`]
    pub fn read_number(number: i128, form: Option<HashForm>) -> Result<Hash, FormError> {
        let form = form.ok_or(FormError::Number)?;
        if !matches!(form, HashForm::Decimal | HashForm::Signed) {
            return Err(FormError::Shape(form));
        }
        of_decimal(&number.unsigned_abs().to_string(), number < 0, form)
    }

    /// A hash in this form.
    pub fn write(self, hash: Hash) -> String {
        let bits = hash.width().bits();
        let mut bytes = Vec::with_capacity(bits as usize / 8);
        hash.write_bytes(&mut bytes);
        // Without zeros a small number would be read as a narrower hash.
        let narrower = WIDTHS.iter().rev().find(|(width, _)| *width < hash.width());
        let least = |number: &Number| {
            narrower.filter(|(width, _)| is_within(number, width.bits())).map_or(0, |(_, digits)| digits + 1)
        };
        self.written(&bytes, bits, least)
    }

    /// A hash of any width in this form; numbers have no zeros before them.
    pub fn write_wide(self, hash: WideHash) -> String {
        let bits: Vec<bool> = hash.bits().collect();
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        let bytes: Vec<u8> = bits.rchunks(8).rev().map(byte).collect();
        match self {
            // The number of digits is that of the bits, which need not fill bytes.
            HashForm::Hex => hash.to_string(),
            HashForm::Prefixed => format!("0x{hash}"),
            form => form.written(&bytes, hash.width(), |_| 0),
        }
    }

    /// The big-endian bytes of a hash in this form. `least` returns the least number of decimal digits.
    fn written(self, bytes: &[u8], bits: u32, least: impl Fn(&Number) -> usize) -> String {
        let padded = |sign: &str, number: Number| {
            format!("{sign}{:0>least$}", decimal(number), least = least(&number))
        };
        match self {
            HashForm::Hex => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            HashForm::Prefixed => format!("0x{}", HashForm::Hex.written(bytes, bits, least)),
            HashForm::Decimal => padded("", number(bytes)),
            HashForm::Signed => match number(bytes) {
                positive if is_within(&positive, bits - 1) => padded("", positive),
                negative => padded("-", complement(negative, bits)),
            },
            HashForm::Base64 => to_base64(bytes),
        }
    }
}

impl fmt::Display for HashForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = HashForm::NAMES.iter().find(|(_, form)| form == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for HashForm {
    type Err = NoForm;

    fn from_str(name: &str) -> Result<HashForm, NoForm> {
        let found = HashForm::NAMES.iter().find(|(other, _)| *other == name);
        found.map(|(_, form)| *form).ok_or_else(|| NoForm(name.chars().take(40).collect()))
    }
}

/// The hash that a text is in a form that needs no name, and that is not as many hexadecimal digits as a hash
/// has.
#[cold]
fn unnamed(text: &str, error: HashError) -> Result<Hash, FormError> {
    // Base64 may begin with `0x`, too; it ends with padding, which is no digit.
    if let Some(hash) = of_base64(text, true) {
        return Ok(hash);
    }
    if let Some(hash) = prefixed(text) {
        return hash;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_decimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    Err(if is_decimal { FormError::Unnamed } else { FormError::Unknown(error) })
}

/// The hash of the digits after `0x`, of which leading zeros may be missing; `None` without `0x`.
fn prefixed(text: &str) -> Option<Result<Hash, FormError>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let width = WIDTHS.iter().map(|(width, _)| width.digits()).find(|width| *width >= digits.len());
    let width = width.filter(|_| !digits.is_empty() && digits.is_ascii()).unwrap_or(digits.len());
    Some(format!("{digits:0>width$}").parse().map_err(FormError::Hex))
}

/// The hash with this value. Its width is the smallest one with so many digits.
fn of_decimal(digits: &str, is_negative: bool, form: HashForm) -> Result<Hash, FormError> {
    let mut number = [0; 4];
    for digit in digits.bytes() {
        add_digit(&mut number, digit - b'0').ok_or(FormError::TooLarge)?;
    }
    let fits = |(width, most): &&(Width, usize)| digits.len() <= *most && is_within(&number, width.bits());
    let (width, _) = WIDTHS.iter().find(fits).ok_or(FormError::TooLarge)?;
    let bits = width.bits();
    if form == HashForm::Decimal && is_negative {
        return Err(FormError::Negative);
    }
    if form == HashForm::Signed {
        let positive = if is_negative { complement(number, bits) } else { number };
        // Of numbers that are equal to their complement, 0 is positive and the smallest one is negative.
        let is_upper = !is_within(&positive, bits - 1);
        if is_upper != is_negative && number != [0; 4] {
            return Err(FormError::Unsigned(bits));
        }
        number = positive;
    }
    let bytes: Vec<u8> = number.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
    Hash::from_bytes(&bytes[bytes.len() - width.bytes()..]).ok_or(FormError::TooLarge)
}

/// Appends a decimal digit; `None` if the number becomes too large.
fn add_digit(number: &mut Number, digit: u8) -> Option<()> {
    let mut carry = u128::from(digit);
    for limb in number {
        let sum = u128::from(*limb) * 10 + carry;
        (*limb, carry) = (sum as u64, sum >> 64);
    }
    (carry == 0).then_some(())
}

/// The decimal digits.
fn decimal(mut number: Number) -> String {
    /// The largest power of ten in a limb, and its digits.
    const POWER: (u128, usize) = (10_000_000_000_000_000_000, 19);
    let mut digits = String::new();
    while number != [0; 4] {
        let mut rest = 0;
        for limb in number.iter_mut().rev() {
            let whole = rest << 64 | u128::from(*limb);
            (*limb, rest) = ((whole / POWER.0) as u64, whole % POWER.0);
        }
        digits = format!("{rest:0width$}{digits}", width = POWER.1);
    }
    let start = digits.find(|digit| digit != '0').unwrap_or(digits.len());
    if start == digits.len() { "0".to_owned() } else { digits.split_off(start) }
}

/// The number of big-endian bytes.
fn number(bytes: &[u8]) -> Number {
    let mut number = [0; 4];
    for (place, byte) in bytes.iter().rev().enumerate() {
        number[place / 8] |= u64::from(*byte) << (place % 8 * 8);
    }
    number
}

/// Whether the number has at most this many bits.
fn is_within(number: &Number, bits: u32) -> bool {
    number.iter().zip(0..).all(|(limb, place)| {
        let own = bits.saturating_sub(64 * place);
        own >= 64 || limb >> own == 0
    })
}

/// 2 to the power of `bits`, minus the number.
fn complement(number: Number, bits: u32) -> Number {
    let mut carry = true;
    let mut negated = number.map(|limb| {
        let (limb, is_over) = (!limb).overflowing_add(u64::from(carry));
        carry = is_over;
        limb
    });
    for (limb, place) in negated.iter_mut().zip(0..) {
        let own = bits.saturating_sub(64 * place);
        *limb &= if own >= 64 { u64::MAX } else { (1 << own) - 1 };
    }
    negated
}

/// The characters of base64.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Big-endian bytes as base64 of the same bytes with the least significant first.
fn to_base64(bytes: &[u8]) -> String {
    let little: Vec<u8> = bytes.iter().rev().copied().collect();
    let mut text = String::new();
    for three in little.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let character = BASE64[(group >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(character) } else { '=' });
        }
    }
    text
}

/// The hash that the text is in base64, in the characters for texts or for URLs; `None` if it is no hash. The
/// padding may be missing unless it is needed.
fn of_base64(text: &str, needs_padding: bool) -> Option<Hash> {
    let digits = text.trim_end_matches('=');
    let padding = (4 - digits.len() % 4) % 4;
    let found = text.len() - digits.len();
    if found != padding && (needs_padding || found > 0) {
        return None;
    }
    let (mut little, mut group, mut bits) = (Vec::new(), 0_u32, 0);
    for character in digits.bytes() {
        let character = match character {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        };
        let value = BASE64.iter().position(|own| *own == character)?;
        (group, bits) = (group << 6 | value as u32, bits + 6);
        if bits >= 8 {
            bits -= 8;
            little.push((group >> bits) as u8);
            group &= (1 << bits) - 1;
        }
    }
    // Bits that are not part of a byte are zero, so that a hash has one spelling.
    let big: Vec<u8> = little.into_iter().rev().collect();
    Hash::from_bytes(&big).filter(|_| group == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMED: [Option<HashForm>; 5] = [
        Some(HashForm::Hex),
        Some(HashForm::Prefixed),
        Some(HashForm::Decimal),
        Some(HashForm::Signed),
        Some(HashForm::Base64),
    ];

    #[test]
    fn texts_are_read_in_their_forms() {
        use HashForm::{Base64, Decimal, Hex, Prefixed, Signed};
        let hash = |digits: &str| Ok(digits.parse::<Hash>().unwrap());
        let (upper, one) = ("f776119227163845", "0000000000000001");
        let wide = "000000000000000000000000000000ff";
        let shape = |form| Err(FormError::Shape(form));
        let two_to_128 = "0000000000000000000000000000000100000000000000000000000000000000";
        let two_to_256 = "115792089237316195423570985008687907853269984665640564039457584007913129639936";
        let cases = [
            // The form is not named.
            (upper, None, hash(upper)),
            ("0xF776119227163845", None, hash(upper)),
            ("0x1", None, hash(one)),
            ("0x10000000000000000", None, hash("00000000000000010000000000000000")),
            ("RTgWJ5IRdvc=", None, hash(upper)),
            ("/wAAAAAAAAAAAAAAAAAAAA==", None, hash(wide)),
            ("_wAAAAAAAAAAAAAAAAAAAA==", None, hash(wide)),
            ("1234567890123456", None, hash("1234567890123456")),
            ("17831459094038722629", None, Err(FormError::Unnamed)),
            ("-1", None, Err(FormError::Unnamed)),
            ("7", None, Err(FormError::Unnamed)),
            ("RTgWJ5IRdvc", None, Err(FormError::Unknown(HashError::Digit { position: 1, found: 'R' }))),
            ("", None, Err(FormError::Unknown(HashError::Length(0)))),
            ("-", None, Err(FormError::Unknown(HashError::Digit { position: 1, found: '-' }))),
            ("0x", None, Err(FormError::Hex(HashError::Length(0)))),
            ("0xg", None, Err(FormError::Hex(HashError::Digit { position: 16, found: 'g' }))),
            // The form is named.
            (upper, Some(Hex), hash(upper)),
            ("RTgWJ5IRdvc=", Some(Hex), Err(FormError::Hex(HashError::Digit { position: 1, found: 'R' }))),
            ("0xff", Some(Prefixed), hash("00000000000000ff")),
            (upper, Some(Prefixed), shape(Prefixed)),
            ("17831459094038722629", Some(Decimal), hash(upper)),
            ("1234567890123456", Some(Decimal), hash("000462d53c8abac0")),
            ("000000000000000000001", Some(Decimal), hash("00000000000000000000000000000001")),
            ("18446744073709551615", Some(Decimal), hash("ffffffffffffffff")),
            ("18446744073709551616", Some(Decimal), hash("00000000000000010000000000000000")),
            ("340282366920938463463374607431768211455", Some(Decimal), hash(&"f".repeat(32))),
            ("340282366920938463463374607431768211456", Some(Decimal), hash(two_to_128)),
            (two_to_256, Some(Decimal), Err(FormError::TooLarge)),
            ("0xgKAAAAAAA=", None, hash("00000000000a18d3")),
            (&"9".repeat(99), Some(Decimal), Err(FormError::TooLarge)),
            ("-1", Some(Decimal), Err(FormError::Negative)),
            ("1.5", Some(Decimal), shape(Decimal)),
            ("+1", Some(Decimal), shape(Decimal)),
            ("", Some(Decimal), shape(Decimal)),
            ("-615284979670828987", Some(Signed), hash(upper)),
            ("-1", Some(Signed), hash("ffffffffffffffff")),
            ("0", Some(Signed), hash("0000000000000000")),
            ("-0", Some(Signed), hash("0000000000000000")),
            ("-9223372036854775808", Some(Signed), hash("8000000000000000")),
            ("9223372036854775807", Some(Signed), hash("7fffffffffffffff")),
            ("9223372036854775808", Some(Signed), Err(FormError::Unsigned(64))),
            ("-9223372036854775809", Some(Signed), Err(FormError::Unsigned(64))),
            ("-000000000000000000001", Some(Signed), hash(&"f".repeat(32))),
            ("--1", Some(Signed), shape(Signed)),
            ("RTgWJ5IRdvc", Some(Base64), hash(upper)),
            ("RTgWJ5IRdvc==", Some(Base64), shape(Base64)),
            ("RTgWJ5IRdvd=", Some(Base64), shape(Base64)),
            ("RTgWJ5IRdg==", Some(Base64), shape(Base64)),
            (upper, Some(Base64), shape(Base64)),
        ];
        for (text, form, expected) in cases {
            assert_eq!(HashForm::read(text, form), expected, "{text:?} {form:?}");
        }
    }

    #[test]
    fn numbers_of_json_are_read_exactly() {
        let hash = |value: u64| Ok(Hash::from_u64(value));
        let cases = [
            (0, None, Err(FormError::Number)),
            (0, Some(HashForm::Decimal), hash(0)),
            (i128::from(u64::MAX), Some(HashForm::Decimal), hash(u64::MAX)),
            ((1 << 53) + 1, Some(HashForm::Signed), hash((1 << 53) + 1)),
            (i128::from(i64::MIN), Some(HashForm::Signed), hash(1 << 63)),
            (-1, Some(HashForm::Signed), hash(u64::MAX)),
            (-1, Some(HashForm::Decimal), Err(FormError::Negative)),
            (1 << 63, Some(HashForm::Signed), Err(FormError::Unsigned(64))),
            (255, Some(HashForm::Hex), Err(FormError::Shape(HashForm::Hex))),
        ];
        for (number, form, expected) in cases {
            assert_eq!(HashForm::read_number(number, form), expected, "{number} {form:?}");
        }
    }

    #[test]
    fn hashes_of_any_width_are_written() {
        let hash = |digits: &str, width| WideHash::parse(digits, width).unwrap();
        let cases = [
            ("27", 6, ["27", "0x27", "39", "-25", "Jw=="]),
            ("07", 6, ["07", "0x07", "7", "7", "Bw=="]),
            ("00ff", 16, ["00ff", "0x00ff", "255", "255", "/wA="]),
        ];
        for (digits, width, expected) in cases {
            let written = HashForm::NAMES.map(|(_, form)| form.write_wide(hash(digits, width)));
            assert_eq!(written, expected, "{digits}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for (name, form) in HashForm::NAMES {
            assert_eq!((form.to_string().as_str(), name.parse()), (name, Ok(form)));
        }
        assert!("Hex".parse::<HashForm>().is_err() && "".parse::<HashForm>().is_err());
    }

    /// Values at the ends of ranges, and any others.
    fn hashes() -> impl Strategy<Value = Hash> {
        let edges = |value: u128| [value.wrapping_sub(1), value, value + 1];
        let edges: Vec<u128> = [0, 1 << 63, 1 << 64, 10_u128.pow(15), 10_u128.pow(20), 1 << 127]
            .into_iter()
            .flat_map(edges)
            .collect();
        let value = prop_oneof![
            proptest::sample::select(edges),
            any::<u128>(),
            any::<u64>().prop_map(u128::from),
            (any::<u128>(), 0..128_u32).prop_map(|(value, shift)| value >> shift),
        ];
        (value, any::<u128>(), 0..3_u8).prop_map(|(value, upper, width)| match width {
            0 => Hash::from_u64(value as u64),
            1 => Hash::from_u128(value),
            _ => Hash::from_bytes(&[upper.to_be_bytes(), value.to_be_bytes()].concat()).unwrap(),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn every_hash_is_read_back_from_every_form(hash in hashes()) {
            for form in NAMED {
                let text = form.unwrap().write(hash);
                prop_assert_eq!(HashForm::read(&text, form), Ok(hash), "{} {:?}", text, form);
            }
            for form in [HashForm::Hex, HashForm::Prefixed, HashForm::Base64] {
                prop_assert_eq!(HashForm::read(&form.write(hash), None), Ok(hash), "{:?}", form);
            }
        }

        #[test]
        fn numbers_are_those_of_the_machine(value in any::<u128>(), narrow in any::<u64>()) {
            let value = value | 1 << 127;
            let (wide, hash) = (Hash::from_u128(value), Hash::from_u64(narrow));
            let signed = value.cast_signed();
            prop_assert_eq!(HashForm::Decimal.write(wide), value.to_string());
            if signed.unsigned_abs() >> 64 > 0 {
                prop_assert_eq!(HashForm::Signed.write(wide), signed.to_string());
            }
            prop_assert_eq!(HashForm::Decimal.write(hash), narrow.to_string());
            prop_assert_eq!(HashForm::Signed.write(hash), narrow.cast_signed().to_string());
        }

        #[test]
        fn a_text_is_a_hash_without_a_named_form_only_if_no_other_form_takes_it(
            text in "[-0-9a-fA-F]{0,68}|(0x)?[0-9a-f]{1,66}|[A-Za-z0-9+/_-]{10,44}={0,2}|-?[0-9]{1,80}",
        ) {
            if let Ok(hash) = HashForm::read(&text, None) {
                let is_padded = text.ends_with('=');
                let forms = [HashForm::Hex, HashForm::Prefixed, HashForm::Base64];
                let forms = forms.into_iter().filter(|form| *form != HashForm::Base64 || is_padded);
                let of = |form: HashForm| HashForm::read(&text, Some(form)).ok();
                prop_assert!(forms.filter_map(of).all(|found| found == hash), "{}", text);
            }
        }
    }
}
