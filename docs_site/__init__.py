"""What the documentation site has beside docs/: pages from other files, tables, the API."""
