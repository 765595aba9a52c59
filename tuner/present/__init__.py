"""Tell and draw: tables, sentences, notes, progress, figures, pages."""
