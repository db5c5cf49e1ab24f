"""Tests of the shape of RMM's."""
