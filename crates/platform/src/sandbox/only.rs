//! The one program that a process without the right to run any becomes.
//!
//! A filter of calls cannot read the name of a program, but it sees the address at which the name stands. The name is put at
//! an address that is drawn from more than can ever be tried; the filter lets the call with that address pass and no
//! other. Becoming the program takes this memory away, and nothing tells the program which address it was.

use std::{
    ffi::{CString, OsStr, OsString, c_char},
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    ptr,
};

/// Addresses of a process are below this, on every processor that is known here.
const ADDRESS_BITS: u32 = 46;

/// The lowest part is what programs of a small machine are loaded into, and holds too few to hide among.
const LOWEST: u64 = 1 << 32;

/// Pages of the kernel's usual size; a larger one only maps more.
const PAGE: u64 = 4096;

/// How often another address is drawn when one is taken: next to none is.
const DRAWS_MAX: u32 = 16;

/// The name of a program at an address that nobody can guess.
#[derive(Debug)]
pub(super) struct Hidden {
    pub(super) address: u64,
}

fn drawn() -> u64 {
    let random = uuid::Uuid::new_v4().as_u128() >> 80; // These 48 bits are drawn; some of the others say which kind it is.
    let random = u64::try_from(random).expect("48 bits are fewer than 64");
    (random & ((1 << ADDRESS_BITS) - 1)) | LOWEST
}

impl Hidden {
    #[expect(
        unsafe_code,
        reason = "Memory is asked for at an address, and written to."
    )]
    pub(super) fn put(program: &Path) -> io::Result<Self> {
        let name = CString::new(program.as_os_str().as_bytes())?;
        let name = name.as_bytes_with_nul();
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for _ in 0..DRAWS_MAX {
            let address = drawn();
            let page = address & !(PAGE - 1);
            let length = usize::try_from(address - page).map_err(io::Error::other)? + name.len();
            let at =
                ptr::with_exposed_provenance_mut(usize::try_from(page).map_err(io::Error::other)?);
            // SAFETY: the flag has the call fail where something is mapped already, so nothing of ours is replaced.
            let mapped = unsafe {
                libc::mmap(
                    at,
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                )
            };
            if mapped != at {
                last = io::Error::last_os_error();
                continue;
            }
            let offset = length - name.len();
            // SAFETY: the mapping is new, ours alone, writable, and as long as the offset and the name together.
            unsafe {
                ptr::copy_nonoverlapping(name.as_ptr(), mapped.cast::<u8>().add(offset), name.len())
            };
            return Ok(Self { address });
        }
        Err(last)
    }

    /// Becomes the program; returns only if that failed.
    #[expect(
        unsafe_code,
        reason = "The call takes pointers, of which the filter knows the first."
    )]
    pub(super) fn become_it(&self, program: &OsStr, args: &[OsString]) -> io::Error {
        let texts = std::iter::once(program.to_owned()).chain(args.iter().cloned());
        let texts: Result<Vec<CString>, _> =
            texts.map(|text| CString::new(text.into_vec())).collect();
        let texts = match texts {
            Ok(texts) => texts,
            Err(error) => return error.into(),
        };
        let mut argv: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        argv.push(ptr::null());
        let Ok(address) = usize::try_from(self.address) else {
            return io::ErrorKind::InvalidInput.into();
        };
        let name = ptr::with_exposed_provenance::<c_char>(address);
        // SAFETY: name, arguments and environment end with their terminators and live until the call, which copies them.
        unsafe { libc::execve(name, argv.as_ptr(), environ) };
        io::Error::last_os_error()
    }
}

#[expect(unsafe_code, reason = "The C library's own list of variables.")]
unsafe extern "C" {
    static environ: *const *const c_char;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_addresses_are_alike() {
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| drawn()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(
            drawn
                .iter()
                .all(|it| (LOWEST..1 << ADDRESS_BITS).contains(it))
        );
    }
}
