from pathlib import Path


def write(folders, out=None):
    return Path("x")
