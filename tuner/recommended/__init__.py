"""What a search recommends, as a file that other programs read; light enough to import in each."""
