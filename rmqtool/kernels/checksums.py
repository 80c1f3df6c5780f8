"""CRC-32 of a buffer: by carry-less multiplication where the processor has it, else by tables.

The tables take sixteen bytes a step (slicing-by-16): the one for byte b at distance d from the end of a block
holds the CRC of that byte followed by d zero bytes. As CRC is linear, a block of sixteen is the exclusive or
of sixteen entries, which do not wait for each other.

Multiplication is six times the speed of tables. A CRC is the remainder of a polynomial, so sixteen bytes far
from the end may be replaced by their product with the right power of x, sixteen bytes long as well, nearer to
the end (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009,
with all bits reversed). Four such blocks are folded side by side, for the multiplications take several cycles
and do not wait for each other.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.kernels.bytes import as_int, load_word
from rmqtool.kernels.jit import binding, cgutils, inlined, intrinsic, ir, kernel, numba, types

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer

_POLYNOMIAL = 0xEDB88320  # IEEE 802.3, bits reversed
_BLOCK = 16


def _make_tables() -> npt.NDArray[np.uint32]:
    tables = np.zeros((_BLOCK, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = (tables[0] >> 1) ^ np.where(tables[0] & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    for distance in range(1, _BLOCK):
        before = tables[distance - 1]
        tables[distance] = (before >> 8) ^ tables[0][before & 0xFF]
    return tables.reshape(-1)


_TABLES = _make_tables()  # a global is frozen into the compiled kernel; these numbers never change
_TABLE_SIZE = np.uint64(256)
_TABLE_3, _TABLE_7, _TABLE_11, _TABLE_15 = (np.uint64(distance * 256) for distance in (3, 7, 11, 15))
_8, _16, _24, _32 = np.uint64(8), np.uint64(16), np.uint64(24), np.uint64(32)
_ALL_BITS, _BYTE = np.uint64(0xFFFFFFFF), np.uint64(0xFF)


@kernel
def crc32_by_tables(buffer: Buffer, start: int, stop: int, value: int) -> int:
    """Return CRC-32 as ``crc32`` does, on any processor."""
    crc = np.uint64(value) ^ _ALL_BITS
    position = start
    while position + 16 <= stop:
        first = load_word(buffer, position)
        second = load_word(buffer, position + 8)
        # Only the last term waits for the block before, so it comes last.
        rest = _four(first >> _32, _TABLE_11) ^ _four(second, _TABLE_7) ^ _four(second >> _32, _TABLE_3)
        crc = rest ^ _four(first ^ crc, _TABLE_15)
        position += 16
    while position < stop:
        index = (crc ^ np.uint64(buffer[np.uint64(position)])) & _BYTE
        crc = np.uint64(_TABLES[index]) ^ (crc >> _8)
        position += 1
    return as_int(crc ^ _ALL_BITS)


@kernel
def _four(word: np.uint64, table: np.uint64) -> np.uint64:
    """Look up four bytes: the lowest in the table that starts at an entry, each next one table earlier."""
    first = _TABLES[table + (word & _BYTE)] ^ _TABLES[table - _TABLE_SIZE + (word >> _8 & _BYTE)]
    table -= _TABLE_SIZE + _TABLE_SIZE
    second = _TABLES[table + (word >> _16 & _BYTE)] ^ _TABLES[table - _TABLE_SIZE + (word >> _24 & _BYTE)]
    return np.uint64(first ^ second)


_FULL_POLYNOMIAL = 0x104C11DB7
_LEAST_BYTES = 64
"""Fewer are not worth it, and cannot be folded in four lanes."""


def _is_available() -> bool:
    """Whether numba compiles for this very processor, and that has the instruction."""
    config = numba.config
    if config.DISABLE_JIT or config.CPU_NAME not in {None, "", "host"} or config.CPU_FEATURES:
        return False
    return platform.machine() in {"x86_64", "AMD64"} and bool(binding.get_host_cpu_features().get("pclmul"))


_CAN_FOLD = _is_available()


def _power(exponent: int) -> np.uint64:
    """Return x to a power modulo the polynomial, its bits reversed, as the reversed product needs it."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        value ^= _FULL_POLYNOMIAL if value >> 32 else 0
    return np.uint64(int(f"{value:032b}"[::-1], 2) << 1)


