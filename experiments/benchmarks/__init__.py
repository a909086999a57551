"""What `experiments.benchmark` measures, one file for each of its commands."""
