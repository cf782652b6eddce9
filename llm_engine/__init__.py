"""Text understanding behind one protocol: embedding labels today, the paged-attention engine and vLLM next."""
