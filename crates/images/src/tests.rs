//! Golden files, the twins of what is fast, and hostile files.
//!
//! The golden hashes are those of the package `pdqhash` 0.2.8 of the pixels that Pillow decodes.

use super::*;
use crate::raster::Turn;
use crate::shrink::Axis;

const MOST: u64 = 32_000_000;

/// A file of `testdata`, its PDQ and its quality by the reference, and its `phash-64`.
struct Golden(&'static str, &'static [u8], &'static str, u8, &'static str);

macro_rules! golden {
    ($($name:literal $pdq:literal $quality:literal $phash:literal)*) => {
        [$(Golden($name, include_bytes!(concat!("../testdata/", $name)), $pdq, $quality, $phash)),*]
    };
}

const GOLDEN: [Golden; 13] = golden! {
    "alpha.png" "3392bb0d9d9ecc45492166f2335999a5dd966661b35d3225cce622a5ccad555a" 100 "fdad5a52135248c7"
    "animated.gif" "1791bb9dbd8eec46006166f13799c805ec9e42711f9f3265c87c33a5880ff55a" 100 "c3adf8d21052dcc7"
    "animated.webp" "3793bb0d9d8eec47006144f13799d825d89e44713f9f3365c87623a5c80fd55a" 100 "c3adf8d2335258c3"
    "cmyk.jpg" "3793bb0ddd8eec47006144f13799f825dc8e44713f9d2365c87623a5c80fd55a" 100 "c3adf8d2335258c3"
    "color.jpg" "2793bb0ddd8ee846006144f13799f825dc9e44713f9f3365c87623a5c80fd55a" 100 "c3adf8d2335258c3"
    "grey.jpg" "2793bb0ddd8eec47006144f13799f825dc9e44713f9d2365c87623a5c80fd55a" 100 "c3adf8d2335258c3"
    "lossy.webp" "3792bb8ddd8eec47006144f03799f825d89e44713f8f3365c87627a5c00fd55a" 100 "c3adf8d2335258c3"
    "palette.png" "1791bb9dbd8eec46006166f13799c805ec9e42711f9f3265c87c33a5880ff55a" 100 "c3adf8d21052dcc7"
    "progress.jpg" "2793bb8ddd8eec46006144f13799d825dc9e44713f9f3265c87623a5c80fd55a" 100 "c3adf8d2335258c3"
    "rings.png" "37b1bf8efd8ec84e407102713f99d80ed80e4071bf8e0371c86e27f1d84ef88e" 100 "c73838c739c638c7"
    "still.gif" "37c1bb17fd8f9c66466122613f99cdc4cc9e4261db9e72a5c85622a5480fd55a" 100 "cbadf8521552a8c7"
    "turned.jpg" "24de609e866136e424ffe3349761b760f3f1490c5809d39c37f624eb65fe0a23" 100 "a4e23f6b371cc898"
    "wide.png" "33b1bf9efd8ec84e406102713f99dc0edc0e4061bf9e0371c86e23f1dc0edc8e" 100 "c73838c739c638c7"
};

fn raster(file: &[u8]) -> Raster {
    Header::read(file, MOST).and_then(Header::decode).unwrap()
}

fn distance(one: &str, other: &str) -> u32 {
    let words = one.as_bytes().chunks(16).zip(other.as_bytes().chunks(16));
    let word = |digits| u64::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
    words.map(|(one, other)| (word(one) ^ word(other)).count_ones()).sum()
}

#[test]
fn files_have_the_hashes_of_the_reference() {
    for Golden(name, file, pdq, quality, phash) in &GOLDEN {
        let raster = raster(file);
        let made = Pdq::of(&raster);
        // Decoders of lossy formats round differently.
        let most = if name.ends_with("png") || name.ends_with("gif") { 0 } else { 2 };
        assert!(distance(&made.hash().to_string(), pdq) <= most, "{name} {}", made.hash());
        assert_eq!(made.quality(), *quality, "{name}");
        assert_eq!(phash_64(&raster).to_string(), *phash, "{name}");
    }
}