def _quotient() -> np.uint64:
    """Return x^64 divided by the polynomial, its bits reversed: Barrett's factor."""
    rest, quotient = 1 << 64, 0
    for shift in range(32, -1, -1):
        if rest >> (shift + 32) & 1:
            rest ^= _FULL_POLYNOMIAL << shift
            quotient |= 1 << shift
    return np.uint64(int(f"{quotient:033b}"[::-1], 2))


# By how many bits a block moves: four blocks, or one; its high word needs 64 bits less than its low one.
_FAR = _power(4 * 128 + 32), _power(4 * 128 - 32)
_NEAR = _power(128 + 32), _power(128 - 32)
_NEAR_HIGH = _NEAR[1]
_LAST = _power(64)
_QUOTIENT = _quotient()
_REVERSED = np.uint64(int(f"{_FULL_POLYNOMIAL:033b}"[::-1], 2))


_LANES = 4
_WORD, _LANE, _IR_BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_PAIR = ir.VectorType(_WORD, 2)
_LOW_WORDS, _HIGH_WORDS = 0x00, 0x11  # which words of two blocks the instruction multiplies


def _product(builder: Any, left: Any, right: Any, words: int) -> Any:  # noqa: ANN401 - numba's own objects
    """Emit the instruction: a word of either block, multiplied without carries into a block."""
    function_type = ir.FunctionType(_PAIR, [_PAIR, _PAIR, _IR_BYTE])
    instruction = cgutils.get_or_insert_function(builder.module, function_type, "llvm.x86.pclmulqdq")
    return builder.call(instruction, [left, right, ir.Constant(_IR_BYTE, words)])


def _words(builder: Any, block: Any) -> list[Any]:  # noqa: ANN401 - likewise
    return [builder.extract_element(block, ir.Constant(_LANE, number)) for number in (0, 1)]


@intrinsic  # type: ignore[untyped-decorator] # numba has no types
def _multiply(_context: Any, left: Any, right: Any) -> Any:  # noqa: ANN401 - likewise
    """Multiply two words without carries; the product's low and high word."""
    signature = types.UniTuple(types.uint64, 2)(left, right)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        zeros, low = ir.Constant(_PAIR, None), ir.Constant(_LANE, 0)
        left, right = (builder.insert_element(zeros, argument, low) for argument in arguments)
        words = _words(builder, _product(builder, left, right, _LOW_WORDS))
        return context.make_tuple(builder, signature.return_type, words)

    return signature, generate


class _Folding:
    """Generator of the folding of blocks, which stay in vector registers, from the buffer's first byte."""

    def __init__(self, builder: Any, data: Any) -> None:  # noqa: ANN401 - likewise
        self._builder, self._data = builder, data

    def load(self, position: Any) -> Any:  # noqa: ANN401 - likewise
        pointer = self._builder.gep(self._data, [position])
        return self._builder.load(self._builder.bitcast(pointer, _PAIR.as_pointer()), align=1)

    def load_lanes(self, position: Any) -> list[Any]:  # noqa: ANN401 - likewise
        offsets = (ir.Constant(_WORD, number * _BLOCK) for number in range(_LANES))
        return [self.load(self._builder.add(position, offset)) for offset in offsets]

    def onto(self, block: Any, powers: tuple[np.uint64, np.uint64], other: Any) -> Any:  # noqa: ANN401 - likewise
        """Move a block onto another one nearer to the end."""
        factors = ir.Constant(_PAIR, [int(power) for power in powers])
        low = _product(self._builder, block, factors, _LOW_WORDS)
        high = _product(self._builder, block, factors, _HIGH_WORDS)
        return self._builder.xor(self._builder.xor(low, high), other)

    def all(self, start: Any, stop: Any, state: Any) -> Any:  # noqa: ANN401 - likewise
        """Fold whole blocks, at least four, into one."""
        builder, step = self._builder, ir.Constant(_WORD, _LANES * _BLOCK)
        lanes = self.load_lanes(start)
        first = builder.insert_element(ir.Constant(_PAIR, None), state, ir.Constant(_LANE, 0))
        lanes[0] = builder.xor(lanes[0], first)
        slots = [cgutils.alloca_once_value(builder, lane) for lane in lanes]
        rounds = builder.sub(builder.udiv(builder.sub(stop, start), step), ir.Constant(_WORD, 1))
        with cgutils.for_range(builder, rounds, intp=_WORD) as loop:
            position = builder.add(start, builder.mul(builder.add(loop.index, ir.Constant(_WORD, 1)), step))
            for slot, block in zip(slots, self.load_lanes(position), strict=True):
                builder.store(self.onto(builder.load(slot), _FAR, block), slot)
        rest = slots[0]
        for slot in slots[1:]:
            builder.store(self.onto(builder.load(rest), _NEAR, builder.load(slot)), rest)
        done = builder.add(start, builder.mul(builder.add(rounds, ir.Constant(_WORD, 1)), step))
        blocks = builder.udiv(builder.sub(stop, done), ir.Constant(_WORD, _BLOCK))
        with cgutils.for_range(builder, blocks, intp=_WORD) as loop:
            position = builder.add(done, builder.mul(loop.index, ir.Constant(_WORD, _BLOCK)))
            builder.store(self.onto(builder.load(rest), _NEAR, self.load(position)), rest)
        return builder.load(rest)


