//! AMX: products of tiles of int8 codes, beside AVX-512.
//!
//! `TDPBUSD` multiplies 16 rows of up to 64 unsigned codes by 16 columns of signed ones and adds
//! the products to 16 × 16 of i32, exactly: it does not saturate. A group of a panel is two
//! operands of columns as it lies. Of the eight registers four hold the products of 32 rows with 32
//! columns, two of rows and two of columns. Products leave through memory, where AVX-512 checks the
//! products of one group while the processor multiplies the next; the largest of each column is
//! enough to tell that none passes. Operations other than products of two matrices (a scan with a
//! few rows, for example) use the AVX-512 kernels.
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

use super::avx512::{self, load_part};
use crate::panel::{
    Columns, Found, GROUP_COLUMNS, Group, NEVER, RowBlock, SHIFTED_ZERO, STEP_DIMS,
};
use crate::{Kernels, Level};

pub(crate) static KERNELS: Kernels = Kernels {
    level: Level::Amx,
    // SAFETY: `arch::kernels` hands this out only where the processor has the level.
    hits: |rows, columns, hits| unsafe { self::hits(rows, columns, hits) },
    // SAFETY: `arch::kernels` hands this out only where the processor has the level.
    hits_i7: |rows, columns, hits| unsafe { self::hits(rows, columns, hits) },
    // SAFETY: `arch::kernels` hands this out only where the processor has the level.
    scored_hits: |rows, columns, hits| unsafe { self::hits(rows, columns, hits) },
    ..avx512::KERNELS
};

/// Tells whether the processor multiplies tiles of int8, and the system lets this process do so.
///
/// Requests the permission once: threads get room for tiles when they first use them, and only if
/// the process has the permission.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| has_tiles_of_int8() && is_permitted())
}

/// Asks a processor that has AVX-512.
fn has_tiles_of_int8() -> bool {
    const AMX_TILE: u32 = 1 << 24;
    const AMX_INT8: u32 = 1 << 25;
    // Leaf 7 reports AVX-512, too.
    __cpuid_count(7, 0).edx & (AMX_TILE | AMX_INT8) == AMX_TILE | AMX_INT8
}

#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const SYS_ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    /// The bit of the tile state among the state components that a processor saves.
    const XFEATURE_XTILEDATA: i64 = 18;
    let mut result = SYS_ARCH_PRCTL;
    // SAFETY: the call changes the permissions of this process and nothing in its memory; older
    // systems refuse it.
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

/// Other systems are not supported.
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

/// Codes of a row or a column in parts of one size, each of which fits a register.
///
/// The second part begins where it must for the last to end with the codes; in the first, rows are zero from there on.
#[derive(Clone, Copy)]
struct Parts {
    count: usize,
    /// Steps of a part: 1 to 16.
    steps: usize,
    /// Steps of the first part before the second begins.
    first_steps: usize,
}

impl Parts {
    /// Cuts `dim` codes into as few parts as they need.
    fn of(dim: usize) -> Self {
        let (steps, count) = (dim / STEP_DIMS, dim.div_ceil(REGISTER_BYTES));
        let part_steps = steps.div_ceil(count);
        Self { count, steps: part_steps, first_steps: steps - part_steps * (count - 1) }
    }
}

/// The registers, configured for parts of one size; released when dropped.
struct Registers {
    parts: Parts,
}

