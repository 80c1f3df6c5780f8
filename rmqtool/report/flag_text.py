"""SYSFLAG in words.

Source: ``MessageSysFlag``, ``CompressionType`` (5.3.3); 4.9.8 has no bits above the sixth.
"""

from __future__ import annotations

from rmqtool.formats import message

_COMPRESSED = 0x1
_COMPRESSION_SHIFT, _COMPRESSION_MASK = 8, 0x7
_COMPRESSIONS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
_TRANSACTIONS = {
    message.TRANSACTION_PREPARED: "transaction prepared",
    message.TRANSACTION_COMMIT: "transaction commit",
    message.TRANSACTION_ROLLBACK: "transaction rollback",
}
_BITS = {
    0x2: "several tags",
    message.BORN_HOST_V6: "IPv6 born host",
    message.STORE_HOST_V6: "IPv6 store host",
    0x40: "batch to unwrap",
    0x80: "inner batch",
}


def sys_flag_text(flag: int) -> str:
    """Return what the bits of a SYSFLAG say; empty for 0."""
    said = []
    if flag & _COMPRESSED:
        kind = _COMPRESSIONS.get(flag >> _COMPRESSION_SHIFT & _COMPRESSION_MASK, "unknown compression")
        said.append(f"compressed, {kind}")
    transaction = _TRANSACTIONS.get(flag & message.TRANSACTION_MASK)
    said += [transaction] if transaction else []
    said += [words for bit, words in _BITS.items() if flag & bit]
    return ", ".join(said)
