//! Objects of stores in memory and on the disk, held against the bytes that were put there.

use std::io::Read;
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::{Blocks, Cloud, Error, Folder};

/// A cloud in which `s3://b` is this store.
fn cloud(store: &Arc<dyn ObjectStore>) -> Cloud {
    Cloud::new().unwrap().with("s3://b", Arc::clone(store))
}

fn put(cloud: &Cloud, store: &Arc<dyn ObjectStore>, key: &str, bytes: Vec<u8>) {
    let (store, key) = (Arc::clone(store), Path::parse(key).unwrap());
    cloud.wait(async move { store.put(&key, bytes.into()).await }).unwrap();
}

/// Bytes without a period.
fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn stores() -> (tempfile::TempDir, [Arc<dyn ObjectStore>; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let local = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    (folder, [Arc::new(InMemory::new()), Arc::new(local)])
}

#[test]
fn an_object_is_read_in_order_and_at_any_place() {
    let (_folder, stores) = stores();
    for store in stores {
        let cloud = cloud(&store);
        for size in [0, 1, 256 << 10, (3 << 20) + 17] {
            let whole = bytes(size);
            put(&cloud, &store, "a.bin", whole.clone());
            let object = cloud.find("s3://b/a.bin").unwrap().objects.remove(0);
            assert_eq!(object.bytes(), size as u64);
            let mut read = Vec::new();
            object.read().read_to_end(&mut read).unwrap();
            assert!(read == whole, "{size}");
            assert_eq!(object.beginning(16).unwrap(), whole[..size.min(16)]);
            let blocks = Blocks::of(object);
            for at in [0, 5, (1 << 20) - 3, 1 << 20, 3 << 20, size] {
                let mut found = vec![0; 100];
                let count = blocks.read_at(&mut found, at as u64).unwrap();
                let rest = &whole[at.min(size)..];
                assert!(count > 0 || rest.is_empty());
                assert_eq!(found[..count], rest[..count], "{size} {at}");
            }
        }
    }
}

#[test]
fn names_are_in_the_order_of_a_file_system() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let cloud = cloud(&store);
    for key in ["x/a-b/1", "x/a/2", "x/a.txt", "x/b", "y", "xx/1"] {
        put(&cloud, &store, key, Vec::new());
    }
    let urls = |url: &str| {
        let found = cloud.find(url).unwrap();
        (found.is_folder, found.objects.iter().map(|object| object.url().to_owned()).collect::<Vec<_>>())
    };
    let all = ["s3://b/x/a/2", "s3://b/x/a-b/1", "s3://b/x/a.txt", "s3://b/x/b"].map(str::to_owned).to_vec();
    assert_eq!(urls("s3://b/x/"), (true, all.clone()));
    assert_eq!(urls("s3://b/x"), (true, all));
    assert_eq!(urls("s3://b/y"), (false, vec!["s3://b/y".to_owned()]));
    assert_eq!(urls("s3://b/").1.len(), 6);
    for url in ["s3://b/z", "s3://b/z/"] {
        assert!(matches!(cloud.find(url), Err(Error::Missing { .. })), "{url}");
    }
}

#[test]
fn another_version_is_an_error() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let cloud = cloud(&store);
    put(&cloud, &store, "a", bytes(2 << 20));
    let object = || cloud.find("s3://b/a").unwrap().objects.remove(0);
    let (replaced, begun) = (object(), object());
    let mut read = begun.read();
    read.read_exact(&mut [0; 100]).unwrap();
    let mut other = bytes(2 << 20);
    other.reverse();
    put(&cloud, &store, "a", other);
    assert!(read.read_to_end(&mut Vec::new()).is_err(), "parts of two versions");
    let error = replaced.read().read_to_end(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("s3://b/a: the object changed after it was found"), "{error}");
    assert_eq!(replaced.fault(), Some(&*error));
    assert!(Blocks::of(replaced).read_at(&mut [0; 9], 7).is_err());
    let gone = object();
    let own = Arc::clone(&store);
    cloud.wait(async move { own.delete(&Path::from("a")).await }).unwrap();
    assert!(gone.read().read_to_end(&mut Vec::new()).is_err() && gone.fault().is_some());
}

#[test]
fn a_folder_has_its_mark_only_when_it_is_whole() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let cloud = cloud(&store);
    let files = tempfile::tempdir().unwrap();
    let (short, long) = (files.path().join("short"), files.path().join("long"));
    std::fs::write(&short, b"short").unwrap();
    std::fs::write(&long, bytes(40 << 20)).unwrap();
    let folder = Folder::at(&cloud, "s3://b/out/one/").unwrap();
    assert!(folder.names().unwrap().is_empty());
    folder.put("x/short", &short).unwrap();
    folder.put("long", &long).unwrap();
    assert!(cloud.find("s3://b/out/one/_SUCCESS").is_err());
    folder.mark().unwrap();
    assert!(cloud.find("s3://b/out/one/_SUCCESS").is_ok());
    assert_eq!(folder.names().unwrap(), ["long", "x/short"]);
    let mut read = Vec::new();
    cloud.find("s3://b/out/one/long").unwrap().objects[0].read().read_to_end(&mut read).unwrap();
    assert!(read == bytes(40 << 20));
    folder.unmark().unwrap();
    folder.remove("long").unwrap();
    folder.remove("none").unwrap();
    assert_eq!(folder.names().unwrap(), ["x/short"]);
    for url in ["https://e.org/x", "hf://datasets/o/n"] {
        let error = Folder::at(&cloud, url).unwrap_err().to_string();
        assert!(error.contains("output goes to"), "{error}");
    }
}
