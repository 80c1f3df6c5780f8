"""CRC-32 by carry-less multiplication, where the processor has it: three times the speed of tables.

A CRC is the remainder of a polynomial, so sixteen bytes far from the end may be replaced by their product
with the right power of x, sixteen bytes long as well, nearer to the end (Gopal et al., "Fast CRC Computation
for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009, with all bits reversed). Four such blocks
are folded side by side, for the multiplications take several cycles and do not wait for each other.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped] # as numba, which brings it
from numba.core import cgutils, types
from numba.extending import intrinsic

from rmqtool.javacompat.kernels.jit import load_word
from rmqtool.jit import kernel

if TYPE_CHECKING:
    from rmqtool.javacompat.kernels.jit import Buffer

_POLYNOMIAL = 0x104C11DB7
LEAST_BYTES = 64
"""Fewer are not worth it, and cannot be folded four abreast."""


def _is_available() -> bool:
    """Whether numba compiles for this very processor, and that has the instruction."""
    config = numba.config
    if config.DISABLE_JIT or config.CPU_NAME not in {None, "", "host"} or config.CPU_FEATURES:
        return False
    return platform.machine() in {"x86_64", "AMD64"} and bool(binding.get_host_cpu_features().get("pclmul"))


AVAILABLE = _is_available()


def _power(exponent: int) -> np.uint64:
    """Return x to a power modulo the polynomial, its bits reversed, as the reversed product needs it."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        value ^= _POLYNOMIAL if value >> 32 else 0
    return np.uint64(int(f"{value:032b}"[::-1], 2) << 1)


def _quotient() -> np.uint64:
    """Return x^64 divided by the polynomial, its bits reversed: Barrett's factor."""
    rest, quotient = 1 << 64, 0
    for shift in range(32, -1, -1):
        if rest >> (shift + 32) & 1:
            rest ^= _POLYNOMIAL << shift
            quotient |= 1 << shift
    return np.uint64(int(f"{quotient:033b}"[::-1], 2))


# By how many bits a block moves: four blocks, or one; its high word needs 64 bits less than its low one.
_FAR_LOW, _FAR_HIGH = _power(4 * 128 + 32), _power(4 * 128 - 32)
_NEAR_LOW, _NEAR_HIGH = _power(128 + 32), _power(128 - 32)
_LAST = _power(64)
_QUOTIENT = _quotient()
_REVERSED = np.uint64(int(f"{_POLYNOMIAL:033b}"[::-1], 2))
_32, _LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)


@intrinsic  # type: ignore[untyped-decorator] # numba has no types
def _multiply(_context: Any, one: Any, other: Any) -> Any:  # noqa: ANN401 - numba's own objects
    """Multiply two words without carries; the product's low and high word."""
    signature = types.UniTuple(types.uint64, 2)(one, other)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        word, lane, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8)
        pair = ir.VectorType(word, 2)
        instruction = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(pair, [pair, pair, byte]), "llvm.x86.pclmulqdq"
        )
        zeros, low, high = ir.Constant(pair, None), ir.Constant(lane, 0), ir.Constant(lane, 1)
        operands = [builder.insert_element(zeros, argument, low) for argument in arguments]
        product = builder.call(instruction, [*operands, ir.Constant(byte, 0)])
        words = [builder.extract_element(product, low), builder.extract_element(product, high)]
        return context.make_tuple(builder, signature.return_type, words)

    return signature, generate


@kernel
def _fold(
    low: np.uint64, high: np.uint64, low_power: np.uint64, high_power: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Move a block of sixteen bytes towards the end."""
    one_low, one_high = _multiply(low, low_power)
    two_low, two_high = _multiply(high, high_power)
    return one_low ^ two_low, one_high ^ two_high


@kernel
def _reduce(low: np.uint64, high: np.uint64) -> np.uint64:
    """Return the remainder of the last block: from 128 bits to 64, and by Barrett to 32."""
    product_low, product_high = _multiply(low, _NEAR_HIGH)
    low, high = high ^ product_low, product_high
    product_low, product_high = _multiply(low & _LOW_HALF, _LAST)
    rest = (low >> _32 | high << _32) ^ product_low
    multiple, _ = _multiply(rest & _LOW_HALF, _QUOTIENT)
    multiple, _ = _multiply(multiple & _LOW_HALF, _REVERSED)
    return np.uint64((rest ^ multiple) >> _32)


@kernel
def fold_blocks(buffer: Buffer, start: int, stop: int, state: np.uint64) -> np.uint64:
    """Take whole blocks of sixteen bytes into the state of a CRC-32.

    Args:
        buffer: Bytes, ``(n,)`` uint8.
        start: Position of the first byte.
        stop: Position after the last byte; at least ``LEAST_BYTES`` from the first, a multiple of 16.
        state: The register before: all ones, or the inverted CRC-32 of the bytes before these.

    Returns:
        The register after; inverted it is the CRC-32.
    """
    a, b = load_word(buffer, start) ^ state, load_word(buffer, start + 8)
    c, d = load_word(buffer, start + 16), load_word(buffer, start + 24)
    e, f = load_word(buffer, start + 32), load_word(buffer, start + 40)
    g, h = load_word(buffer, start + 48), load_word(buffer, start + 56)
    position = start + 64
    while position + 64 <= stop:
        a, b = _fold(a, b, _FAR_LOW, _FAR_HIGH)
        c, d = _fold(c, d, _FAR_LOW, _FAR_HIGH)
        e, f = _fold(e, f, _FAR_LOW, _FAR_HIGH)
        g, h = _fold(g, h, _FAR_LOW, _FAR_HIGH)
        a, b = a ^ load_word(buffer, position), b ^ load_word(buffer, position + 8)
        c, d = c ^ load_word(buffer, position + 16), d ^ load_word(buffer, position + 24)
        e, f = e ^ load_word(buffer, position + 32), f ^ load_word(buffer, position + 40)
        g, h = g ^ load_word(buffer, position + 48), h ^ load_word(buffer, position + 56)
        position += 64
    a, b = _fold(a, b, _NEAR_LOW, _NEAR_HIGH)
    a, b = _fold(a ^ c, b ^ d, _NEAR_LOW, _NEAR_HIGH)
    a, b = _fold(a ^ e, b ^ f, _NEAR_LOW, _NEAR_HIGH)
    a, b = a ^ g, b ^ h
    while position + 16 <= stop:
        a, b = _fold(a, b, _NEAR_LOW, _NEAR_HIGH)
        a, b = a ^ load_word(buffer, position), b ^ load_word(buffer, position + 8)
        position += 16
    return _reduce(a, b)