@intrinsic  # type: ignore[untyped-decorator] # likewise
def _fold(_context: Any, buffer: Any, _start: Any, _stop: Any, _state: Any) -> Any:  # noqa: ANN401 - likewise
    """Fold the blocks of ``_fold_blocks``; the last one's low and high word."""
    signature = types.UniTuple(types.uint64, 2)(buffer, types.int64, types.int64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - likewise
        array, start, stop, state = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        block = _Folding(builder, data).all(start, stop, state)
        return context.make_tuple(builder, signature.return_type, _words(builder, block))

    return signature, generate


@kernel
def _reduce(low: np.uint64, high: np.uint64) -> np.uint64:
    """Return the remainder of the last block: from 128 bits to 64, and by Barrett to 32."""
    product_low, product_high = _multiply(low, _NEAR_HIGH)
    low, high = high ^ product_low, product_high
    product_low, product_high = _multiply(low & _ALL_BITS, _LAST)
    rest = (low >> _32 | high << _32) ^ product_low
    multiple, _ = _multiply(rest & _ALL_BITS, _QUOTIENT)
    multiple, _ = _multiply(multiple & _ALL_BITS, _REVERSED)
    return np.uint64((rest ^ multiple) >> _32)


@kernel
def _fold_blocks(buffer: Buffer, start: int, stop: int, state: np.uint64) -> np.uint64:
    """Fold whole blocks of sixteen bytes, at least ``_LEAST_BYTES``, into the state of a CRC-32.

    The state is all ones at first, else the inverted CRC-32 of the bytes before; inverted, the result is the
    CRC-32.
    """
    low, high = _fold(buffer, start, stop, state)
    return _reduce(low, high)


if _CAN_FOLD:

    @kernel
    def crc32(buffer: Buffer, start: int, stop: int, value: int) -> int:
        """Return CRC-32 (IEEE) of the bytes from start to stop, all 32 bits.

        BODYCRC is this without the sign bit (``UtilAll#crc32``, 4.9.8, 5.3.3). ``value`` is the CRC-32 of the
        bytes before these, 0 for none.
        """
        if stop - start >= _LEAST_BYTES:
            blocks_stop = stop - ((stop - start) & (_BLOCK - 1))
            state = _fold_blocks(buffer, start, blocks_stop, np.uint64(value) ^ _ALL_BITS)
            value, start = as_int(state ^ _ALL_BITS), blocks_stop
        return crc32_by_tables(buffer, start, stop, value)

else:
    crc32 = crc32_by_tables

_CRC_MASK = 0x7FFFFFFF


@inlined
def masked_crc32(buffer: Buffer, start: int, stop: int) -> int:
    """Return CRC-32 of a range without the sign bit, as BODYCRC and ``__CRC32#`` are."""
    return crc32(buffer, start, stop, 0) & _CRC_MASK
