//! The forms of the comparison, one of which is chosen at run time.
//!
//! Work is compiled once per form, with the instructions of the form, so a choice costs one branch per work.
//!
//! *Absent*: the comparisons themselves ([`super::Compare`]).

use std::sync::atomic::{AtomicU8, Ordering};

use super::{Compare, Portable};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::{avx2, avx512};

/// The instructions with which hashes are compared. A form changes the speed of answers, never the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// AVX-512 with `VPOPCNTDQ` and `BITALG`: x86-64 servers of Intel since 2021 and of AMD since 2022.
    Avx512,
    /// AVX2: x86-64 servers since 2015.
    Avx2,
    /// No vectors: every processor.
    Scalar,
}

impl Form {
    /// All forms, the fastest first.
    pub const ALL: [Form; 3] = [Form::Avx512, Form::Avx2, Form::Scalar];

    /// The fastest form that this processor has.
    #[inline]
    pub fn best() -> Form {
        *Form::ALL.iter().find(|form| form.is_supported()).unwrap_or(&Form::Scalar)
    }

    /// Whether this processor has the instructions.
    #[inline]
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Form::Avx512 => avx512::is_supported(),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Form::Avx2 => avx2::is_supported(),
            Form::Scalar => true,
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            _ => false,
        }
    }

    /// The form of this name: `avx512`, `avx2` or `scalar`.
    pub fn named(name: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Form::Avx512 => "avx512",
            Form::Avx2 => "avx2",
            Form::Scalar => "scalar",
        }
    }
}

/// The form of [`with_best`] and of new indexes, plus one; 0 before it was needed.
static PREFERRED: AtomicU8 = AtomicU8::new(0);

impl Form {
    /// The form that new indexes use, and everything that is not a query: the best one of this processor, or
    /// the one of [`Form::prefer`].
    #[inline]
    pub fn preferred() -> Form {
        match PREFERRED.load(Ordering::Relaxed) {
            0 => {
                Form::best().prefer();
                Form::best()
            }
            number => Form::ALL[usize::from(number - 1)],
        }
    }

    /// Makes this form the preferred one in this process. Returns whether the processor has it; otherwise
    /// nothing changes.
    pub fn prefer(self) -> bool {
        if self.is_supported() {
            PREFERRED.store(self as u8 + 1, Ordering::Relaxed);
        }
        self.is_supported()
    }
}

/// Work that compares lines.
pub(crate) trait Work {
    type Output;

    /// Does the work. Implementations must be `#[inline(always)]`: the work is then compiled once per
    /// comparison, with the instructions of that comparison.
    fn run<C: Compare>(self, compare: C) -> Self::Output;
}

/// Does the work with the comparison of a form. A form that this processor does not have is replaced by the
/// portable one.
#[inline]
pub(crate) fn with_form<T: Work>(form: Form, work: T) -> T::Output {
    // In a model, other threads may run between the loads of two cells.
    #[cfg(test)]
    if crate::model::is_running() {
        return work.run(Portable);
    }
    match form {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Form::Avx512 if avx512::is_supported() => {
            // SAFETY: the processor has the instructions that the function is compiled with.
            unsafe { avx512::run(work) }
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Form::Avx2 if avx2::is_supported() => {
            // SAFETY: the processor has the instructions that the function is compiled with.
            unsafe { avx2::run(work) }
        }
        _ => work.run(Portable),
    }
}

/// Does the work with the preferred form.
#[inline]
pub(crate) fn with_best<T: Work>(work: T) -> T::Output {
    with_form(Form::preferred(), work)
}
