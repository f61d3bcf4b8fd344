//! Whether files behind Forebay behave as files should.
mod exercise;
/// Whatever went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result with such a failure.
pub type Result<T> = std::result::Result<T, Failure>;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s = exercise::Settings {
        directory: a[1].clone().into(),
        operations: a[2].parse().unwrap(),
        seed: a[3].parse().unwrap(),
        with_mappings: a.len() > 4,
    };
    println!("{:?}", exercise::run(&s));
}
