//! Files for those who install the program: the Helm chart, the image, the package.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::generated::python_program;
use crate::server::directory;
use crate::skipped::skipped;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// The objects of the chart in `release/helm`, with these values; `None` with a message without helm.
fn rendered(values: &[&str]) -> Option<String> {
    let helm = Path::new(ROOT).join("target/helm/helm");
    if !helm.exists() {
        skipped("there is no target/helm/helm; `release/helm/get target/helm` puts it there");
        return None;
    }
    let mut render = Command::new(helm);
    render.args(["template", "lookalike", "release/helm/lookalike"]).current_dir(ROOT);
    let output = render.args(values.iter().flat_map(|value| ["--set", value])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_objects_of_the_chart_fit_the_schema() {
    let Some(validate) = python_program("kubernetes-validate") else { return };
    let folder = directory();
    // With keys: a service, a set and the pod of `helm test`; then with an ingress, too.
    let open = ["keys.open=true", "ingress.enabled=true", "ingress.tlsSecret=certificate"];
    for (values, objects) in [(&[][..], 3), (&open[..], 4)] {
        let Some(objects_of_chart) = rendered(values) else { return };
        let file = folder.path().join("objects.yaml");
        fs::write(&file, objects_of_chart).unwrap();
        let output = Command::new(&validate).arg("--strict").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && text.matches("passed for resource").count() == objects, "{text}");
    }
}

#[test]
fn what_is_released_with_the_program_has_its_version() {
    let places = [
        ("release/helm/lookalike/Chart.yaml", "\nversion: VERSION\n"),
        ("release/helm/lookalike/Chart.yaml", "\nappVersion: VERSION\n"),
        ("release/npm/package.json", "\"version\": \"VERSION\""),
        ("python/pyproject.toml", "server = [\"lookalike-server==VERSION\"]"),
    ];
    for (file, line) in places {
        let line = line.replace("VERSION", env!("CARGO_PKG_VERSION"));
        assert!(read(file).contains(&line), "{file} needs {line}");
    }
}

#[test]
fn the_image_is_labelled_with_the_version_of_the_package() {
    let dockerfile = read("Dockerfile");
    let version = format!("ARG VERSION={}\n", env!("CARGO_PKG_VERSION"));
    assert!(dockerfile.contains(&version), "the Dockerfile needs {version}");
    let bases: Vec<&str> = dockerfile.lines().filter(|line| line.starts_with("FROM ")).collect();
    assert!(bases.len() == 3 && bases.iter().all(|line| line.starts_with("FROM ${")), "{bases:?}");
}

#[test]
fn the_package_has_what_a_build_needs_and_no_tests() {
    let mut list = Command::new(env!("CARGO"));
    let output =
        list.args(["package", "--list", "--allow-dirty", "--offline"]).current_dir(ROOT).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files: Vec<&str> = listed.lines().collect();
    for folder in ["console", "src"] {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            let is_packed = |file: &&str| **file == name || file.starts_with(&format!("{name}/"));
            assert!(files.iter().any(is_packed), "{name} is not in the package");
        }
    }
    for needed in
        ["Cargo.lock", "LICENSE", "README.md", "config/default.toml", "docs/errors.md", "openapi.yaml"]
    {
        assert!(files.contains(&needed), "{needed} is not in the package");
    }
    let foreign = |file: &&&str| file.starts_with("tests/") || file.starts_with("docs/console/");
    assert_eq!(files.iter().find(foreign), None);
}
