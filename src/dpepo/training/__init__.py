"""Training: supervised fine-tuning on demonstrations, then reinforcement learning."""
