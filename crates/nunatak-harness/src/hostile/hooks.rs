//! Keys, values and a hasher that run the check's code whenever the map calls them, and that notice
//! uses after their drop.

use crate::random::mix;
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A call of the caller's code by a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A hash is computed.
    Hash,
    /// Two keys or two values are compared.
    Eq,
    /// A key or a value is cloned.
    Clone,
    /// A key or a value is dropped.
    Drop,
    /// A closure decides.
    Closure,
}

/// The code that a thread runs on each event.
pub type Hook = Rc<dyn Fn(Event)>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The largest depth of hooks within hooks.
pub const DEEPEST: usize = 2;

/// Runs this thread's hook, unless hooks are nested too deep.
///
/// ```
/// use nunatak_harness::hostile::hooks::{Event, fire};
/// fire(Event::Closure); // nothing is hooked here
/// ```
pub fn fire(event: Event) {
    struct Deeper;
    impl Drop for Deeper {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    // A thread that is ending may have no hook any more.
    let Ok(Some(hook)) = HOOK.try_with(|hook| hook.borrow().clone()) else { return };
    if DEPTH.get() < DEEPEST {
        DEPTH.set(DEPTH.get() + 1);
        let _deeper = Deeper;
        hook(event);
    }
}

/// Sets this thread's hook while `run` runs.
///
/// ```
/// use nunatak_harness::hostile::hooks::{Event, fire, hooked};
/// use std::{cell::Cell, rc::Rc};
/// let fired = Rc::new(Cell::new(0));
/// let hook = { let fired = fired.clone(); Rc::new(move |_| fired.set(fired.get() + 1)) };
/// hooked(hook, || fire(Event::Eq));
/// fire(Event::Eq);
/// assert_eq!(fired.get(), 1);
/// ```
pub fn hooked<R>(hook: Hook, run: impl FnOnce() -> R) -> R {
    struct Unhook;
    impl Drop for Unhook {
        fn drop(&mut self) {
            drop(HOOK.take());
        }
    }
    HOOK.set(Some(hook));
    let _unhook = Unhook;
    run()
}

/// The kind of wrong hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// All hashes are right.
    None,
    /// Every third hash is another one each time.
    All,
    /// Every third hash differs in its lowest byte.
    Low,
    /// Every third hash differs in its highest byte.
    High,
}

static ERRORS: AtomicU64 = AtomicU64::new(0);
static HASHES: AtomicU64 = AtomicU64::new(0);
static WERE_WRONG: AtomicBool = AtomicBool::new(false);

/// Makes the hashes of all [`Wild`] hashers wrong, or right again.
///
/// ```
/// use nunatak_harness::hostile::hooks::{Errors, set_errors};
/// set_errors(Errors::None);
/// ```
pub fn set_errors(errors: Errors) {
    let mask = match errors {
        Errors::None => 0,
        Errors::All => u64::MAX,
        Errors::Low => 0xFF,
        Errors::High => 0xFF << 56,
    };
    ERRORS.store(mask, Ordering::SeqCst);
    if mask != 0 {
        WERE_WRONG.store(true, Ordering::SeqCst);
    }
}

/// Whether hashes of this process ever were wrong. Then a map of words may return another key's
/// value, but always a stored value.
///
/// ```
/// assert!(!nunatak_harness::hostile::hooks::hashes_were_wrong());
/// ```
pub fn hashes_were_wrong() -> bool {
    WERE_WRONG.load(Ordering::SeqCst)
}

/// A hasher whose hashes are events. [`set_errors`] makes it contradict itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wild;

impl BuildHasher for Wild {
    type Hasher = WildState;

    fn build_hasher(&self) -> WildState {
        fire(Event::Hash);
        WildState(0)
    }
}

/// A hash that is being computed.
#[derive(Debug)]
pub struct WildState(u64);

impl Hasher for WildState {
    fn finish(&self) -> u64 {
        let errors = ERRORS.load(Ordering::Relaxed);
        let hash = mix(self.0);
        if errors == 0 {
            return hash;
        }
        let number = HASHES.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(3) { hash ^ mix(number) & errors } else { hash }
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8).wrapping_mul(31) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}

const ALIVE: u64 = 0x00A1_1FE0_00A1_1FE0;
const DEAD: u64 = 0xDEAD_DEAD_DEAD_DEAD;

static BORN: AtomicUsize = AtomicUsize::new(0);
static GONE: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

/// Returns how many [`Witness`]es of this process are alive.
///
/// ```
/// use nunatak_harness::hostile::hooks::{Witness, alive};
/// let before = alive();
/// let witness = Witness::new(7);
/// assert_eq!(alive(), before + 1);
/// ```
pub fn alive() -> usize {
    BORN.load(Ordering::SeqCst).wrapping_sub(GONE.load(Ordering::SeqCst))
}

/// Checks that no [`Witness`] was dropped twice or used after its drop.
///
/// # Panics
/// If one was.
///
/// ```
/// nunatak_harness::hostile::hooks::nothing_is_used_after_its_end();
/// ```
pub fn nothing_is_used_after_its_end() {
    let wrong = WRONG.load(Ordering::SeqCst);
    assert_eq!(wrong, 0, "so many uses of what was dropped, or never was");
}

/// A number on the heap. Its `Eq`, `Hash`, `Clone` and `Drop` are events. Its drop overwrites a
/// canary, which each use checks.
///
/// ```
/// use nunatak_harness::hostile::hooks::Witness;
/// assert_eq!(Witness::new(7).number(), 7);
/// ```
#[derive(Debug)]
pub struct Witness(Box<Body>);

#[derive(Debug)]
struct Body {
    // Atomic, since a wrong map may free it while another thread looks.
    canary: AtomicU64,
    number: u64,
}

impl Witness {
    /// Makes a witness of this number.
    pub fn new(number: u64) -> Self {
        BORN.fetch_add(1, Ordering::SeqCst);
        Self(Box::new(Body { canary: AtomicU64::new(ALIVE ^ number), number }))
    }

    /// Returns its number.
    ///
    /// # Panics
    /// If it was dropped.
    pub fn number(&self) -> u64 {
        assert!(self.is_alive(), "a witness is used after its end");
        self.0.number
    }

    fn is_alive(&self) -> bool {
        let is_alive = self.0.canary.load(Ordering::SeqCst) == ALIVE ^ self.0.number;
        WRONG.fetch_add(usize::from(!is_alive), Ordering::SeqCst);
        is_alive
    }
}

impl Clone for Witness {
    fn clone(&self) -> Self {
        let number = self.number();
        fire(Event::Clone);
        Self::new(number)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if self.0.canary.swap(DEAD, Ordering::SeqCst) != ALIVE ^ self.0.number {
            WRONG.fetch_add(1, Ordering::SeqCst);
        }
        GONE.fetch_add(1, Ordering::SeqCst);
        fire(Event::Drop);
    }
}

impl PartialEq for Witness {
    fn eq(&self, other: &Self) -> bool {
        fire(Event::Eq);
        self.number() == other.number()
    }
}

impl Eq for Witness {}

impl Hash for Witness {
    fn hash<H: Hasher>(&self, state: &mut H) {
        fire(Event::Hash);
        state.write_u64(self.number());
    }
}
