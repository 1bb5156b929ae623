//! The header of an image: what is checked before memory is taken for pixels.

use std::fmt::Display;
use std::io::Cursor;

use image_webp::WebPDecoder;
use png::Transformations;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::exif::turn;
use crate::jpeg_frame::JpegFrame;
use crate::kinds::Kind;
use crate::raster::Turn;
use crate::{Raster, Refusal};

/// The memory that an image may take whatever its size, in bytes.
const FREE: u64 = 64 << 20;

/// An image whose header is read and whose size is allowed.
pub struct Header<'a> {
    decoder: Decoder<'a>,
    width: usize,
    height: usize,
    memory: u64,
}

enum Decoder<'a> {
    Jpeg(Box<JpegDecoder<ZCursor<&'a [u8]>>>),
    Png(Box<png::Reader<Cursor<&'a [u8]>>>),
    WebP(Box<WebPDecoder<Cursor<&'a [u8]>>>),
    Gif(Box<gif::Decoder<&'a [u8]>>),
}

impl<'a> Header<'a> {
    /// Reads the header of an image that may have `most` pixels.
    ///
    /// # Errors
    /// [`Refusal`] for what is no image of a format that is read, too large, or damaged.
    pub fn read(bytes: &'a [u8], most: u64) -> Result<Header<'a>, Refusal> {
        let kind = Kind::of(bytes)?;
        let most_memory = FREE + 4 * most;
        // The bytes for a pixel that the decoder takes besides the raster.
        let mut working = 0;
        let decoder = match kind {
            Kind::Jpeg => {
                working = JpegFrame::of(bytes)?.coefficient_bytes;
                Decoder::of_jpeg(bytes)
            }
            Kind::Png => Decoder::of_png(bytes, most_memory),
            Kind::WebP => {
                working = 4;
                let mut decoder =
                    WebPDecoder::new(Cursor::new(bytes)).map_err(|error| kind.damaged(&error))?;
                decoder.set_memory_limit(most_memory as usize);
                Ok(Decoder::WebP(Box::new(decoder)))
            }
            Kind::Gif => {
                working = 4;
                let mut options = gif::DecodeOptions::new();
                options.set_color_output(gif::ColorOutput::RGBA);
                options.check_frame_consistency(true);
                let decoder = options.read_info(bytes).map_err(|error| kind.damaged(&error))?;
                Ok(Decoder::Gif(Box::new(decoder)))
            }
        }?;
        let (width, height) = decoder.size();
        let pixels = u64::from(width) * u64::from(height);
        if pixels > most {
            return Err(Refusal::Pixels { width, height, most });
        }
        if pixels == 0 {
            return Err(kind.damaged(&"it has no pixels"));
        }
        let memory = pixels * (decoder.channels() as u64 + working);
        if memory > most_memory {
            return Err(Refusal::Memory { needed: memory, most: most_memory });
        }
        Ok(Header { decoder, width: width as usize, height: height as usize, memory })
    }

    /// The most bytes of memory that decoding takes, in addition to a few MiB.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Decodes the first frame.
    ///
    /// # Errors
    /// [`Refusal::Damaged`]
    pub fn decode(self) -> Result<Raster, Refusal> {
        let Header { decoder, width, height, .. } = self;
        let channels = decoder.channels();
        let mut bytes = vec![0; width * height * channels];
        let turn = match decoder {
            Decoder::Jpeg(mut decoder) => {
                decoder.decode_into(&mut bytes).map_err(|error| Kind::Jpeg.damaged(&error))?;
                decoder.exif().map(|exif| turn(exif))
            }
            Decoder::Png(mut reader) => {
                reader.next_frame(&mut bytes).map_err(|error| Kind::Png.damaged(&error))?;
                reader.info().exif_metadata.as_ref().map(|exif| turn(exif))
            }
            Decoder::WebP(mut decoder) => {
                decoder.read_image(&mut bytes).map_err(|error| Kind::WebP.damaged(&error))?;
                // Metadata that cannot be read say nothing about the pixels.
                decoder.exif_metadata().ok().flatten().map(|exif| turn(&exif))
            }
            Decoder::Gif(mut decoder) => {
                first_frame(&mut decoder, width, &mut bytes)?;
                None
            }
        };
        Ok(Raster { width, height, channels, bytes, turn: turn.unwrap_or(Turn::default()) })
    }
}

impl<'a> Decoder<'a> {
    fn of_jpeg(bytes: &'a [u8]) -> Result<Decoder<'a>, Refusal> {
        let options =
            DecoderOptions::default().set_strict_mode(false).set_max_width(65_535).set_max_height(65_535);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(|error| Kind::Jpeg.damaged(&error))?;
        let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
        let colors = if is_grey { ColorSpace::Luma } else { ColorSpace::RGB };
        decoder.set_options(options.jpeg_set_out_colorspace(colors));
        Ok(Decoder::Jpeg(Box::new(decoder)))
    }

    fn of_png(bytes: &'a [u8], memory: u64) -> Result<Decoder<'a>, Refusal> {
        let limits = png::Limits { bytes: memory as usize };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
        let reader = decoder.read_info().map_err(|error| Kind::Png.damaged(&error))?;
        Ok(Decoder::Png(Box::new(reader)))
    }

    fn size(&self) -> (u32, u32) {
        match self {
            Decoder::Jpeg(decoder) => {
                let info = decoder.info();
                info.map_or((0, 0), |info| (info.width.into(), info.height.into()))
            }
            Decoder::Png(reader) => reader.info().size(),
            Decoder::WebP(decoder) => decoder.dimensions(),
            Decoder::Gif(decoder) => (decoder.width().into(), decoder.height().into()),
        }
    }

    fn channels(&self) -> usize {
        match self {
            Decoder::Jpeg(decoder) => {
                if decoder.input_colorspace() == Some(ColorSpace::Luma) {
                    1
                } else {
                    3
                }
            }
            Decoder::Png(reader) => reader.output_color_type().0.samples(),
            Decoder::WebP(decoder) => {
                if decoder.has_alpha() {
                    4
                } else {
                    3
                }
            }
            Decoder::Gif(_) => 4,
        }
    }
}

impl Kind {
    pub(crate) fn damaged(self, reason: &impl Display) -> Refusal {
        Refusal::Damaged { format: self.name(), reason: reason.to_string() }
    }
}

/// Decodes the first frame onto a transparent canvas, which contains it.
fn first_frame(decoder: &mut gif::Decoder<&[u8]>, width: usize, canvas: &mut [u8]) -> Result<(), Refusal> {
    let frame = decoder.next_frame_info().map_err(|error| Kind::Gif.damaged(&error))?;
    let frame = frame.ok_or_else(|| Kind::Gif.damaged(&"it has no frame"))?;
    let [left, top, columns] = [frame.left, frame.top, frame.width].map(usize::from);
    let mut bytes = vec![0; decoder.buffer_size()];
    decoder.read_into_buffer(&mut bytes).map_err(|error| Kind::Gif.damaged(&error))?;
    for (row, pixels) in bytes.chunks_exact(4 * columns.max(1)).enumerate() {
        let at = 4 * ((top + row) * width + left);
        canvas[at..at + pixels.len()].copy_from_slice(pixels);
    }
    Ok(())
}
