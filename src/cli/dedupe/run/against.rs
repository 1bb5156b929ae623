//! The documents of `--against`: those of files, of collections that were fetched into files, and of indexes.

use std::sync::atomic::Ordering;

use super::super::super::Failure;
use super::super::progress::bar;
use super::super::reader::Reader;
use super::super::record::Maker;
use super::super::spool::Kind;

use super::{Run, refusal, show_invalid, unchanged};

impl Run<'_> {
    /// Reads the documents of `--against`: all of them count as kept, and none is written.
    pub(super) fn read_against(&mut self) -> Result<(), Failure> {
        let bar = bar("against", self.against.inputs.bytes());
        let (files, exported) = self.against.inputs.files.split_at(self.against.exported_from);
        let plain = self.maker.of_against();
        let of_server = Maker { is_exported: true, charset: None, ..plain.clone() };
        let (mut invalid, mut first) = (0, 0);
        for (files, maker) in [(files, plain), (exported, of_server)] {
            let reader = Reader { inputs: files, maker: &maker, ..self.reader(&[], 0) };
            reader.each(|records| {
                bar.set_position(reader.passed.load(Ordering::Relaxed));
                self.check_stop()?;
                for (raw, made) in records {
                    let file = first + raw.file as usize;
                    if let Some(unread) = made.unread.filter(|unread| !unread.reason.is_passed_over()) {
                        invalid += 1;
                        bar.suspend(|| {
                            show_invalid(&self.against.names[file], raw.line, &unread.detail, invalid);
                        });
                    }
                    let Some(stored) = made.stored.filter(|stored| stored.kind == Kind::Document) else {
                        continue;
                    };
                    if let Some(kept) = &mut self.kept {
                        kept.keep((self.against_prints.len(), &stored.print));
                    }
                    self.texts.as_ref().map_or(Ok(()), |texts| texts.push(made.text.as_deref()))?;
                    self.against_prints.push(&stored, 0)?;
                    self.names.push(file as u32, raw.line, made.id.as_deref(), false)?;
                }
                Ok(())
            })?;
            first += files.len();
        }
        bar.finish_and_clear();
        self.read_indexes()?;
        unchanged(&self.against.inputs.files)?;
        if invalid > 0 && !self.arguments.read.skip_invalid {
            return Err(refusal(invalid, " of --against"));
        }
        Ok(())
    }

    /// Reads the documents of indexes: they count as kept, as those of files do.
    fn read_indexes(&mut self) -> Result<(), Failure> {
        let indexes = &self.against.indexes;
        let before = self.against_prints.len();
        let of_indexes: usize = indexes.iter().map(|index| index.about.files.len()).sum();
        let mut first = (self.against.names.len() - of_indexes) as u32;
        for index in indexes {
            let (prints, names) = index.read()?;
            for number in 0..prints.len() {
                if number.is_multiple_of(1 << 10) {
                    self.check_stop()?;
                }
                let stored = prints.get(number)?;
                if stored.kind != Kind::Document {
                    continue;
                }
                if let Some(kept) = &mut self.kept {
                    kept.keep((self.against_prints.len(), &stored.print));
                }
                self.texts.as_ref().map_or(Ok(()), |texts| texts.push(None))?;
                self.against_prints.push(&stored, 0)?;
                let name = names.get(number)?;
                self.names.push(first + name.file, name.line, name.id.as_deref(), false)?;
            }
            first += index.about.files.len() as u32;
        }
        self.of_indexes = before..self.against_prints.len();
        Ok(())
    }
}
