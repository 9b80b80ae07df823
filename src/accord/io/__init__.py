"""Files written whole or not at all, tensors without pickle, CSV that is safe in a spreadsheet."""
