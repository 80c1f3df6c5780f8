"""Tests of ``rmqtool.engine``: one contract for every engine, then what only Spark can get wrong."""
