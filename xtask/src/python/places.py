"""Has a wheel name no folder of this machine: they are replaced in its bills of materials, and refused elsewhere.

Arguments: the wheel, then folders, each followed by what stands for it.
"""

import base64
import hashlib
import re
import sys
import zipfile

wheel, *words = sys.argv[1:]
folders = {folder.encode(): name.encode() for folder, name in zip(words[::2], words[1::2], strict=True)}
with zipfile.ZipFile(wheel) as old:
    files = {info: old.read(info) for info in old.infolist()}
lines = {}
for info, text in files.items():
    if "/sboms/" in info.filename:
        for folder, name in folders.items():
            text = text.replace(folder + b"/", name + b"/")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        lines[info.filename] = f"{info.filename},sha256={digest},{len(text)}"
        files[info] = text
    for folder in folders:
        if place := re.search(re.escape(folder) + rb"/[!-~]{0,200}", text):
            sys.exit(f"{info.filename} names a folder of this machine: {place[0].decode()}")
for info, text in files.items():
    if info.filename.endswith(".dist-info/RECORD"):
        record = [lines.get(line.split(",")[0], line) for line in text.decode().splitlines()]
        files[info] = ("\n".join(record) + "\n").encode()
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
    for info, text in files.items():
        new.writestr(info, text)