/// An image of these channels, as it is stored.
fn image(width: usize, channels: usize, bytes: Vec<u8>) -> Raster {
    Raster { width, height: bytes.len() / (width * channels), channels, bytes, turn: Turn::default() }
}

fn random(width: usize, height: usize, seed: u64) -> Raster {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut value = 128_i32;
    let mut next = || {
        value = (value + random.i32(-30..=30)).clamp(0, 255);
        value as u8
    };
    image(width, 1, (0..width * height).map(|_| next()).collect())
}

const SIZES: [(usize, usize); 8] =
    [(5, 5), (64, 64), (127, 200), (128, 129), (300, 71), (640, 33), (259, 514), (1300, 1025)];

/// The filter as it is described: running means, twice along rows and columns, then the places.
fn by_passes(raster: &Raster) -> Vec<f32> {
    let (width, height) = (raster.width, raster.height);
    let pass = |image: &[f32], along_rows: bool| {
        let (lines, length) = if along_rows { (height, width) } else { (width, height) };
        let place = |line: usize, at: usize| if along_rows { line * width + at } else { at * width + line };
        let window = length.div_ceil(128);
        let mut out = vec![0.0; image.len()];
        for line in 0..lines {
            let (mut sum, mut count) = (0.0_f32, 0.0);
            for at in 0..length + window / 2 {
                if at < length {
                    sum += image[place(line, at)];
                    count += 1.0;
                }
                if at >= window {
                    sum -= image[place(line, at - window)];
                    count -= 1.0;
                }
                if at >= window / 2 {
                    out[place(line, at - window / 2)] = sum / count;
                }
            }
        }
        out
    };
    let mut image: Vec<f32> = raster.bytes.iter().map(|byte| f32::from(*byte)).collect();
    for along_rows in [true, false, true, false].into_iter().filter(|_| (width, height) != (64, 64)) {
        image = pass(&image, along_rows);
    }
    let middle = |place: usize, length: usize| ((place as f64 + 0.5) * length as f64 / 64.0) as usize;
    let place = |at: usize| image[middle(at / 64, height) * width + middle(at % 64, width)];
    (0..64 * 64).map(place).collect()
}

#[test]
fn sixteen_rows_at_a_time_equal_the_passes_bit_for_bit() {
    for (width, height) in SIZES {
        let raster = random(width, height, 7);
        let slow = by_passes(&raster);
        assert!(raster.places().as_flattened() == slow, "{width} × {height}");
        for orientation in 2..=8 {
            let turn = Turn::of(orientation);
            let shown = by_passes(&moved(&raster, turn));
            let stored = Raster { turn, bytes: raster.bytes.clone(), ..raster };
            assert!(stored.places().as_flattened() == shown, "{width} × {height}, {orientation}");
        }
    }
}

#[test]
fn one_pass_differs_from_the_four_by_rounding() {
    for (width, height) in SIZES.into_iter().filter(|size| *size != (64, 64)) {
        let raster = random(width, height, 7);
        let fast = raster.shrunk::<64>(Axis::boxes);
        for (at, (fast, slow)) in fast.as_flattened().iter().zip(by_passes(&raster)).enumerate() {
            assert!((*fast - slow).abs() < 0.01, "{width} × {height}, {at}: {fast} {slow}");
        }
    }
}

#[test]
fn the_luminance_of_four_kinds_of_pixels_is_one() {
    let grey = random(70, 90, 1);
    let of = |channels: usize, pixel: fn(u8) -> Vec<u8>| {
        image(70, channels, grey.bytes.iter().flat_map(|value| pixel(*value)).collect()).places()
    };
    let expected = grey.places();
    assert!(of(2, |grey| vec![grey, 255]) == expected && of(3, |grey| vec![grey; 3]) == expected);
    assert!(of(4, |grey| vec![grey, grey, grey, 255]) == expected);
    assert!(of(4, |_| vec![1, 2, 3, 0]) == image(70, 1, vec![255; 70 * 90]).places());
}

