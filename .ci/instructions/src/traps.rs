//! Runs code instruction by instruction, and counts what it does.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};
use std::arch::asm;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What code executes.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub instructions: f64,
    /// Instructions that read memory, and prefetches: each takes an entry of the load queue.
    pub loads: f64,
    pub stores: f64,
}

impl Cost {
    pub fn figures(self) -> [f64; 3] {
        [self.instructions, self.loads, self.stores]
    }

    fn from_figures([instructions, loads, stores]: [f64; 3]) -> Self {
        Self { instructions, loads, stores }
    }

    /// Returns the cost of one of `count` operations, without that of the loop round them.
    pub fn of_one(self, of_loop: Self, count: usize) -> Self {
        let (all, alone) = (self.figures(), of_loop.figures());
        Self::from_figures(std::array::from_fn(|i| (all[i] - alone[i]).max(0.0) / count as f64))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        let (all, more) = (self.figures(), other.figures());
        *self = Self::from_figures(std::array::from_fn(|i| all[i] + more[i]));
    }
}

/// Instructions that one run may execute.
const MOST: usize = 1 << 20;

// Relaxed: the handler runs in the thread whose steps it counts.
static STEPS: AtomicUsize = AtomicUsize::new(0);
/// The addresses of the instructions. The handler can't allocate: it may interrupt the allocator.
static ADDRESSES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// The registers before each instruction, in the kernel's order, if they are asked for.
static REGISTERS: [[AtomicU64; IN_KERNELS_ORDER.len()]; MOST] =
    [const { [const { AtomicU64::new(0) }; IN_KERNELS_ORDER.len()] }; MOST];
static KEEPS_REGISTERS: AtomicBool = AtomicBool::new(false);

const IN_KERNELS_ORDER: [Register; 16] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
    Register::RDI,
    Register::RSI,
    Register::RBP,
    Register::RBX,
    Register::RDX,
    Register::RAX,
    Register::RCX,
    Register::RSP,
];

extern "C" fn step(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel gives a handler that was set with `SA_SIGINFO` the interrupted context.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let step = STEPS.fetch_add(1, Relaxed);
    let Some(address) = ADDRESSES.get(step) else { return };
    address.store(registers[libc::REG_RIP as usize] as u64, Relaxed);
    if KEEPS_REGISTERS.load(Relaxed) {
        REGISTERS[step]
            .iter()
            .zip(registers)
            .for_each(|(kept, now)| kept.store(*now as u64, Relaxed));
    }
}

/// Must be called before code is run.
pub fn catch_traps() {
    type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    // SAFETY: `step` has the signature of a handler with `SA_SIGINFO`, and touches atomics only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = step as Handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        let caught = libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
        assert_eq!(caught, 0, "traps can be caught");
    }
}

/// Runs code, and a few instructions of its surroundings, and returns the number of instructions.
fn step_through(run: impl FnOnce()) -> usize {
    STEPS.store(0, Relaxed);
    // SAFETY: the trap flag makes the processor trap after each instruction until the flag is
    // cleared; the handler was set before.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    run();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    let steps = STEPS.load(Relaxed);
    assert!(steps <= MOST, "more instructions than can be kept: {steps}");
    steps
}

/// Counts what `run` does.
pub fn cost_of(run: impl FnOnce()) -> Cost {
    let steps = step_through(run);
    let mut known = HashMap::new();
    let mut sum = [0.0; 3];
    for address in &ADDRESSES[..steps] {
        let address = address.load(Relaxed);
        let cost = *known.entry(address).or_insert_with(|| cost_at(address));
        sum.iter_mut().zip(cost.figures()).for_each(|(sum, figure)| *sum += figure);
    }
    Cost::from_figures(sum)
}

/// Returns the cost of an operation, without that of the loop.
pub fn cost_of_each(keys: &[u64], mut operate: impl FnMut(u64)) -> Cost {
    let alone = cost_of(|| {
        keys.iter().for_each(|&key| {
            std::hint::black_box(key);
        });
    });
    let all = cost_of(|| keys.iter().for_each(|&key| operate(std::hint::black_box(key))));
    all.of_one(alone, keys.len())
}

/// Returns the cost of one of `count` operations that `run` executes together.
pub fn cost_of_batch(count: usize, run: impl FnOnce()) -> Cost {
    cost_of(run).of_one(Cost::default(), count)
}

/// A load or a store of some bytes.
#[derive(Clone, Copy)]
pub struct Access {
    pub address: u64,
    pub bytes: u64,
    pub stores: bool,
}

/// Returns what `run` loads and stores, one after the other.
pub fn accesses_of(run: impl FnOnce()) -> Vec<Access> {
    KEEPS_REGISTERS.store(true, Relaxed);
    let steps = step_through(run);
    KEEPS_REGISTERS.store(false, Relaxed);
    let of_thread: u64;
    // SAFETY: the first word of a thread's storage is that storage's address.
    unsafe { asm!("mov {}, fs:[0]", out(reg) of_thread, options(nostack, readonly)) };
    let mut infos = InstructionInfoFactory::new();
    let mut known = HashMap::new();
    let mut accesses = Vec::new();
    for (address, registers) in ADDRESSES[..steps].iter().zip(&REGISTERS) {
        let address = address.load(Relaxed);
        let instruction = known.entry(address).or_insert_with(|| instruction_at(address));
        for memory in infos.info(instruction).used_memory() {
            let stores = match memory.access() {
                OpAccess::None | OpAccess::NoMemAccess => continue,
                OpAccess::Read | OpAccess::CondRead => false,
                _ => true,
            };
            let value = |register: Register, _, _| match register {
                Register::FS => Some(of_thread),
                Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
                _ => {
                    let at = IN_KERNELS_ORDER.iter().position(|it| *it == register.full_register());
                    at.map(|at| registers[at].load(Relaxed))
                }
            };
            // A gather has no single address; it loads.
            if let Some(address) = memory.virtual_address(0, value) {
                let bytes = memory.memory_size().size().max(1) as u64;
                accesses.push(Access { address, bytes, stores });
            }
        }
    }
    accesses
}

fn instruction_at(address: u64) -> Instruction {
    const LONGEST: usize = 15;
    // SAFETY: the processor has fetched the instruction there. What is read beyond it is code, too: that
    // of the program and of its libraries ends with `_fini`, and its last page is mapped as a whole.
    let code = unsafe { std::slice::from_raw_parts(address as *const u8, LONGEST) };
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    assert!(!instruction.is_invalid(), "an instruction of this processor");
    instruction
}

/// Looks at the instruction at an address.
fn cost_at(address: u64) -> Cost {
    let instruction = instruction_at(address);
    let mut cost = Cost { instructions: 1.0, ..Cost::default() };
    let mut infos = InstructionInfoFactory::new();
    for memory in infos.info(&instruction).used_memory() {
        match memory.access() {
            OpAccess::Read | OpAccess::CondRead => cost.loads += 1.0,
            OpAccess::Write | OpAccess::CondWrite => cost.stores += 1.0,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                cost.loads += 1.0;
                cost.stores += 1.0;
            }
            OpAccess::None | OpAccess::NoMemAccess => {}
        }
    }
    let prefetches = [
        Mnemonic::Prefetcht0,
        Mnemonic::Prefetcht1,
        Mnemonic::Prefetcht2,
        Mnemonic::Prefetchnta,
        Mnemonic::Prefetchw,
    ];
    if prefetches.contains(&instruction.mnemonic()) {
        cost.loads += 1.0;
    }
    cost
}
