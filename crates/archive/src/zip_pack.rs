//! Packing as zip, for peers of the released dialect: one folder for each resource at the top.

use std::io::{self, Read, Seek, Write};

use zip::{CompressionMethod, ZipWriter, result::ZipError, write::FullFileOptions};

use crate::{
    ArchiveError, Content, Entry, EntryPath, Folder, Kind, LeftOut, Limits, Manifest, Mtime,
    Problem, Why,
    checksum::Summing,
    error::{failed, writing},
    pack::Budget,
    path::Target,
    walk::{Found, Ignore, walk},
};

/// The extra field of Info-ZIP with the exact time; the format's own has no time zone and two seconds.
const EXTENDED_TIMESTAMP: u16 = 0x5455;

/// Packs each folder below its name. Modes, links, whole seconds and empty folders are kept.
///
/// The manifest holds the paths as they are in the archive.
pub fn pack_zip(
    resources: &[(&str, &Folder)],
    ignore: Ignore<'_>,
    limits: &Limits,
    sink: impl Write + Seek,
) -> Result<(Manifest, Vec<LeftOut>), ArchiveError> {
    let mut writer = ZipWriter::new(sink);
    let mut manifest = Manifest::default();
    let mut left_out = Vec::new();
    let mut budget = Budget::new(limits);
    for (resource, folder) in resources {
        let top = EntryPath::parse(resource.as_bytes(), limits)?;
        let top = top.filter(|top| top.parts().count() == 1);
        let top = top.ok_or_else(|| Problem::Path {
            name: (*resource).to_owned(),
            why: "a resource has one plain name",
        })?;
        let options = options(0o755, Mtime::default()).map_err(zipping)?;
        let added = writer.add_directory(format!("{resource}/"), options);
        added.map_err(zipping)?;
        let mut no_text = Vec::new();
        let left = walk(folder, ignore, limits, &mut |found: Found<'_>| {
            let path = EntryPath::below(Some(&top), found.path.as_bytes());
            let Ok(name) = str::from_utf8(path.as_bytes()) else {
                no_text.push(LeftOut {
                    path: found.path.clone(),
                    why: Why::NoText,
                });
                return Ok(());
            };
            if let Some(entry) = add(&mut writer, name, &found, &mut budget)? {
                manifest.entries.insert(path, entry);
            } else {
                no_text.push(LeftOut {
                    path: found.path.clone(),
                    why: Why::NoText,
                });
            }
            Ok(())
        })?;
        left_out.extend(left);
        left_out.extend(no_text);
    }
    let mut sink = writer.finish().map_err(zipping)?;
    sink.flush().map_err(writing)?;
    Ok((manifest, left_out))
}

/// None: a link whose target is no text.
fn add<W: Write + Seek>(
    writer: &mut ZipWriter<W>,
    name: &str,
    found: &Found<'_>,
    budget: &mut Budget<'_>,
) -> Result<Option<Entry>, ArchiveError> {
    let path = found.path;
    let (mut mode, mut mtime) = (found.looked.mode, found.looked.mtime);
    let content = match found.kind {
        Kind::Dir => {
            let options = options(mode, mtime).map_err(zipping)?;
            let added = writer.add_directory(format!("{name}/"), options);
            added.map_err(zipping)?;
            Content::Dir
        }
        Kind::Link => {
            let target = found.folder.link_target(found.name);
            let target = target.map_err(failed("read", path))?;
            let Ok(text) = str::from_utf8(&target) else {
                return Ok(None);
            };
            let options = options(0o777, mtime).map_err(zipping)?;
            writer.add_symlink(name, text, options).map_err(zipping)?;
            Content::Link {
                target: Target(target),
            }
        }
        Kind::File => {
            let opened = found.folder.read(found.name);
            let (file, looked) = opened.map_err(failed("open", path))?;
            budget.take(path, looked.size)?;
            (mode, mtime) = (looked.mode, looked.mtime);
            let options = options(mode, mtime).map_err(zipping)?;
            let options = options.large_file(looked.size >= u32::MAX.into());
            writer.start_file(name, options).map_err(zipping)?;
            let mut summing = Summing::new(file.take(looked.size));
            io::copy(&mut summing, writer).map_err(writing)?;
            let (_, hash, size) = summing.finish();
            if size != looked.size {
                return Err(ArchiveError::Changed { path: path.clone() });
            }
            Content::File { size, hash }
        }
    };
    Ok(Some(Entry {
        mode,
        mtime,
        content,
    }))
}

fn options(mode: u32, mtime: Mtime) -> Result<FullFileOptions<'static, 'static>, ZipError> {
    let mut options = FullFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .unix_permissions(mode);
    if let Ok(secs) = i32::try_from(mtime.secs) {
        let mut field = vec![1];
        field.extend(secs.to_le_bytes());
        options.add_extra_field(EXTENDED_TIMESTAMP, field, false)?;
    }
    Ok(options)
}

fn zipping(error: ZipError) -> ArchiveError {
    writing(error.into())
}
