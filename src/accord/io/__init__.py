"""Files: written whole or not at all, tensors without pickle, tables that are safe in a spreadsheet."""
