"""no-offload.py INTERFACE…: the kernel computes checksums and cuts segments itself, as `ethtool -K INTERFACE tx off tso off gso off gro
off` says, so that frames are whole when a program gets them."""
import array, fcntl, socket, struct, sys

SIOCETHTOOL, STXCSUM, STSO, SGSO, SGRO = 0x8946, 0x17, 0x1F, 0x24, 0x2C
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name in sys.argv[1:]:
    for command in (STSO, SGSO, SGRO, STXCSUM):
        value = array.array("B", struct.pack("II", command, 0))
        request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
        try:
            fcntl.ioctl(s, SIOCETHTOOL, request)
        except OSError as e:
            sys.exit(f"{name}: {command:#x}: {e}")
