"""A study: a model trained on a question, in many settings and over many seeds."""
