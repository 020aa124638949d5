//! How long ordinary work takes on a mount over loopback: printed, and compared by nobody but a reader.

use std::{path::Path, time::Instant};

use super::support::{Host, Remote};
use crate::Access;

const FILES: usize = 1000;

fn measure(point: &Path) -> Vec<(&'static str, f64)> {
    let mut rows = Vec::new();
    let mut row = |name: &'static str, act: &mut dyn FnMut()| {
        let start = Instant::now();
        act();
        rows.push((name, start.elapsed().as_secs_f64()));
    };
    let folder = point.join("many");
    let file = |number: usize| folder.join(number.to_string());
    let large = vec![7_u8; 128 << 20];
    std::fs::create_dir(&folder).unwrap();
    row("write 128 MiB and sync", &mut || {
        use std::io::Write;
        let mut out = std::fs::File::create(point.join("large")).unwrap();
        out.write_all(&large).unwrap();
        out.sync_all().unwrap();
    });
    row("read 128 MiB", &mut || {
        // A new name, because the kernel remembers the pages of the old one.
        std::fs::rename(point.join("large"), point.join("large2")).unwrap();
        assert_eq!(
            std::fs::read(point.join("large2")).unwrap().len(),
            large.len()
        );
    });
    row("create 1000 x 1 KiB", &mut || {
        for number in 0..FILES {
            std::fs::write(file(number), [1; 1024]).unwrap();
        }
    });
    row("stat 1000", &mut || {
        for number in 0..FILES {
            file(number).metadata().unwrap();
        }
    });
    row("open and read 1000", &mut || {
        for number in 0..FILES {
            std::fs::read(file(number)).unwrap();
        }
    });
    row("write and rename over, 1000", &mut || {
        for number in 0..FILES {
            std::fs::write(folder.join("temp"), [2; 1024]).unwrap();
            std::fs::rename(folder.join("temp"), file(number)).unwrap();
        }
    });
    row("list 1000", &mut || {
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), FILES);
    });
    row("remove 1000", &mut || {
        std::fs::remove_dir_all(&folder).unwrap()
    });
    rows
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: measures, and prints what it has measured"]
async fn slow_figures_of_a_mount() {
    let host = Host::new().await;
    let grant = host.lend(Access::ReadWrite, None);
    let remote = Remote::new();
    let mount = remote.mount(host.plan(&grant, &remote)).await;
    let point = mount.point().unwrap().to_owned();
    let rows = tokio::task::spawn_blocking(move || measure(&point))
        .await
        .unwrap();
    for (name, seconds) in rows {
        println!("{name:<30} {seconds:>8.2} s");
    }
    remote.leave(mount).await;
}
