"""Takes away from a dead broker's data folder what a power cut could have taken: see lost_tail.c."""
import os
import struct

RECORD = struct.Struct("=4Q")


def certain_lengths(journal):
    """{(device, inode): bytes} that are on disk for certain."""
    try:
        with open(journal, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}
    known = {}
    for device, inode, length, is_cut in RECORD.iter_unpack(data[:len(data) // RECORD.size * RECORD.size]):
        key = device, inode
        known[key] = min(length, known.get(key, 0)) if is_cut else length
    return known


def spoil(path, certain, size, how):
    """What is beyond `certain`: gone, there as zeroes, or gone from its middle on."""
    with open(path, "r+b") as file:
        if how == "zeroes":
            file.seek(certain)
            file.write(bytes(size - certain))
        else:
            file.truncate(certain if how == "gone" else certain + (size - certain) // 2)


def lose(data_folder, journal, rng):
    """Returns how many files lost how many bytes: (files, bytes)."""
    known = certain_lengths(journal)
    files = lost = 0
    for folder, _, names in sorted(os.walk(data_folder)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            status = os.stat(path)
            certain = known.get((status.st_dev, status.st_ino), 0)
            if certain >= status.st_size:
                continue
            spoil(path, certain, status.st_size, rng.choice(("gone", "zeroes", "half")))
            files += 1
            lost += status.st_size - certain
    return files, lost
