//! The addresses at which the parts of a file are mapped.

use super::backing::error_of;
use super::extents::Extent;
use super::pool::Pool;
use crate::error::{Error, FileError};
use rustix::mm::{MapFlags, ProtFlags};

impl Pool {
    /// Maps an extent at an address that a region has reserved.
    pub(super) fn map(&self, address: *mut u8, extent: &Extent) -> Result<(), Error> {
        if self.forced().is_some() && extent.end() > self.actual_bytes()? {
            return self.map_rest(address, extent);
        }
        let flags = self.backing.map_flags() | MapFlags::FIXED;
        // SAFETY: the addresses are a region's own, and nothing is mapped there yet.
        let mapped = unsafe {
            rustix::mm::mmap(
                address.cast(),
                extent.bytes(),
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                self.backing.file(),
                extent.offset(),
            )
        };
        mapped.map_err(|error| error_of("map the file", error))?;
        if self.wanted.huge_pages {
            // SAFETY: just mapped; the advice changes no content. A kernel or file system without
            // huge pages refuses it, which changes nothing.
            let _ = unsafe {
                let advice = rustix::mm::Advice::LinuxHugepage;
                rustix::mm::madvise(address.cast(), extent.bytes(), advice)
            };
        }
        self.backing.mapped(address.addr(), extent.bytes(), extent.offset());
        Ok(())
    }

    /// Maps memory of this process, which reads as zero.
    pub(super) fn map_private(&self, address: *mut u8, bytes: usize) -> Result<(), Error> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the addresses are a region's own, and nothing there is in use: they lie behind what is
        // committed, or their contents were given up.
        let mapped = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap_anonymous(address.cast(), bytes, access, flags)
        };
        mapped.map(drop).map_err(|_| Error::OutOfMemory { bytes })
    }

    /// Maps as much of an extent as the file still has. The rest reads as zero.
    fn map_rest(&self, address: *mut u8, extent: &Extent) -> Result<(), Error> {
        let (access, fixed) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        let failed = |error| error_of("map the file", error);
        self.map_private(address, extent.bytes())?;
        let rest = self.actual_bytes()?.saturating_sub(extent.offset());
        if rest > 0 {
            // A page that the file ends in reads as zero behind its end.
            let rest = (rest as usize).min(extent.bytes());
            let file = self.backing.file();
            // SAFETY: the first of the addresses that were just mapped.
            let mapped = unsafe {
                rustix::mm::mmap(address.cast(), rest, access, fixed, file, extent.offset())
            };
            mapped.map_err(failed)?;
        }
        Ok(())
    }

    /// Adds to an error where in the file it was noticed, which is mapped at this address.
    pub(crate) fn locate<T>(&self, address: *const T, error: Error) -> Error {
        let Error::File(
            FileError::Corrupt { at: None, .. } | FileError::Undecodable { at: None, .. },
        ) = error
        else {
            return error;
        };
        let address = address.addr();
        let regions = self.regions.lock();
        let region = regions.iter().find(|(_, range)| range.contains(&address));
        let at = region.and_then(|(part, range)| {
            let mut before = (address - range.start) as u64;
            self.extents.lock().of(*part).find_map(|extent| {
                let bytes = extent.bytes() as u64;
                let is_here = before < bytes;
                let byte = is_here.then(|| extent.offset() + before);
                before = before.saturating_sub(bytes);
                byte
            })
        });
        match error {
            Error::File(FileError::Corrupt { what, .. }) => FileError::Corrupt { what, at }.into(),
            Error::File(FileError::Undecodable { what, .. }) => {
                FileError::Undecodable { what, at }.into()
            }
            other => other,
        }
    }

    /// Reads a mapped range from the disk if need be, and maps its pages at once.
    pub(crate) fn populate(&self, address: *const u8, bytes: usize) {
        let page = rustix::param::page_size();
        let first = address.addr() / page * page;
        // SAFETY: the range is mapped; the advice changes no content. A kernel that
        // does not know it refuses it.
        let _ = unsafe {
            let start = address.with_addr(first).cast_mut().cast();
            let bytes = address.addr() + bytes - first;
            rustix::mm::madvise(start, bytes, rustix::mm::Advice::LinuxPopulateRead)
        };
    }
}