#[test]
fn means_keep_the_sum() {
    for (width, height) in SIZES {
        let raster = random(width, height, 9);
        let means = raster.shrunk::<32>(Axis::means);
        let mean = means.as_flattened().iter().sum::<f32>() / 1024.0;
        let all = raster.bytes.iter().map(|byte| f32::from(*byte)).sum::<f32>() / raster.bytes.len() as f32;
        assert!((mean - all).abs() < 0.05, "{width} × {height}: {mean} {all}");
    }
}

/// The pixels of a grey image, moved to where the orientation shows them.
fn moved(raster: &Raster, turn: Turn) -> Raster {
    let (width, height) = (raster.width, raster.height);
    let mirrored = |row: usize, column: usize| {
        let row = if turn.mirrors_rows { height - 1 - row } else { row };
        raster.bytes[row * width + if turn.mirrors_columns { width - 1 - column } else { column }]
    };
    if turn.transposes {
        let pixels = (0..width * height).map(|at| mirrored(at % height, at / height));
        image(height, 1, pixels.collect())
    } else {
        image(width, 1, (0..width * height).map(|at| mirrored(at / width, at % width)).collect())
    }
}

#[test]
fn an_orientation_is_that_of_moved_pixels() {
    for (orientation, (width, height)) in (1..=8).zip(SIZES) {
        let turn = Turn::of(orientation);
        let stored = random(width, height, u64::from(orientation));
        let shown = moved(&stored, turn);
        let stored = Raster { turn, ..stored };
        let near = |one: Pdq, other: Pdq| one.hash().distance(other.hash()).unwrap();
        assert!(near(Pdq::of(&stored), Pdq::of(&shown)) <= 2, "{orientation}");
        let near = phash_64(&stored).distance(phash_64(&shown)).unwrap();
        assert!(near <= 1, "{orientation}");
    }
}

#[test]
fn turned_and_mirrored_images_are_near_the_eight_hashes() {
    // Of a size of which the places are symmetric.
    let stored = random(320, 320, 3);
    // Orientations that show the image turned to the left by 0, 90, 180, 270 degrees, and mirrored.
    let turns = [1, 8, 3, 6, 4, 2, 5, 7].map(Turn::of);
    for (number, (hash, turn)) in Pdq::of(&stored).dihedral().into_iter().zip(turns).enumerate() {
        let far = Pdq::of(&moved(&stored, turn)).hash().distance(hash).unwrap();
        assert!(far <= 40, "{number}: {far}");
    }
}

#[test]
fn flat_and_small_images_have_a_low_quality() {
    let flat = Pdq::of(&image(200, 3, vec![90; 3 * 200 * 100]));
    assert_eq!(flat.quality(), 0);
    let small = Pdq::of(&image(4, 1, vec![0; 4 * 100]));
    assert_eq!((small.quality(), small.hash().value().count_ones()), (0, 0));
}

#[test]
fn every_cut_of_every_file_is_refused() {
    for Golden(name, file, ..) in &GOLDEN {
        // The second frames of animations are not read.
        let end = if name.starts_with("animated") { file.len() / 3 } else { file.len() - 30 };
        for cut in (0..end).step_by(7) {
            let refused = Header::read(&file[..cut], MOST).and_then(Header::decode);
            assert!(refused.is_err(), "{name} cut at {cut}");
        }
    }
}

#[test]
fn damaged_files_end_without_panic() {
    let mut random = fastrand::Rng::with_seed(5);
    for Golden(_, file, ..) in &GOLDEN {
        for _ in 0..300 {
            let mut file = file.to_vec();
            for _ in 0..random.usize(1..5) {
                let at = random.usize(..file.len());
                file[at] = random.u8(..);
            }
            let _ =
                Header::read(&file, 1 << 20).and_then(Header::decode).map(|raster| Pdq::of(&raster).hash());
        }
    }
}

/// A PNG header of this size without pixels.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgba);
    let mut writer = encoder.write_header().unwrap();
    writer.write_chunk(png::chunk::IDAT, &[0x78, 0x9c]).unwrap();
    drop(writer);
    file
}

