"""What vLLM 0.33 has of its sleep mode, by the names and signatures of its wheel."""
