"""Engines that hold rows and count them: one file for each."""