/// The memory layout that `LDTILECFG` reads.
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
        // Four registers of products, two of rows, two of columns; a row of a column register is a
        // step.
        row_bytes[..8].fill(REGISTER_BYTES as u16);
        row_bytes[4..6].fill((parts.steps * STEP_DIMS) as u16);
        rows[..6].fill(REGISTER_ROWS as u8);
        rows[6..8].fill(parts.steps as u8);
        let configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the 64 bytes that are read describe existing registers.
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
        let Parts { count, steps, first_steps } = self.parts;
        let all_steps = first_steps + steps * (count - 1);
        assert!(
            tile.operands.len() == count && group.steps.len() == all_steps && first_steps <= steps
        );
        const { assert!(STEP_STRIDE == 2 * REGISTER_BYTES) };
        // SAFETY: for each part an array of operands and as many steps as were just checked are read; products are
        // written row by row, 64 bytes on each side.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{rows} + {bytes}]",
                "tileloadd tmm6, [{columns} + 2 * {bytes}]",
                "tdpbusd tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{columns} + 2 * {bytes} + 64]",
                "tdpbusd tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{rows} + {bytes} + {lower_rows}]",
                "tdpbusd tmm2, tmm5, tmm6",
                "tdpbusd tmm3, tmm5, tmm7",
                "add {rows}, {tile_part}",
                "add {columns}, {group_part}",
                "mov {group_part}, {later_part}",
                "dec {count}",
                "jnz 2b",
                "tilestored [{products} + 2 * {bytes}], tmm0",
                "tilestored [{products} + 2 * {bytes} + 64], tmm1",
                "tilestored [{products} + 2 * {bytes} + {lower_products}], tmm2",
                "tilestored [{products} + 2 * {bytes} + {lower_products} + 64], tmm3",
                bytes = in(reg) REGISTER_BYTES,
                rows = inout(reg) tile.operands.as_ptr() => _,
                lower_rows = const REGISTER_ROWS * REGISTER_BYTES,
                tile_part = const TILE_ROWS * REGISTER_BYTES,
                columns = inout(reg) group.steps.as_ptr() => _,
                group_part = inout(reg) first_steps * STEP_STRIDE => _,
                later_part = in(reg) steps * STEP_STRIDE,
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
fn hits<H: Found>(rows: &RowBlock<'_>, columns: Columns<'_>, hits: &mut Vec<H>) {
    if rows.biases.len() <= avx512::FEW_ROWS {
        return avx512::hits(rows, columns, hits);
    }
    sweep(rows, columns, |tile, products, group| {
        for (row, mask) in tile.passing(products, group).into_iter().enumerate() {
            let mut scores = [0; GROUP_COLUMNS];
            if H::HAS_SCORES && mask != 0 {
                scores = products.0[row];
                for (score, bias) in scores.iter_mut().zip(&group.biases.shifted) {
                    *score = score.wrapping_add(*bias).wrapping_add(tile.biases[row]);
                }
            }
            H::push(hits, tile.first_row + row, group.first_column, mask, &scores);
        }
    });
}

/// Compares tiles of rows with groups of columns; `push` takes the groups with a hit and their
/// products.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn sweep(
    rows: &RowBlock<'_>,
    columns: Columns<'_>,
    mut push: impl FnMut(&Tile, &Products, &Group<'_>),
) {
    // SAFETY: the table with these functions is handed out only where the processor has the level.
    let registers = unsafe { Registers::configure(Parts::of(rows.dim)) };
    let mut products = [const { Products([[0; GROUP_COLUMNS]; TILE_ROWS]) }; 2];
    let mut tile = Tile { operands: Vec::new(), biases: [NEVER; TILE_ROWS], first_row: 0 };
    for first_row in (0..rows.biases.len()).step_by(TILE_ROWS) {
        tile.fill(rows, first_row, registers.parts);
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

/// Rows that are compared together.
struct Tile {
    /// The codes of all rows, part by part.
    operands: Vec<[__m512i; TILE_ROWS]>,
    biases: [i32; TILE_ROWS],
    first_row: usize,
}

impl Tile {
    /// Takes the rows from `first_row` on; rows beyond the block's end never pass.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn fill(&mut self, rows: &RowBlock<'_>, first_row: usize, parts: Parts) {
        let count = TILE_ROWS.min(rows.biases.len() - first_row);
        self.first_row = first_row;
        self.biases = [NEVER; TILE_ROWS];
        self.biases[..count].copy_from_slice(&rows.biases[first_row..][..count]);
        self.operands.resize(parts.count, [_mm512_setzero_si512(); TILE_ROWS]);
        let padding = [SHIFTED_ZERO; REGISTER_BYTES];
        let mut start = 0;
        for operands in &mut self.operands {
            let steps = if start == 0 { parts.first_steps } else { parts.steps };
            let codes = start..start + steps * STEP_DIMS;
            start = codes.end;
            for (row, operand) in operands[..count].iter_mut().enumerate() {
                let row_codes = &rows.shifted_codes[(first_row + row) * rows.dim..][..rows.dim];
                *operand = load_part(&row_codes[codes.clone()]);
            }
            operands[count..].fill(load_part(&padding[..codes.len()]));
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
