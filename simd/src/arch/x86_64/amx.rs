//! AMX: products of tiles of int8 codes, beside AVX-512.
//!
//! `TDPBUSD` multiplies 16 rows of up to 64 unsigned codes by 16 columns of signed ones and adds the products to 16 × 16
//! of i32, exactly: it does not saturate. A group of a panel is two operands of columns as it lies. Of the eight registers
//! four hold the products of 32 rows with 32 columns, two of rows and two of columns. Products leave through memory, where
//! AVX-512 looks at those of one group while the processor multiplies the next; the largest of each column is enough to
//! tell that none passes. What is no product of two matrices, such as a scan with a few rows, is that of AVX-512.
//!
//! Measured on one core (family 6, model 167), 256 rows × 1,536 columns, nothing passing, November 2026: 32, 64, 128 and
//! 192 codes take 0.054, 0.061, 0.093 and 0.12 ns a pair, with `VPDPBUSD` 0.10, 0.18, 0.33 and 0.47. Of 62 ns for a tile
//! of 64 codes, products and their way to memory take 40. No faster were biases as the first values of the products, rows
//! that stay in registers, and looking at a quarter of the tile after each product.
#![expect(
    unsafe_code,
    reason = "registers that the compiler does not know, and calls as in avx512"
)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::avx512;
use crate::panel::{
    Columns, GROUP_COLUMNS, Group, Hit, NEVER, RowBlock, SHIFTED_ZERO, STEP_DIMS, ScoredHit,
    push_mask, push_scored,
};
use crate::{Kernels, Level};

/// Returns this level's table, or `None` where the processor lacks it.
pub(crate) fn kernels() -> Option<&'static Kernels> {
    Level::Amx.is_available().then_some(&KERNELS)
}

static KERNELS: Kernels = Kernels {
    level: Level::Amx,
    // SAFETY: `kernels` hands this out only where the processor has the level.
    hits: |rows, columns, hits| unsafe { self::hits(rows, columns, hits) },
    // SAFETY: `kernels` hands this out only where the processor has the level.
    hits_i7: |rows, columns, hits| unsafe { self::hits(rows, columns, hits) },
    // SAFETY: `kernels` hands this out only where the processor has the level.
    scored_hits: |rows, columns, hits| unsafe { self::scored_hits(rows, columns, hits) },
    ..avx512::KERNELS
};

/// Tells whether the system lets this process multiply tiles, and whether the processor does so with int8.
///
/// Asks once: threads get room for tiles when they first use them, and only where the process asked.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| is_permitted() && has_tiles_of_int8())
}

/// Asks a processor that has AVX-512.
fn has_tiles_of_int8() -> bool {
    const AMX_TILE: u32 = 1 << 24;
    const AMX_INT8: u32 = 1 << 25;
    // Leaf 7 is the one that says so of AVX-512, too.
    __cpuid_count(7, 0).edx & (AMX_TILE | AMX_INT8) == AMX_TILE | AMX_INT8
}

