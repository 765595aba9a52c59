"""What the tests and the lab both use: fakes, programs, made studies, planted traces."""
