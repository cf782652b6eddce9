"""Opening, probing and decoding untrusted media. Runs inside the decoder processes."""