#[test]
fn bombs_are_refused_by_their_header() {
    let jpeg = |width: u16, height: u16| {
        let mut file = GOLDEN[4].1.to_vec();
        let at = file.windows(2).position(|code| code == [0xff, 0xc0]).unwrap() + 5;
        file[at..at + 4].copy_from_slice(&[height.to_be_bytes(), width.to_be_bytes()].concat());
        file
    };
    let gif = |width: u16, height: u16| {
        let mut file = GOLDEN[10].1.to_vec();
        file[6..10].copy_from_slice(&[width.to_le_bytes(), height.to_le_bytes()].concat());
        file
    };
    for file in [png_of(50_000, 50_000), jpeg(50_000, 50_000), gif(50_000, 50_000)] {
        let refusal = Header::read(&file, MOST).err().unwrap().to_string();
        let words = "the image has 50000 × 50000 pixels; at most 32000000 are accepted";
        assert!(refusal.starts_with(words), "{refusal}");
    }
    // Progressive, so that coefficients take more than pixels.
    let refusal = Header::read(GOLDEN[8].1, 1000).err().unwrap();
    assert!(matches!(refusal, Refusal::Pixels { .. }), "{refusal}");
    assert_eq!(Header::read(GOLDEN[8].1, MOST).unwrap().memory(), 96 * 72 * 9);
}

/// The luminance of a thumbnail is that of the image in 8 × 8 places, whatever the file and its turn.
#[test]
fn a_thumbnail_shows_the_image_as_it_is_turned() {
    for Golden(name, file, ..) in &GOLDEN {
        let raster = raster(file);
        let jpeg = raster.thumbnail();
        assert!(jpeg.len() <= THUMBNAIL_BYTES, "{name}: {} bytes", jpeg.len());
        let small = Header::read(&jpeg, MOST).and_then(Header::decode).unwrap();
        let (width, height) = raster.shown_size();
        assert_eq!(width > height, small.width > small.height, "{name}");
        assert!(small.width.max(small.height) >= 96.min(width.max(height)), "{name}: {}", small.width);
        let places = |image: &Raster| image.shrunk::<8>(Axis::means).concat();
        for (large, small) in places(&raster).iter().zip(places(&small)) {
            assert!((large - small).abs() < 6.0, "{name}: {large} {small}");
        }
    }
}

#[test]
fn a_thumbnail_fits_for_noise_and_for_every_shape() {
    let mut random = fastrand::Rng::with_seed(7);
    for (width, height, channels) in [(500, 400, 3), (1, 3000, 4), (3000, 1, 1), (1, 1, 2), (33, 700, 3)] {
        let bytes = (0..width * height * channels).map(|_| random.u8(..)).collect();
        let jpeg = image(width, channels, bytes).thumbnail();
        assert!(!jpeg.is_empty() && jpeg.len() <= THUMBNAIL_BYTES, "{width} × {height}: {}", jpeg.len());
    }
}

/// The decoder gives wrong pixels for these files, and no error.
#[test]
fn scans_of_one_color_each_are_refused_if_colors_are_smaller() {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

    let mut random = fastrand::Rng::with_seed(3);
    let pixels: Vec<u8> = (0..64 * 64 * 3).map(|_| random.u8(..)).collect();
    let read = |has_own_scans: bool, is_progressive: bool, sampling: SamplingFactor| {
        let mut jpeg = Vec::new();
        let mut encoder = Encoder::new(&mut jpeg, 60);
        encoder.set_optimized_huffman_tables(has_own_scans);
        encoder.set_progressive(is_progressive);
        encoder.set_sampling_factor(sampling);
        encoder.encode(&pixels, 64, 64, ColorType::Rgb).unwrap();
        Header::read(&jpeg, MOST).map(drop).map_err(|refusal| refusal.to_string())
    };
    let refused = read(true, false, SamplingFactor::F_2_2).unwrap_err();
    assert!(refused.contains("save it again"), "{refused}");
    for (has_own_scans, is_progressive, sampling) in [
        (true, false, SamplingFactor::F_1_1),
        (true, true, SamplingFactor::F_2_2),
        (false, false, SamplingFactor::F_2_2),
    ] {
        assert_eq!(read(has_own_scans, is_progressive, sampling), Ok(()));
    }
}
