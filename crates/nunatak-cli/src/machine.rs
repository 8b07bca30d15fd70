//! A description of the machine, for the report. Unknown properties are left empty.

use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// The machine, its system and the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: Option<f64>,
    pub(crate) os: String,
    pub(crate) kernel: Option<String>,
    /// The system's setting of transparent huge pages.
    pub(crate) huge_pages: Option<String>,
    pub(crate) nunatak_version: String,
    /// The commit of the checkout in the current directory, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
}

impl Machine {
    pub(crate) fn this() -> Self {
        Self {
            cpu: cpu().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(),
            os: os().unwrap_or_else(|| std::env::consts::OS.to_owned()),
            kernel: read("/proc/sys/kernel/osrelease"),
            huge_pages: huge_pages(),
            nunatak_version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit(),
        }
    }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the value of the first line that begins with `name`, up to `separator`.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let value = |line: &str| {
        Some(line.strip_prefix(name)?.trim_start().strip_prefix(separator)?.trim().to_owned())
    };
    text.lines().find_map(value)
}

fn cpu() -> Option<String> {
    field(&read("/proc/cpuinfo")?, "model name", ':')
}

fn memory_gib() -> Option<f64> {
    let kib = field(&read("/proc/meminfo")?, "MemTotal", ':')?;
    let kib: f64 = kib.split_whitespace().next()?.parse().ok()?;
    Some((kib / f64::from(1 << 20) * 10.0).round() / 10.0)
}

fn os() -> Option<String> {
    Some(field(&read("/etc/os-release")?, "PRETTY_NAME", '=')?.trim_matches('"').to_owned())
}

/// Returns the setting in brackets: `always [madvise] never`.
fn huge_pages() -> Option<String> {
    let setting = read("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let (_, chosen) = setting.split_once('[')?;
    Some(chosen.split_once(']')?.0.to_owned())
}

fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

/// Returns how much physical memory this process occupies.
pub(crate) fn resident_bytes() -> Option<usize> {
    let statm = read("/proc/self/statm")?;
    let pages: usize = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name", ':').as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field("PRETTY_NAME=\"X 1\"", "PRETTY_NAME", '=').as_deref(), Some("\"X 1\""));
        assert_eq!(field(text, "absent", ':'), None);
    }

    /// Returns the processor's name, read in another way.
    fn cpu_said() -> String {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut names = text.lines().filter(|line| line.starts_with("model name"));
        let name = names.next().and_then(|line| line.split(": ").nth(1));
        name.unwrap_or(std::env::consts::ARCH).trim().to_owned()
    }

    /// Returns the system's name, as a shell reads it.
    fn os_said() -> String {
        let script = ". /etc/os-release && printf %s \"$PRETTY_NAME\"";
        let said = Command::new("sh").args(["-c", script]).output();
        let said = said.map_or(Vec::new(), |output| output.stdout);
        let said = String::from_utf8(said).expect("text");
        if said.is_empty() { std::env::consts::OS.to_owned() } else { said }
    }

    #[test]
    fn the_machine_is_described() {
        let machine = Machine::this();
        assert!(!machine.cpu.is_empty() && !machine.os.is_empty());
        assert_eq!((machine.cpu, machine.os), (cpu_said(), os_said()));
        assert_eq!(machine.cores, std::thread::available_parallelism().unwrap().get());
        assert_eq!(machine.nunatak_version, env!("CARGO_PKG_VERSION"));
    }

    /// What other programs say of the machine.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_is_described_as_by_others() {
        let say = |program: &str, argument: &str| {
            let output = Command::new(program).arg(argument).output().expect("a usual program");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        let machine = Machine::this();
        assert_eq!(machine.kernel, Some(say("uname", "-r")));
        let pages: f64 = say("getconf", "_PHYS_PAGES").parse().expect("a number");
        let gib = pages * rustix::param::page_size() as f64 / f64::from(1 << 30);
        assert!((machine.memory_gib.expect("the memory") - gib).abs() < 0.1, "{gib} GiB");
        let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
        let is_chosen =
            |setting: &str| enabled.as_ref().is_some_and(|it| it.contains(&format!("[{setting}]")));
        let chosen = ["always", "madvise", "never"].into_iter().find(|setting| is_chosen(setting));
        assert_eq!(machine.huge_pages.as_deref(), chosen);
        let head = Command::new("git").args(["rev-parse", "HEAD"]).output().ok();
        let head = head.filter(|output| output.status.success());
        let head = head.map(|output| String::from_utf8(output.stdout).expect("a hash"));
        assert_eq!(machine.commit.as_deref(), head.as_ref().map(|hash| &hash[..12]));
    }
}