#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const SYS_ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    /// The state of tiles among those that a processor saves.
    const XFEATURE_XTILEDATA: i64 = 18;
    let mut result = SYS_ARCH_PRCTL;
    // SAFETY: the call changes what this process may use and nothing in its memory; older systems refuse it.
    unsafe {
        asm!(
            "syscall",
            inout("rax") result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Elsewhere nobody has tried.
#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Rows of a register, and bytes of each.
const REGISTER_ROWS: usize = 16;
const REGISTER_BYTES: usize = 64;

/// Rows of a tile: two registers.
const TILE_ROWS: usize = 2 * REGISTER_ROWS;

/// Bytes from one step of a group to the next, and from one row of products to the next.
const STEP_STRIDE: usize = GROUP_COLUMNS * STEP_DIMS;

/// Codes of a row or a column in equal parts, each of which fits a register.
#[derive(Clone, Copy)]
struct Parts {
    count: usize,
    /// Steps of a part: 1 to 16.
    steps: usize,
}

impl Parts {
    /// Cuts `dim` codes into as few parts as they need; `None` where these would not be equal.
    fn of(dim: usize) -> Option<Self> {
        let (steps, count) = (dim / STEP_DIMS, dim.div_ceil(REGISTER_BYTES));
        steps.is_multiple_of(count).then_some(Self { count, steps: steps / count })
    }
}

/// The registers, configured for parts of one size; released when dropped.
struct Registers {
    parts: Parts,
}

/// What `LDTILECFG` reads.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Registers {
    /// # Safety
    /// The processor must have the level.
    unsafe fn configure(parts: Parts) -> Self {
        let mut row_bytes = [0; 16];
        let mut rows = [0; 16];
        // Four of products, two of rows, two of columns, whose rows are steps.
        row_bytes[..8].fill(REGISTER_BYTES as u16);
        row_bytes[4..6].fill((parts.steps * STEP_DIMS) as u16);
        rows[..6].fill(REGISTER_ROWS as u8);
        rows[6..8].fill(parts.steps as u8);
        let configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the 64 bytes that are read describe registers that there are.
        unsafe {
            asm!(
                "ldtilecfg [{}]",
                in(reg) &raw const configuration,
                options(nostack, readonly, preserves_flags),
            );
        }
        Self { parts }
    }

    /// Computes the products of a tile's rows with a group's columns, both of these parts.
    #[inline]
    fn multiply(&self, tile: &Tile, group: &Group<'_>, products: &mut Products) {
        let Parts { count, steps } = self.parts;
        assert!(tile.operands.len() == count && group.steps.len() == count * steps);
        // SAFETY: for each part an array of operands and as many steps as were just checked are read; products are
        // written row by row, 64 bytes on each side.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{rows} + {row_stride}]",
                "tileloadd tmm6, [{columns} + {step_stride}]",
                "tdpbusd tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{columns} + {step_stride} + 64]",
                "tdpbusd tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{rows} + {row_stride} + {lower_rows}]",
                "tdpbusd tmm2, tmm5, tmm6",
                "tdpbusd tmm3, tmm5, tmm7",
                "add {rows}, {tile_part}",
                "add {columns}, {group_part}",
                "dec {count}",
                "jnz 2b",
                "tilestored [{products} + {step_stride}], tmm0",
                "tilestored [{products} + {step_stride} + 64], tmm1",
                "tilestored [{products} + {step_stride} + {lower_products}], tmm2",
                "tilestored [{products} + {step_stride} + {lower_products} + 64], tmm3",
                rows = inout(reg) tile.operands.as_ptr() => _,
                row_stride = in(reg) REGISTER_BYTES,
                lower_rows = const REGISTER_ROWS * REGISTER_BYTES,
                tile_part = const TILE_ROWS * REGISTER_BYTES,
                columns = inout(reg) group.steps.as_ptr() => _,
                step_stride = in(reg) STEP_STRIDE,
                group_part = in(reg) steps * STEP_STRIDE,
                count = inout(reg) count => _,
                products = in(reg) products.0.as_mut_ptr(),
                lower_products = const REGISTER_ROWS * STEP_STRIDE,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: there are registers, since they were configured.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn hits(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<Hit>) {
    match Parts::of(rows.dim) {
        Some(parts) if rows.biases.len() > avx512::FEW_ROWS => {
            sweep(rows, columns, parts, |tile, products, group| {
                for (row, mask) in tile.passing(products, group).into_iter().enumerate() {
                    push_mask(hits, tile.first_row + row, group.first_column, mask);
                }
            });
        }
        _ => avx512::hits(rows, columns, hits),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn scored_hits(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<ScoredHit>) {
    match Parts::of(rows.dim) {
        Some(parts) if rows.biases.len() > avx512::FEW_ROWS => {
            sweep(rows, columns, parts, |tile, products, group| {
                for (row, mask) in tile.passing(products, group).into_iter().enumerate() {
                    let mut scores = products.0[row];
                    for (score, bias) in scores.iter_mut().zip(&group.biases.shifted) {
                        *score = score.wrapping_add(*bias).wrapping_add(tile.biases[row]);
                    }
                    push_scored(hits, tile.first_row + row, group.first_column, mask, &scores);
                }
            });
        }
        _ => avx512::scored_hits(rows, columns, hits),
    }
}

/// Compares tiles of rows with groups of columns; `push` takes those of which something passes, with their products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn sweep(
    rows: &RowBlock<'_>,
    columns: Columns<'_>,
    parts: Parts,
    mut push: impl FnMut(&Tile, &Products, &Group<'_>),
) {
    // SAFETY: the table with these functions is handed out only where the processor has the level.
    let registers = unsafe { Registers::configure(parts) };
    let mut products = [const { Products([[0; GROUP_COLUMNS]; TILE_ROWS]) }; 2];
    let mut tile = Tile { operands: Vec::new(), biases: [NEVER; TILE_ROWS], first_row: 0 };
    for first_row in (0..rows.biases.len()).step_by(TILE_ROWS) {
        tile.fill(rows, first_row, parts);
        let mut multiplied: Option<Group<'_>> = None;
        for (at, group) in
            rows.groups(columns, first_row, TILE_ROWS).map(Some).chain([None]).enumerate()
        {
            if let Some(group) = &group {
                registers.multiply(&tile, group, &mut products[at % 2]);
            }
            if let Some(group) = multiplied {
                let products = &products[(at + 1) % 2];
                if tile.any_passes(products, &group) {
                    push(&tile, products, &group);
                }
            }
            multiplied = group;
        }
    }
}

/// Products of a tile's rows with a group's columns, row by row.
#[repr(C, align(64))]
struct Products([[i32; GROUP_COLUMNS]; TILE_ROWS]);

/// Codes of a row in a register.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Operand([u8; REGISTER_BYTES]);

/// Rows that are compared together.
struct Tile {
    /// The codes of all rows, part by part.
    operands: Vec<[Operand; TILE_ROWS]>,
    biases: [i32; TILE_ROWS],
    first_row: usize,
}

impl Tile {
    /// Takes the rows from `first_row` on; rows beyond the block's end never pass.
    fn fill(&mut self, rows: &RowBlock<'_>, first_row: usize, parts: Parts) {
        let count = TILE_ROWS.min(rows.biases.len() - first_row);
        self.first_row = first_row;
        self.biases = [NEVER; TILE_ROWS];
        self.biases[..count].copy_from_slice(&rows.biases[first_row..][..count]);
        self.operands.clear();
        self.operands.resize(parts.count, [Operand([SHIFTED_ZERO; REGISTER_BYTES]); TILE_ROWS]);
        let codes = rows.shifted_codes[first_row * rows.dim..].chunks_exact(rows.dim).take(count);
        for (row, codes) in codes.enumerate() {
            let part_codes = codes.chunks_exact(parts.steps * STEP_DIMS);
            for (operands, codes) in self.operands.iter_mut().zip(part_codes) {
                operands[row].0[..codes.len()].copy_from_slice(codes);
            }
        }
    }

    /// Tells whether a score is not negative.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn any_passes(&self, products: &Products, group: &Group<'_>) -> bool {
        let mut largest = [_mm512_set1_epi32(i32::MIN); 2];
        for (products, &bias) in products.0.iter().zip(&self.biases) {
            let bias = _mm512_set1_epi32(bias);
            for (largest, half) in largest.iter_mut().zip(halves(products)) {
                *largest = _mm512_max_epi32(*largest, _mm512_add_epi32(half, bias));
            }
        }
        let [low, high] = halves(&group.biases.shifted);
        let scores = [_mm512_add_epi32(largest[0], low), _mm512_add_epi32(largest[1], high)];
        _mm512_cmpge_epi32_mask(_mm512_max_epi32(scores[0], scores[1]), _mm512_setzero_si512()) != 0
    }

    /// Returns the columns that pass with each row, one bit each.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn passing(&self, products: &Products, group: &Group<'_>) -> [u32; TILE_ROWS] {
        let zero = _mm512_setzero_si512();
        let biases = halves(&group.biases.shifted);
        let mut masks = [0; TILE_ROWS];
        for ((mask, products), &bias) in masks.iter_mut().zip(&products.0).zip(&self.biases) {
            let bias = _mm512_set1_epi32(bias);
            let products = halves(products);
            let score = |half: usize| {
                _mm512_add_epi32(_mm512_add_epi32(products[half], bias), biases[half])
            };
            let passing = [0, 1].map(|half| _mm512_cmpge_epi32_mask(score(half), zero));
            *mask = u32::from(passing[0]) | u32::from(passing[1]) << 16;
        }
        masks
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn halves(numbers: &[i32; GROUP_COLUMNS]) -> [__m512i; 2] {
    let halves: &[[i32; 16]; 2] = numbers.as_chunks().0.as_array().expect("two halves");
    // SAFETY: each half is the 64 bytes that are read.
    halves.each_ref().map(|half| unsafe { _mm512_loadu_si512(half.as_ptr().cast()) })
}

/// Products of ones: each adds to one of four registers, and waits for none of the others. See [`crate::peak`].
///
/// # Safety
/// The processor must have the level.
pub(super) unsafe fn peak_int8(rounds: u32) -> u64 {
    if rounds == 0 {
        return 0;
    }
    let operand = [Operand([1; REGISTER_BYTES]); REGISTER_ROWS];
    let mut products = Products([[0; GROUP_COLUMNS]; TILE_ROWS]);
    // SAFETY: the level is the caller's; operands are the array, and products are written as in `multiply`.
    unsafe {
        let _registers =
            Registers::configure(Parts { count: 1, steps: REGISTER_BYTES / STEP_DIMS });
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tileloadd tmm4, [{operand} + {row_stride}]",
            "tileloadd tmm6, [{operand} + {row_stride}]",
            "2:",
            "tdpbusd tmm0, tmm4, tmm6",
            "tdpbusd tmm1, tmm4, tmm6",
            "tdpbusd tmm2, tmm4, tmm6",
            "tdpbusd tmm3, tmm4, tmm6",
            "dec {rounds:e}",
            "jnz 2b",
            "tilestored [{products} + {step_stride}], tmm0",
            "tilestored [{products} + {step_stride} + 64], tmm1",
            "tilestored [{products} + {step_stride} + {lower_products}], tmm2",
            "tilestored [{products} + {step_stride} + {lower_products} + 64], tmm3",
            operand = in(reg) operand.as_ptr(),
            row_stride = in(reg) REGISTER_BYTES,
            rounds = inout(reg) rounds => _,
            products = in(reg) products.0.as_mut_ptr(),
            step_stride = in(reg) STEP_STRIDE,
            lower_products = const REGISTER_ROWS * STEP_STRIDE,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm6") _,
            options(nostack),
        );
    }
    products.0.iter().flatten().map(|&sum| u64::from(sum.cast_unsigned())).sum()
}
