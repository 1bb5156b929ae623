//! A sample of texts from a stream of unknown length, in bounded memory.
//!
//! After Vitter, "Random sampling with a reservoir" (ACM Transactions on Mathematical Software 11, 1985),
//! algorithm R: every text of the stream is in the sample with the same probability. Guarantees: the same
//! stream and seed give the same sample. Not here: the source of the stream.

use crate::random::Random;

/// A sample that is being collected.
#[derive(Debug)]
pub struct Sample {
    texts: Vec<String>,
    /// The maximum number of texts. It decreases when the texts are too long.
    capacity: usize,
    bytes: usize,
    most_bytes: usize,
    offered: usize,
    random: Random,
}

impl Sample {
    /// A sample of at most `texts` texts with at most `bytes` bytes in total. A single text may exceed
    /// `bytes`.
    pub fn new(texts: usize, bytes: usize, seed: u64) -> Sample {
        let random = Random(seed);
        Sample { texts: Vec::new(), capacity: texts, bytes: 0, most_bytes: bytes, offered: 0, random }
    }

    /// Offers the next text of the stream.
    pub fn offer(&mut self, text: String) {
        self.offered += 1;
        if self.texts.len() < self.capacity {
            self.bytes += text.len();
            self.texts.push(text);
        } else {
            let at = self.random.below(self.offered);
            let Some(place) = self.texts.get_mut(at) else { return };
            self.bytes = self.bytes - place.len() + text.len();
            *place = text;
        }
        // A random part of a sample is again a sample of the same stream, so the texts to remove are chosen
        // at random.
        while self.bytes > self.most_bytes && self.texts.len() > 1 {
            let at = self.random.below(self.texts.len());
            self.bytes -= self.texts.swap_remove(at).len();
            self.capacity = self.texts.len();
        }
    }

    /// The texts.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_has_the_same_probability() {
        let mut counts = [0_u32; 40];
        for seed in 0..4_000 {
            let mut sample = Sample::new(10, 1_000, seed);
            (0..40).for_each(|n| sample.offer(format!("{n}")));
            let texts = sample.into_texts();
            assert_eq!(texts.len(), 10);
            texts.iter().for_each(|text| counts[text.parse::<usize>().unwrap()] += 1);
        }
        // 1,000 each are expected; the standard deviation is 27.
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_sample_stays_within_its_bounds() {
        let mut sample = Sample::new(100, 1_000, 1);
        for n in 0..1_000 {
            sample.offer("x".repeat(1 + n % 90));
            assert!(sample.bytes <= 1_000);
        }
        let texts = sample.into_texts();
        assert!(texts.len() > 10 && texts.iter().map(String::len).sum::<usize>() <= 1_000);
        let mut one = Sample::new(3, 10, 1);
        one.offer("x".repeat(50));
        assert_eq!(one.into_texts().len(), 1);
    }
}
