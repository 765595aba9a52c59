"""Pages for a browser: a study's report, and studies side by side."""
