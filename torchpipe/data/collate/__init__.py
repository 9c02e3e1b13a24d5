"""Samples into batches."""
